"""Pipes, devices and folders in place of text: what is read once may be a pipe, what is read twice says why not."""

import os
import threading
from pathlib import Path

import pytest

from kinds import Tfm
from transformer_cli.config.schema import DataConfig
from transformer_cli.corpora.corpora import open_corpus
from transformer_cli.errors import DataError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.txt")
    return tmp_path / "pipe.txt"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("pipe.txt", "a pipe"),
        ("/dev/zero", "a device"),
        ("", "a folder"),
    ],
    ids=["pipe", "device", "folder"],
)
def test_open_corpus_of_no_file_is_refused(tmp_path: Path, pipe: Path, path: str, said: str) -> None:
    assert pipe.exists()
    text = tmp_path / "text"
    text.write_text("a\n", encoding="utf-8")
    pair, wrong = {"source": text, "target": text}, {"source": text, "target": tmp_path / path}
    data = DataConfig.model_validate({"corpus": "files", "files": {"train": wrong, "valid": pair}})
    with pytest.raises(DataError) as told:
        open_corpus(data)
    remedy = "correct the path; text is read several times, so it must be in a file"
    assert str(told.value) == f"data.files.train.target: {tmp_path / path}: {said}; {remedy}"


def test_translate_and_evaluate_read_a_pipe(tfm: Tfm, project: Path, pipe: Path, tmp_path: Path) -> None:
    def writing(text: str) -> threading.Thread:
        writer = threading.Thread(target=lambda: pipe.write_text(text, encoding="utf-8"))
        writer.start()
        return writer

    writer = writing("Der Hund läuft.\n\n")
    code, out, err = tfm("translate", "--input", pipe, cwd=project)
    assert (code, out.count("\n")) == (0, 2), err
    writer.join()
    (tmp_path / "target").write_text("The dog runs.\n", encoding="utf-8")
    writer = writing("Der Hund läuft.\nDie Frau singt.\n")
    answer = tfm("evaluate", "--input", pipe, "--reference", tmp_path / "target", cwd=project)
    writer.join()
    said = (
        f"tfm: error: {pipe} and {tmp_path / 'target'} differ in their number of lines; line n must translate line n\n"
    )
    assert answer == (1, "", said)
