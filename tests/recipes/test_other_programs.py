"""The commands of docs/documents.md that convert other formats there and back; each runs where it is installed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kinds import Tfm

PAGE = Path(__file__).parents[2] / "docs" / "documents.md"
PROGRAMS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
COMMANDS = re.findall(r"^\| [^|`]+ \| `([^`]+)` \| `([^`]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
DOG, CAT = SENTENCES = ("Der alte Hund singt im Park.", "Die Katze schläft.")
FILES = {
    "app.properties": f"# Park\nmenu.title={DOG}\nitem={CAT}\n",
    "app.resx": f"<root><data name='a' xml:space='preserve'><value>{DOG}</value></data></root>",
    "app.yaml": f"menu:\n  title: {DOG}\nitems:\n- {CAT}\n",
    "letter.html": f"<p><b>{DOG}</b> {CAT}</p>",
}


def run(command: str, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": PROGRAMS}
    subprocess.run(shlex.split(command), cwd=folder, env=environment, check=True, capture_output=True)


def bare(text: str) -> str:
    """Returns a text without what a program may write anew."""
    return re.sub(r"<\?.*?\?>|<comment>.*?</comment>|[\s'\"]", "", text, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(*each, id=each[0].split()[0], marks=[pytest.mark.long] * ("soffice" in each[0]))
        for each in COMMANDS
    ],
)
def test_other_program_converts_there_and_back(
    tfm: Tfm, project: Path, tmp_path: Path, before: str, after: str
) -> None:
    program, name, result = before.split()[0], after.split()[-2], after.split()[-1]
    if not shutil.which(program, path=PROGRAMS):
        pytest.skip(f"{program} is not installed")
    for each, text in FILES.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    if program == "soffice":
        name = result
        run("soffice --headless --infilter='HTML (StarWriter)' --convert-to rtf letter.html", tmp_path)
    run(before, tmp_path)
    source = tmp_path / name.replace(".en", "")
    assert tfm("translate", "--input", source, "--output", tmp_path / name, cwd=project)[0] == 0
    run(after, tmp_path)
    words = tfm("translate", *SENTENCES, cwd=project)[1].split("\n")
    if program == "soffice":
        run("soffice --headless --convert-to txt:Text letter.en.rtf", tmp_path)
        assert " ".join(words[:2]) in (tmp_path / "letter.en.txt").read_text(encoding="utf-8-sig")
    else:
        expected = FILES[result.replace(".en", "")]
        for sentence, translation in zip(SENTENCES, words, strict=False):
            expected = expected.replace(sentence, translation)
        assert bare((tmp_path / result).read_text(encoding="utf-8")) == bare(expected)


def test_other_program_commands_are_in_the_page() -> None:
    assert [before.split()[0] for before, _ in COMMANDS] == ["prop2po", "resx2po", "yaml2po", "soffice"]
