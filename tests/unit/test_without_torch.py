"""Exported models work without torch, and with the libraries of runtime.txt only."""

import json
import re
import signal
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from transformer_cli import Translator
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.runtime import RUNTIME

RUN_COMMANDS = """\
import json, os, signal, socket, sys, threading, time, urllib.request
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))  # they cannot be imported
from transformer_cli.commands.app import main

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

for arguments, expected in json.loads(sys.argv[2]):
    if arguments[0] == "serve":
        threading.Thread(target=ask).start()
        arguments += ["--port", str(port)]
    try:
        main(arguments)
    except SystemExit as ended:
        assert (ended.code or 0) == expected, (arguments, ended.code)
    if arguments[0] == "translate":  # a plain sentence
        unused = {"adapters.documents.parsers", "adapters.study.compare", "adapters.corpora.formats"}
        assert not {f"transformer_cli.{name}" for name in unused} & {*sys.modules}
print(json.dumps(answers), file=sys.stderr)
"""


def not_listed() -> list[str]:
    """Returns the modules of tfm's dependencies that are not in runtime.txt."""
    listed = re.findall(r"^(\w[\w-]+)", RUNTIME.read_text(encoding="utf-8"), re.MULTILINE)
    declared = {re.split(r"[^A-Za-z0-9._-]", each)[0] for each in requires("transformer-cli") or []}
    assert {*listed} <= declared
    others = declared - {*listed, "transformer-cli"}
    return [module for module, names in packages_distributions().items() if {*names} & others]


@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_export_works_without_torch(
    kind: str, translator: Translator, by_subwords: Translator, corpus: Path, tmp_path: Path
) -> None:
    of_words = kind == "words"
    folder = export((translator if of_words else by_subwords).run.folder, tmp_path / "export").folder
    run = ["--run", str(folder)]
    files = {language: str(tmp_path / language) for language in ("de", "en")}
    for language, path in files.items():
        lines = (corpus / f"test.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        Path(path).write_text("".join(lines[:5]), encoding="utf-8")
    commands = [
        (["translate", *run, "Der Hund läuft."], 0),
        (["score", *run, "--input", files["de"], "--translation", files["en"]], 0),
        (["evaluate", *run, "--input", files["de"], "--reference", files["en"]], 0) if of_words else (["train"], 1),
        (["runs"], 0),
        (["doctor"], 0),
        (["serve", *run], 128 + signal.SIGTERM),
    ]
    gone = ["torch"] if of_words else not_listed()
    assert of_words or {"torch", "torchtext", "spacy"} <= {*gone}
    command = [sys.executable, "-c", RUN_COMMANDS, json.dumps(gone), json.dumps(commands)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, answers = done.stderr.splitlines()
    (text,) = Translator(folder).translate(["Der Hund läuft."])
    assert json.loads(answers) == [{"translatedText": text}]
    assert done.stdout.startswith(text)
    assert "only exported models can be used" in done.stdout
    needs = [line.partition("needs ")[2] for line in said if line.startswith("tfm: error: this command needs ")]
    assert len(needs) == (not of_words)
    assert all("install tfm as README.md says" in line for line in needs)


def test_wheel_alone_names_its_list_and_what_it_lacks() -> None:
    alone = [sys.executable, "-S", "-m"]  # without site-packages
    root = RUNTIME.parents[1]
    listed = subprocess.run([*alone, "transformer_cli.runtime"], cwd=root, capture_output=True, text=True, check=True)
    assert listed.stdout == f"{RUNTIME}\n"
    done = subprocess.run([*alone, "transformer_cli", "doctor"], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("tfm: error: tfm needs typer, which is not installed; ")
