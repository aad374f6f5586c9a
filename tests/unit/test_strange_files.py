"""Every file of a run, a dataset and an export, replaced by what a stranger may send instead of it, or unreadable."""

import errno
import io
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from kinds import TrainTiny
from transformer_cli import Translator, evaluate
from transformer_cli.adapters.finetuning.copied_text import copied_lines
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.adapters.study.listing import list_runs
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import TfmError
from transformer_cli.runs.finding import find_run, write_latest
from transformer_cli.runs.metadata import read_metadata, write_config
from transformer_cli.runs.provenance import append_result
from transformer_cli.runs.run import Run
from transformer_cli.scoring.losses import read_loss_check
from transformer_cli.system.files import delete
from transformer_cli.text.codec import SIDES
from transformer_cli.training.resume import load_run


def make_holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


KINDS: dict[str, Callable[[Path, Path], object]] = {  # what takes the place of a file; the second path is outside
    "pipe": lambda path, _: os.mkfifo(path),
    "device": lambda path, _: path.symlink_to("/dev/zero"),
    "folder": lambda path, _: path.mkdir(),
    "link out of the folder": lambda path, outside: path.symlink_to(outside),
    "holes": lambda path, _: make_holes(path),
}
NOT_READ = {"README.md", "average.json", "curves.png", "evaluations.jsonl"}  # or what cannot be read of it is left out
FREE_BYTES = 1 << 30  # to read more is an error


@pytest.fixture
def little_memory() -> Iterator[None]:
    """This process gets no more than FREE_BYTES besides the memory that it has."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    used = re.findall(r"^VmData:\s+(\d+)", status, re.MULTILINE)[0]
    resource.setrlimit(resource.RLIMIT_DATA, (int(used) * 1024 + FREE_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


def use_run(folder: Path) -> None:
    """Read all of a run, and write into it what commands write."""
    list_runs(folder.parent)
    run, dataset = Run.open(folder), Dataset.open(next((folder.parents[1] / "data").iterdir()))
    load_run(run, dataset)
    copied_lines(run, "extra_valid")
    checkpoints = {pointer: run.checkpoint(pointer) for pointer in ("last", "best", "average")}
    for checkpoint in checkpoints.values():
        read_loss_check(checkpoint)
    write_config(folder, run.config)
    run.write_history(run.history())
    for pointer, checkpoint in checkpoints.items():
        run.set_pointer(pointer, checkpoint.name)
    append_result(folder, {}, device="cpu", shards=1)
    write_latest(folder)


def use_tiny(folder: Path) -> None:
    Translator(folder, "cpu")
    load_run(Run.open(folder), Dataset.open(next((folder.parents[1] / "data").iterdir())))


def use_export(folder: Path) -> None:
    Translator(folder, "cpu")


@cache
def opened(run: Path) -> Translator:
    return Translator(run, "cpu")


def use_dataset(folder: Path) -> None:
    tiny = opened(folder.parents[1] / "runs/tiny")
    evaluate(tiny, lists=[["Hund"], ["dog"]], device="cpu", save_result=False, data_dir=folder.parent)
    dataset = Dataset.open(folder)
    for split in dataset.manifest["splits"]:
        dataset.split(split)
        assert all(dataset.text(split, side) for side in SIDES)


USES = {"runs/tuned": use_run, "runs/tiny": use_tiny, "data/*": use_dataset, "exports/tiny": use_export}


def prepared(part: str, workspace: Path) -> tuple[Path, Callable[[Path], None]]:
    """The folder of this part, and what uses all of its files."""
    if part == "exports/tiny":
        export("tiny", workspace / part, runs_dir=workspace / "runs")
    (folder,) = workspace.glob(part)
    USES[part](folder)
    return folder, USES[part]


@pytest.mark.parametrize("part", ["runs/tuned", "data/*", "exports/tiny"])
@pytest.mark.usefixtures("little_memory", "few_samples")
def test_a_strange_file_is_refused_and_not_waited_for(
    part: str, workspace: Path, train_tiny: TrainTiny, tmp_path: Path
) -> None:
    outside, aside = tmp_path / "outside", tmp_path / "aside"
    if part == "runs/tuned":
        (tmp_path / "old.tsv").write_text("de\ten\nDer Hund läuft.\tThe dog runs.\n", encoding="utf-8")
        quick = ("training.epochs=1", f"training.extra_valid=[{tmp_path / 'old.tsv'}]")
        train_tiny(workspace / "runs", "name=tuned", "training.initialize_from=tiny", *quick)
    folder, use = prepared(part, workspace)
    names = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert len(names) > 8
    names += [folder.with_name("latest")] if part == "runs/tuned" else []
    refused = set[tuple[str, str]]()
    for path in names:
        path.rename(aside)
        outside.write_text("not of this run\n", encoding="utf-8")
        for kind, make in KINDS.items():
            make(path, outside)
            try:
                use(folder)
            except (TfmError, OSError):
                refused.add((path.name, kind))
            assert outside.read_text(encoding="utf-8") == "not of this run\n", (kind, path)
            delete(path)
        aside.rename(path)
    assert {path.name for path in names} - {name for name, _ in refused} <= NOT_READ


# Files that the system refuses to read: nothing says to delete healthy data

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


def test_a_folder_without_permission_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_permission(look: Callable[..., object]) -> Callable[..., object]:
        def refuse(path: Path, **keywords: object) -> object:
            if Path(path).parent == tmp_path:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return look(path, **keywords)

        return refuse

    monkeypatch.setattr(os, "stat", without_permission(os.stat))
    monkeypatch.setattr(os, "lstat", without_permission(os.lstat))
    for read in (lambda: read_metadata(tmp_path), lambda: find_run(runs_dir=tmp_path)):
        with pytest.raises(TfmError, match=rf"cannot be read: Permission denied; {tmp_path} has the permissions"):
            read()


@pytest.mark.parametrize("part", ["runs/tiny", "data/*", "exports/tiny"])
@pytest.mark.usefixtures("few_samples")
def test_an_unreadable_file_is_never_advised_to_be_deleted(part: str, workspace: Path) -> None:
    folder, use = prepared(part, workspace)
    messages: dict[tuple[str, int], str] = {}
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        for number, remedy in REMEDIES.items():
            with unreadable(path, number):
                try:
                    use(folder)
                except TfmError as error:
                    message = messages[path.name, number] = str(error)
                    assert re.search(remedy, message), (path, message)
                    if number != errno.ENOENT:
                        assert not DESTRUCTIVE.search(message.replace(str(path), "")), message
    assert len({name for name, _ in messages}) > 5
    for name in {name for name, _ in messages}:
        assert {number for each, number in messages if each == name} >= {errno.EACCES, errno.EMFILE}, name
