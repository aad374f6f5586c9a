"""Locks: how long they are held, and file systems without locks."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from transformer_cli.system.locks import exclusive_lock, is_locked


def test_exclusive_lock_is_held_during_the_block(tmp_path: Path) -> None:
    path = tmp_path / "runs" / ".mine.lock"
    assert not is_locked(path)
    assert not path.exists()
    with exclusive_lock(path) as is_held:
        assert is_held
        assert is_locked(path)
        with pytest.raises(BlockingIOError), exclusive_lock(path):
            pass
    assert not is_locked(path)
    with exclusive_lock(path):
        pass


def test_is_locked_does_not_disturb_exclusive_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    with path.open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_EX)
        monkeypatch.setattr("time.sleep", lambda _: asking.close())  # it has asked
        with exclusive_lock(path):
            assert is_locked(path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_exclusive_lock_without_file_system_locks_warns(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    with exclusive_lock(tmp_path / "lock") as is_held:
        assert not is_held
        assert not is_locked(tmp_path / "lock")
    message = "this file system has no locks; make sure that no other process writes there"
    assert caplog.messages == [f"{tmp_path}/lock: {message}"]
