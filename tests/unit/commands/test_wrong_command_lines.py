"""Wrong command lines: wrong_command_lines.txt has what each gets on standard error."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kinds import Tfm
from tables import read_tables
from transformer_cli.adapters.documents.files import FORMATS, PLAIN_TEXT

DOCUMENTS = ", ".join(each for each in FORMATS if each != PLAIN_TEXT)
ROWS = read_tables(Path(__file__).with_name("wrong_command_lines.txt"), FORMATS=DOCUMENTS)[""]
CONFIGS = {
    "empty.yaml": b"",
    "list.yaml": b"- training\n",
    "text.yaml": b"training\n",
    "latin1.yaml": "name: grün\n".encode("latin-1"),
    "json.yaml": b'{"training": {"epochs": "3"}}',
    "documents.yaml": b"name: a\n---\nname: b\n",
    "letter.docx": b"PK\x03\x04" + bytes(26) + b"word/document.xml",
    "other.yaml": b"name: other\n",
    "memory.tsv": b"Der Hund\tThe dog\n",
    "train.de": b"Der Hund\n",
    "train.en": b"The dog\n",
}


LIGHT = """\
import sys
from contextlib import suppress
import transformer_cli.config.load
from transformer_cli.commands import suggestions
from transformer_cli.commands.app import main
suggestions.runs(), suggestions.splits(), suggestions.settings(), suggestions.configs()
print('loaded:', *sorted({'torch', 'spacy', 'numpy', 'rich'} & set(sys.modules)), flush=True)
for line in sys.argv[1:]:
    with suppress(SystemExit):
        main(line.split())
print('loaded:', *sorted({'torch', 'spacy', 'matplotlib', 'rich'} & set(sys.modules)), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in CONFIGS.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("line", "said"), ROWS, ids=[line for line, _ in ROWS])
def test_wrong_command_line_prints_its_error(tfm: Tfm, folder: Path, line: str, said: str) -> None:
    name, *arguments = shlex.split(line)
    assert name == "tfm"
    code, out, err = tfm(*arguments, cwd=folder)
    *usage, last = err.removesuffix("\n").split("\n")
    assert out == ""
    assert code == (1 if said.startswith("tfm: error: ") else 2)
    assert last.startswith("tfm: error: ")
    rest, said = (
        each.removeprefix("tfm: ").removeprefix("error: ") for each in (last, said.replace("Error", "error", 1))
    )
    if said.startswith("… "):
        for part in said.split("… ")[1:]:
            part, rest = part.strip().casefold(), rest.casefold()  # versions of Typer differ in their capitals
            assert part in rest, last
            rest = rest.partition(part)[2]
    else:
        assert rest == said
    assert usage == [] or (code == 2 and usage[0].startswith("Usage: tfm"))
    assert sorted(path.name for path in folder.iterdir()) == sorted(CONFIGS)


def test_errors_and_completion_import_no_torch(tmp_path: Path) -> None:
    """Completion, the settings of a config, and errors about unknown runs."""
    lines = [
        *("translate Hallo --run none", "evaluate --run none", "score --input a --translation b --run none"),
        *("inspect Hallo --run none", "curves none", "export none", "config demo --set training.seed=3"),
    ]
    done = subprocess.run([sys.executable, "-c", LIGHT, *lines], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.count("loaded:\n") == 2, done.stdout
    assert done.stderr == "tfm: error: runs/none: no such run; runs/ has none\n" * 6
