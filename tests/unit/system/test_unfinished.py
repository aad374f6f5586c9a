"""What killed processes leave is deleted, and what somebody still writes is not, whoever and wherever that is."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from transformer_cli.system import unfinished
from transformer_cli.system.files import new_file, new_folder
from transformer_cli.system.locks import Lock, try_lock
from transformer_cli.system.unfinished import begin_file, begin_folder, delete, sweep


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def age(path: Path, seconds: float) -> None:
    """Make a file, or a folder and all that is in it, older."""
    then = time.time() - seconds
    for each in (*path.rglob("*"), path):
        os.utime(each, (then, then))


def leave(folder: Path, *, of: str = "new") -> Path:
    """What a process leaves that is killed while it fills a folder."""
    temporary, lock = begin_folder(folder / of)
    (temporary / "half").write_text("half")
    os.close(lock)
    return temporary


def leave_file(folder: Path) -> Path:
    """What a process leaves that is killed while it writes a file."""
    temporary, file = begin_file(folder / "file")
    file.close()
    return temporary


@contextmanager
def begun_elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is begun in this block carries the name of another system."""
    with monkeypatch.context() as patch:
        patch.setattr(unfinished, "_system", lambda: "76543210")
        yield


def without_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)


def test_a_new_folder_sweeps_what_killed_processes_left(tmp_path: Path) -> None:
    leave(tmp_path)
    leave(tmp_path, of="other-name.v2")
    leave_file(tmp_path)
    with new_folder(tmp_path / "new"):
        pass
    assert names(tmp_path) == ["new"]


@pytest.mark.parametrize("function", ["unlink", "rmdir"])
@pytest.mark.parametrize("number", range(3))
def test_a_sweep_that_is_killed_in_the_middle_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    temporary = leave(tmp_path)
    (temporary / "other half").touch()
    plain, calls = getattr(os, function), iter(range(100))

    def killed(*arguments: object, **options: object) -> None:
        if next(calls) == number:
            raise KeyboardInterrupt
        plain(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, killed)
        with suppress(KeyboardInterrupt):
            sweep(tmp_path)
    sweep(tmp_path)
    assert names(tmp_path) == []


def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from transformer_cli.system.files import new_folder, new_file\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "with new_folder(folder / 'new'), new_file(folder / 'file') as file:\n"
        "    file.write(b'half'); file.flush(); print(flush=True); input()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        sweep(tmp_path)
        assert len(names(tmp_path)) == 2  # it still writes
        process.kill()
        process.wait()
        sweep(tmp_path)
        assert names(tmp_path) == []


def test_sweeping_spares_what_somebody_writes(tmp_path: Path) -> None:
    with new_folder(tmp_path / "new") as folder, new_file(tmp_path / "file"):
        age(folder, 1e6)
        before = names(tmp_path)
        sweep(tmp_path)
        assert names(tmp_path) == before
    assert names(tmp_path) == ["file", "new"]


def test_the_host_and_the_process_in_a_name_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers of one host name, in which processes have the same ids, share a folder."""
    with new_folder(tmp_path / "new") as folder:
        monkeypatch.setattr("os.getpid", lambda: 99_999_999)
        monkeypatch.setattr("platform.node", lambda: "elsewhere")
        sweep(tmp_path)
        assert folder.is_dir()


@pytest.mark.parametrize("number", [None, errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
@pytest.mark.parametrize(("seconds", "spared"), [(3600, True), (25 * 3600, False)])
def test_where_no_lock_can_tell_a_day_without_a_write_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, seconds: float, spared: bool
) -> None:
    if number:
        without_locks(monkeypatch, number)
        left = [leave(tmp_path), leave_file(tmp_path)]
    else:
        with begun_elsewhere(monkeypatch):  # there a lock may not be seen from here
            left = [leave(tmp_path), leave_file(tmp_path)]
    for path in left:
        age(path, seconds)
    sweep(tmp_path)
    assert names(tmp_path) == sorted(path.name for path in left if spared)


def test_one_file_that_was_just_written_spares_a_whole_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun_elsewhere(monkeypatch):
        temporary = leave(tmp_path)
    age(temporary, 1e6)
    os.utime(temporary / "half")
    sweep(tmp_path)
    assert temporary.exists()


def test_sweeping_spares_what_is_not_ours(tmp_path: Path) -> None:
    ours = leave(tmp_path).name
    delete(tmp_path / ours)
    not_ours = [".cache", ".git.old.x", ".notes.123.swp", ours[1:], f"{ours}x"]
    for name in not_ours:
        (tmp_path / name).mkdir()
        age(tmp_path / name, 1e6)
    (tmp_path / ours).symlink_to(".cache")
    sweep(tmp_path)
    assert names(tmp_path) == sorted([*not_ours, ours])


@pytest.mark.parametrize("function", ["open", "unlink", "rmdir"])
def test_what_cannot_be_swept_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "no", path)

    leave_file(tmp_path)
    leave(tmp_path)
    monkeypatch.setattr(os, function, refuse)
    sweep(tmp_path)
    sweep(tmp_path / "gone")


@pytest.mark.parametrize("kind", [new_folder, new_file])
def test_a_sweep_that_comes_before_the_lock_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Path], AbstractContextManager[object]]
) -> None:
    swept: list[str] = []

    def overtaken(file: BinaryIO | int) -> Lock:
        monkeypatch.setattr(unfinished, "try_lock", try_lock)
        swept.extend(names(tmp_path))
        sweep(tmp_path)
        return try_lock(file)

    monkeypatch.setattr(unfinished, "try_lock", overtaken)
    with kind(tmp_path / "new"):
        assert len(swept) == 1
        assert len(names(tmp_path)) == 1
        assert names(tmp_path) != swept
    assert names(tmp_path) == ["new"]


def test_deleting_a_link_leaves_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real")
    delete(tmp_path / "link")
    delete(tmp_path / "gone")
    assert names(tmp_path) == ["real"]
    delete(tmp_path / "real")
    assert names(tmp_path) == []
