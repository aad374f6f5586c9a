"""The main commands from end to end: prepare, train, evaluate, translate, inspect. `make demo` runs this script.

Uses Multi30k, from the folder in TFM_MULTI30K_DIR or by download; if `tfm prepare` fails, the embedded corpus.
"""

import shlex
import subprocess
import sys
import time

SENTENCES = {
    "demo": (
        "Ein Hund läuft am Strand.",
        "Zwei Männer spielen Fußball im Park.",
        "Eine junge Frau in einem roten Kleid sitzt auf einer Bank.",
    ),
    "demo-captions": (
        "Ein kleiner Hund läuft durch den Park.",
        "Am Strand spielen zwei Kinder.",
        "Die junge Frau schaut einen alten Mann an.",
    ),
}


def main() -> None:
    """Runs the commands. The first one that fails, except the one for Multi30k, ends the demo with its exit code."""
    started, name = time.monotonic(), "demo"
    if tfm("prepare", "--config", name):
        name = "demo-captions"
        print("\nMulti30k is not available, so this demo uses the embedded corpus instead.")
    test = "test_2016_flickr" if name == "demo" else "test"
    for arguments in (
        *([] if name == "demo" else [("prepare", "--config", name)]),
        ("train", "--config", name),
        ("evaluate", "--run", name, "--split", test, "--split", "valid"),
        ("evaluate", "--run", name, "--split", test, "--beam-size", "5"),
        ("translate", "--run", name, *SENTENCES[name]),
        ("inspect", "--run", name, "--attention", "cross", "--output", f"runs/{name}/inspect.png", SENTENCES[name][-1]),
    ):
        if code := tfm(*arguments):
            sys.exit(code)
    print(f"\n`tfm export {name}` and `tfm serve --run exports/{name}` translate faster (docs/translate.md).")
    print(f"The whole demo took {time.monotonic() - started:.0f} s.")


def tfm(*arguments: str) -> int:
    """Runs a tfm command. Returns its exit code."""
    print(f"\n$ tfm {shlex.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "transformer_cli", *arguments]).returncode


if __name__ == "__main__":
    main()
