"""The input of commands: sentences as arguments, formats of files, pipes, runs as arguments, locales."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forked import Forks
from kinds import Tfm
from tables import read_tables
from transformer_cli.adapters.documents.files import FORMATS, PLAIN_TEXT

SENTENCE = "Der alte Hund singt im Park."
CALLED_TWICE = """\
import sys
from transformer_cli.commands.app import main

for name in sys.argv[1:]:
    try:
        main(["config", name])
    except SystemExit:
        pass
"""


def test_translate_unquoted_words_warns(tfm: Tfm, project: Path) -> None:
    code, out, err = tfm("translate", "Hund", "singt.", cwd=project)
    assert (code, out.count("\n")) == (0, 2)
    what = 'warning: 2 arguments are read as 2 sentences; if they are one, quote it: "Hund singt."\n'
    assert err.startswith(what)  # the model answers with sentences, which are too long
    assert tfm("translate", SENTENCE, SENTENCE, cwd=project)[2] == ""


@pytest.mark.parametrize("options", [(), ("--json",), ("--n-best", "2", "--beam-size", "2")])
def test_translate_argument_with_lines_equals_a_file(
    tfm: Tfm, project: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    text, path = f"{SENTENCE}\r\n\nDer Hund singt.\n", tmp_path / "in.de"
    path.write_text(text, encoding="utf-8", newline="")
    assert tfm("translate", *options, text, cwd=project) == tfm("translate", *options, "-i", path, cwd=project)


def test_translate_file_name_as_sentence_warns(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.de"
    path.write_text(SENTENCE, encoding="utf-8")
    said = f"warning: {path} is read as a sentence; `--input {path}` translates the file with this name\n"
    assert tfm("translate", path, cwd=project)[2].startswith(said)  # then perhaps of its numbers


DOCUMENTS = ", ".join(each for each in FORMATS if each != PLAIN_TEXT)
OTHER_FORMATS = read_tables(Path(__file__).with_name("other_formats.txt"), FORMATS=DOCUMENTS)[""]


@pytest.mark.parametrize(("file", "said"), OTHER_FORMATS)
def test_translate_file_of_another_format_is_refused(
    tfm: Tfm, project: Path, tmp_path: Path, file: str, said: str
) -> None:
    name, _, content = file.partition(": ")
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    remedy = "or translate its lines, markup included, by `--format text`"
    assert tfm("translate", "-i", path, cwd=project) == (1, "", f"tfm: error: {path}: {said}, {remedy}\n")
    assert tfm("translate", "-i", path, "--format", "text", cwd=project)[0] == 0


@pytest.mark.parametrize(
    "name",
    ["notes", "1. Kapitel", "a.text", "a.de_AT", "a.FO", "a.gsw", "a.bar_Latn", "a.ref2", "a.001", "a.de.tok.gz"],
)
def test_translate_plain_text_by_its_name(tfm: Tfm, project: Path, tmp_path: Path, name: str) -> None:
    content = f"{SENTENCE}\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert tfm("translate", "-i", tmp_path / name, cwd=project) == tfm("translate", SENTENCE, cwd=project)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "Hund\n", "a table (CSV)"), ("a.tsv", "1\n", "a table (TSV)"),
        ("a.de", '{"a": "Hund"}\n', "apparently JSON"),
    ],
)  # fmt: skip
def test_translate_file_that_may_be_plain_text_warns(
    tfm: Tfm, project: Path, tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    code, _, err = tfm("translate", "-i", tmp_path / name, cwd=project)
    assert code == 0
    assert err.startswith(f"warning: {tmp_path / name}: {said}; each of its lines is read as a sentence")


@pytest.mark.parametrize(("name", "what"), [("a.html", "an HTML document"), ("a.txt", "plain text")])
def test_translate_document_name_as_sentence_is_refused(
    tfm: Tfm, project: Path, tmp_path: Path, name: str, what: str
) -> None:
    page = tmp_path / name
    page.write_bytes(b"")
    code, out, err = tfm("translate", page, cwd=project)
    assert (code, out) == (2, "")
    assert err.endswith(f"{page} is {what}; `--input {page}` translates it\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04" + bytes(26) + b"word/document.xml", "error: standard input: a Word document (DOCX); export its"),
        (b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.adobe.indesign-idml-package",
         "error: standard input: an InDesign document (IDML); convert it by `idml2po`"),
        (b"%PDF-1.7\n\xe2", "error: standard input: a PDF; save it as .docx"),
        (b"WEBVTT\n", "error: standard input: apparently subtitles (WebVTT); use `--format srt`"),
    ],
)  # fmt: skip
def test_translate_stdin_of_another_format_is_refused(
    forks: Forks, project: Path, tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "in").write_bytes(content)
    forks.start("translate", cwd=project, streams=(tmp_path / "in", tmp_path / "out", tmp_path / "err"))
    forks.end()
    assert said in (tmp_path / "err").read_text(encoding="utf-8")


def test_translate_pipe_answers_before_the_next_line(forks: Forks, project: Path, tmp_path: Path) -> None:
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    streams = (tmp_path / "in", tmp_path / "out", tmp_path / "err")
    forks.start("translate", cwd=project, streams=streams)
    with (tmp_path / "in").open("w", encoding="utf-8") as asked, (tmp_path / "out").open(encoding="utf-8") as answers:
        for written, n_lines in ((f"{SENTENCE}\n", 1), ("\n", 1), (f"{SENTENCE}\n{SENTENCE}\nDer", 2), (" Hund\n", 1)):
            print(written, file=asked, end="", flush=True)
            assert [bool(answers.readline().strip()) for _ in range(n_lines)] == [written != "\n"] * n_lines
        asked.close()
        assert answers.read() == ""
    assert forks.end() == 0


def test_translate_paragraphs_warns_before_the_translations(forks: Forks, project: Path, tmp_path: Path) -> None:
    text, said = tmp_path / "in", tmp_path / "said"
    text.write_text(f"{SENTENCE} {SENTENCE}\n{SENTENCE}\n", encoding="utf-8")
    forks.start("translate", cwd=project, streams=(text, said, said))
    assert forks.end() == 0
    warning, *lines = said.read_text(encoding="utf-8").split("\n")[:-1]
    assert warning.startswith("warning: standard input: apparently several sentences per line")
    assert len(lines) == 2


@pytest.mark.parametrize("name", ["a.txt", "a.TXT.gz"])
def test_translate_text_file_is_split_into_sentences(tfm: Tfm, project: Path, tmp_path: Path, name: str) -> None:
    text = f"{SENTENCE}  {SENTENCE}\n\n{SENTENCE}\n"
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    (tmp_path / "a.de").write_text(text, encoding="utf-8")
    _, one, _ = tfm("translate", SENTENCE, cwd=project)
    assert tfm("translate", "-i", tmp_path / name, cwd=project)[:2] == (0, f"{one.strip()}  {one}\n{one}")
    for options in (("--json",), ("--n-best", "1"), ("--prefix", "the"), ("--no-split-sentences",)):
        whole = tfm("translate", *options, "-i", tmp_path / "a.de", cwd=project)[1]
        assert tfm("translate", *options, "-i", tmp_path / name, cwd=project)[1] == whole


def test_translate_missing_numbers_warn_once_at_the_end(tfm: Tfm, project: Path) -> None:
    lines = ["Der Hund zahlt 1.234,50 €.", SENTENCE, *["Die Katze zahlt 77."] * 10]
    code, _, err = tfm("translate", "--max-tokens", "1", stdin="\n".join(lines).encode(), cwd=project)
    listed = "lines 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, …\n"
    what = f"too short in 2 translations: lines 1, 2; a number is missing in 11 translations: {listed}"
    assert (code, err) == (0, f"warning: standard input: {what}")


@pytest.mark.parametrize(
    "command", ["evaluate --split valid --json", "score -i in --translation in", "curves", "export"]
)
def test_run_as_argument_equals_run_as_option(tfm: Tfm, workspace: Path, command: str) -> None:
    (workspace / "in").write_text("Hund\n", encoding="utf-8")
    name, *options = command.split()
    code, out, err = tfm(name, "tiny", *options, cwd=workspace)
    assert code == 0, err
    assert tfm(name, *options, "--run", "tiny", cwd=workspace)[0] == 0
    code, out, err = tfm(name, "none", *options, cwd=workspace)
    assert (code, out, err) == (1, "", "tfm: error: runs/none: no such run; runs/ has tiny\n")


@pytest.mark.parametrize("arguments", ["translate Hund", "evaluate", "serve --port 0", "curves"])
def test_run_named_twice_is_refused(tfm: Tfm, project: Path, arguments: str) -> None:
    command, *others = arguments.split()
    code, out, err = tfm(command, "--run", "tiny", "--run", "runs/tiny", *others, cwd=project)
    assert (code, out) == (2, "")
    assert err.endswith("tfm: error: Invalid value: runs/tiny is named twice; name each run once\n")


def test_arguments_are_utf8_in_any_locale(tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "Männer.yaml").write_text("name: kurz\n", encoding="utf-8")
    (tmp_path / "called").write_text(CALLED_TWICE, encoding="utf-8")
    command: list[str | bytes] = [sys.executable, "called", "Männer.yaml", b"\xff.yaml"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True)
    assert b"name: kurz" in done.stdout
    assert done.stderr.startswith(b"tfm: error: \\xff.yaml: no such config file")
