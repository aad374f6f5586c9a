"""The main commands from end to end: prepare, train, evaluate, translate, inspect. `make demo` runs this script.

It uses Multi30k, from the folder in TFM_MULTI30K_DIR or else by download. If Multi30k is not available, a line says so,
and the embedded corpus takes its place.
"""

import logging
import shlex
import subprocess
import sys
import time

from transformer_cli.adapters.corpora.corpora import open_corpus
from transformer_cli.config.load import load_config
from transformer_cli.errors import DownloadError, TfmError

SENTENCES = {
    "multi30k": (
        "Ein Hund läuft am Strand.",
        "Zwei Männer spielen Fußball im Park.",
        "Eine junge Frau in einem roten Kleid sitzt auf einer Bank.",
    ),
    "captions": (
        "Ein kleiner Hund läuft durch den Park.",
        "Am Strand spielen zwei Kinder.",
        "Die junge Frau schaut einen alten Mann an.",
    ),
}


def main() -> None:
    """Run the commands, and print each of them as a user would type it."""
    started = time.monotonic()
    corpus = choose_corpus()
    config = "demo" if corpus == "multi30k" else "demo-captions"
    name = load_config(config).run_name
    tfm("prepare", "--config", config)
    tfm("train", "--config", config)
    tfm("evaluate", "--run", name, *(["--split", "test_2016_flickr"] if corpus == "multi30k" else []))
    tfm("translate", "--run", name, *SENTENCES[corpus])
    tfm("inspect", "--run", name, "--kind", "cross", "--output", f"runs/{name}/inspect.png", SENTENCES[corpus][-1])
    print(f"\nThe whole demo took {time.monotonic() - started:.0f} s.")


def choose_corpus() -> str:
    """Returns multi30k if its files are available; else prints the reason and returns captions."""
    logging.getLogger("transformer_cli").addHandler(logging.NullHandler())  # `tfm prepare` will say the same again
    try:
        open_corpus(load_config("demo").data)
    except DownloadError as error:
        print(f"Multi30k is not available, so this demo uses the embedded corpus instead: {error}")
        return "captions"
    except TfmError as error:
        sys.exit(f"demo: error: {error}")
    return "multi30k"


def tfm(*arguments: str) -> None:
    """Run a tfm command; its failure ends the demo with its exit code."""
    print(f"\n$ tfm {shlex.join(arguments)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "transformer_cli", *arguments]).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
