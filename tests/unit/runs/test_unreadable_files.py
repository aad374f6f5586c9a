"""Every file of a run, a dataset and an export that the system refuses to read: nothing says to delete healthy data."""

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from transformer_cli import Translator, evaluate
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import TfmError
from transformer_cli.runs.run import Run
from transformer_cli.training.resume import load_run

REMEDIES = {
    errno.EACCES: r"has the permissions \S+ and belongs to user \d+; change them, or be that user",
    errno.EMFILE: r"too many files are open; raise the limit \(ulimit -n\)",
    errno.EIO: "check the device or the network share that it is on",
    errno.ESTALE: "check the device or the network share that it is on",
    errno.ENOENT: "copy it from where (the dataset was prepared|the run was trained or exported); if it is lost for "
    "good, |no (best|last) checkpoint yet",
}
DESTRUCTIVE = re.compile("delete|--fresh|again")


@contextmanager
def unreadable(path: Path, number: int) -> Iterator[list[Path]]:
    """Within the block, opening a file for reading fails. Yields a list to which each attempt is added."""
    attempts: list[Path] = []
    if number == errno.ENOENT:
        aside = path.rename(path.with_name(f"{path.name}.aside"))
        yield attempts
        aside.rename(path)
        return
    open_file = io.open

    def refuse(file: object, *arguments: object, **keywords: object) -> object:
        if not isinstance(file, int) and Path(os.fsdecode(file)) == path:  # type: ignore[arg-type]
            attempts.append(path)
            raise OSError(number, os.strerror(number), str(path))
        return open_file(file, *arguments, **keywords)  # type: ignore[call-overload]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", refuse)
        patch.setattr("builtins.open", refuse)
        yield attempts


@pytest.mark.parametrize("part", ["runs/tiny", "data/*", "exports/tiny"])
def test_an_unreadable_file_is_never_advised_to_be_deleted(part: str, workspace: Path) -> None:
    if part == "exports/tiny":
        export("tiny", workspace / part, runs_dir=workspace / "runs")
    (folder,) = workspace.glob(part)

    def use() -> None:
        if part == "data/*":
            evaluate(
                workspace / "runs/tiny",
                lists=[["Hund"], ["dog"]],
                device="cpu",
                save_result=False,
                data_dir=folder.parent,
            )
            dataset = Dataset.open(folder)
            for split in dataset.manifest["splits"]:
                dataset.split(split)
                assert all(dataset.text(split, side) for side in ("source", "target"))
            return
        Translator(folder, "cpu")
        if part == "runs/tiny":
            load_run(Run.open(folder), Dataset.open(next((workspace / "data").iterdir())))

    use()
    messages: dict[tuple[str, int], str] = {}
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        for number, remedy in REMEDIES.items():
            with unreadable(path, number):
                try:
                    use()
                except TfmError as error:
                    message = messages[path.name, number] = str(error)
                    assert re.search(remedy, message), (path, message)
                    if number != errno.ENOENT:
                        assert not DESTRUCTIVE.search(message.replace(str(path), "")), message
    assert len({name for name, _ in messages}) > 5
    for name in {name for name, _ in messages}:
        assert {number for each, number in messages if each == name} >= {errno.EACCES, errno.EMFILE}, name
