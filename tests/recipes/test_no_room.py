"""No room and no rights: each operation on the disk fails in turn, and it is one line that costs nothing.

A table for each of five commands: every kind of operation (such as "write .json", "rename step-…") fails once, as it
does on a full disk, on one that has become read-only, without permission, and with an error of the hardware, in turns.
`make test` takes every fifth kind, and `make long` all of them.
What was there before stays, nothing unfinished is left, and the same command ends as if nothing had happened once it
can: it is given again where something has changed on the disk.
"""

import errno
import itertools
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from disturb import Disturbance, disturbed, fail_at
from kinds import Tfm
from torture import lasting
from transformer_cli.adapters.study import plots
from transformer_cli.scoring import metrics

pytestmark = pytest.mark.no_cover  # other tests run the same lines; counting them is slow

REASONS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)
REFUSED = re.compile(
    r"tfm: error: \S+: ((No space left on device|Read-only file system|Permission denied|Input/output error); correct "
    r"the path, the permissions or the space left|cannot be written: .*; name another file)"
    r"|tfm: error: \S+ is in the way and could not be deleted .*"
)
WARNED = re.compile(r"(curves\.png could not be drawn|\S+: this result is not kept there|.* could not be deleted)")
# a model of a few numbers, and a step for each of two epochs
SMALL = ("d_model=8", "num_heads=1", "d_ff=8", "max_length=9")
BRIEF = ("--set", "training.epochs=2", "--set", "training.batch_size=200", *(f"-smodel.{each}" for each in SMALL))
TRAIN = ("train", "--config", "CORPUS/tiny.yaml", *BRIEF, "--set", "training.average=2")
COMMANDS = {
    "prepare": ("prepare", "--config", "CORPUS/tiny.yaml"),
    "train": (*TRAIN, "--set", "training.save_minutes=1e-6"),
    "evaluate": ("evaluate", "--split", "valid", "--output", "out/a.txt", "--output-tokens", "out/b.txt"),
    "export": ("export", "tiny", "--quantization", "int8", "--output", "out/tiny"),
    "draw": ("inspect", "--kind", "cross", "--layer", "1", "--head", "1", "--output", "out/a.png", "Hund"),
}
NEEDS = {"prepare": (), "train": ("data",), "export": ("runs",)}
SECONDS = re.compile(r'"(train_seconds|valid_seconds|date|seconds|[a-z_]+_per_second)": ?("[^"]*"|[\d.e+-]+)')


def state(folder: Path) -> dict[str, str]:
    """Folders and files that are not unfinished, without seconds and dates; of pictures only that they are there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".lock") or ".unfinished-" in str(path):
            continue
        content = "a folder" if path.is_dir() else SECONDS.sub(r"\1", lasting(path).decode("latin-1"))
        if path.name == "evaluations.jsonl":  # a second call has appended the same
            content = "\n".join(sorted(set(content.split("\n"))))
        found[str(path.relative_to(folder))] = content
    return found


def kind(operation: str) -> str:
    """Which operations are of one kind: those of one function on files of one suffix, and on each pointer and folder.

    Pointers are written like other small files, and their kinds differ only once they appear.
    """
    what, name = operation.split()
    if suffix := Path(name).suffix:
        return f"{what} {suffix}"
    return what if what in ("open", "write", "fsync") else f"{what} {re.sub(r'[0-9]+', '…', name)}"


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_room_each_failed_operation_is_one_line_and_nothing_is_lost(
    tfm: Tfm, corpus: Path, project: Path, tmp_path: Path, name: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "RESAMPLES", 2)
    monkeypatch.setattr(plots, "draw_inspection", lambda inspection, maps: Figure((1, 1)))
    command = [part.replace("CORPUS", str(corpus)) for part in COMMANDS[name]]
    numbers = itertools.count()

    def begin() -> Path:
        folder = tmp_path / str(next(numbers))
        (folder / "out").mkdir(parents=True)
        for part in NEEDS.get(name, ("data", "runs")):
            if part == "data":
                (folder / part).symlink_to(project / part)
            else:
                shutil.copytree(project / part, folder / part)
        return folder

    whole = begin()
    with disturbed(Disturbance(whole)) as undisturbed:
        assert tfm(*command, cwd=whole)[0] == 0
    wanted = state(whole)
    counted = {"refused": 0, "harmless": 0}
    first = {kind(operation): number for number, operation in reversed([*enumerate(undisturbed.operations, 1)])}
    for number, reason in zip(sorted(first.values())[::every], itertools.cycle(REASONS), strict=False):
        folder = begin()
        before = state(folder)
        case = f"{undisturbed.operations[number - 1]}: {errno.errorcode[reason]}"
        with disturbed(Disturbance(folder, fail_at(number, reason))) as seen:
            code, _, err = tfm(*command, cwd=folder)
        lines = err.rstrip("\n").split("\n")
        assert seen.hits, case
        assert ".unfinished" not in err, case
        if code:
            assert code == 1, f"{case}: {err}"
            assert REFUSED.fullmatch(lines[-1]), f"{case}: {err}"
            counted["refused"] += 1
        else:
            assert state(folder) == wanted or any(map(WARNED.search, lines)), f"{case}: {err}"
            counted["harmless"] += 1
        after = state(folder)
        for path, content in before.items():
            assert after.get(path) in (content, wanted.get(path)), case
        if code and after == before and not [*folder.rglob("*.unfinished-*")]:  # it would begin as above
            shutil.rmtree(folder)
            continue
        if reason in (errno.EACCES, errno.EIO) and code:  # the others do not even let it delete what is unfinished
            assert not [*folder.rglob("*.unfinished-*")], case
        for left in folder.rglob(".*.unfinished-*"):  # of what has no owner only what is a day old is deleted
            os.utime(left, (0, 0))
            for inner in left.rglob("*"):
                os.utime(inner, (0, 0))
        code, _, err = tfm(*command, cwd=folder)
        assert code == 0, f"{case}: {err}"
        assert json.dumps(state(folder)) == json.dumps(wanted), case
        assert not [*folder.rglob("*.unfinished-*")], case
        shutil.rmtree(folder)
    sys.stdout.write(f"{name}: {sum(counted.values())} tried, {counted}, missed: 0\n")  # shown by pytest -s
    assert counted["refused"] > 3 // every
