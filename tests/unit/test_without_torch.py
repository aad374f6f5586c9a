"""What an exported model does is done without torch, which takes 200 MB and seconds."""

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from transformer_cli.runs.export import export
from transformer_cli.translator import Translator

ROOT = Path(__file__).parents[2]

RUN_COMMANDS = """\
import json, os, signal, socket, sys, threading, time, urllib.request
from transformer_cli.commands.app import main

run, source, target = sys.argv[1:]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
answers = []

def ask():
    body = json.dumps({"q": "Der Hund läuft.", "source": "de", "target": "en"}).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"})
    while not answers:
        try:
            answers.append(json.load(urllib.request.urlopen(asked)))
        except OSError:
            time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)

for arguments, expected in (
    (["translate", "--run", run, "Der Hund läuft."], 0),
    (["score", "--run", run, "--input", source, "--target", target], 0),
    (["evaluate", "--run", run, "--input", source, "--reference", target], 0),
    (["serve", "--run", run, "--port", str(port)], 128 + signal.SIGTERM),
):
    threading.Thread(target=ask).start() if arguments[0] == "serve" else None
    try:
        main(arguments)
    except SystemExit as ended:
        assert ended.code == expected, (arguments, ended.code)
    assert "torch" not in sys.modules, arguments
print(json.dumps(answers), file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["translator", "by_subwords"])
def test_an_export_is_translated_scored_evaluated_and_served_without_torch(
    kind: str, request: pytest.FixtureRequest, corpus: Path, tmp_path: Path
) -> None:
    translator: Translator = request.getfixturevalue(kind)
    folder = export(translator.run.folder, tmp_path / "export").folder
    for language in ("de", "en"):
        lines = (corpus / f"test.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / language).write_text("".join(lines[:5]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS, folder, tmp_path / "de", tmp_path / "en"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stderr.splitlines()[-1])
    assert answer == {"translatedText": Translator.load(folder).translate(["Der Hund läuft."])[0]}


RUN_BARE = """\
import sys
sys.modules.update(dict.fromkeys(sys.argv[2].split(",")))  # they cannot be imported
from transformer_cli.commands.app import main

for arguments in (["translate", "--run", sys.argv[1], "Der Hund läuft."], ["doctor"], ["serve", "--help"]):
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
try:
    main(["runs"])
except SystemExit as ended:
    assert ended.code == 1
import transformer_cli.serve.app, transformer_cli.serve.server
"""


def test_an_export_needs_no_more_than_the_list_of_what_runs_it(by_subwords: Translator, tmp_path: Path) -> None:
    listed = re.findall(r"^([A-Za-z0-9-]+)", (ROOT / "runtime.txt").read_text(encoding="utf-8"), re.MULTILINE)
    declared = {each: re.split(r"[^A-Za-z0-9._-]", each)[0] for each in requires("transformer-cli") or []}
    of_package = {name for library, names in packages_distributions().items() for name in names}
    assert {*listed} <= {*declared.values()}
    others = {name for name in declared.values() if name not in listed and name in of_package} - {"transformer-cli"}
    modules = [library for library, names in packages_distributions().items() if {*names} & others]
    folder = export(by_subwords.run.folder, tmp_path / "export").folder
    done = subprocess.run(
        [sys.executable, "-c", RUN_BARE, folder, ",".join(modules)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {"torch", "torchtext", "spacy"} <= {*modules}
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(Translator.load(folder).translate(["Der Hund läuft."])[0])
    assert "torch is not installed" in done.stdout
    assert done.stderr.startswith("tfm: error: this command needs ")
    assert done.stderr.endswith(", which is not installed; install tfm with all that it needs, as README.md says\n")
