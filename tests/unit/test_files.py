"""Files and folders that appear whole or not at all."""

import errno
import hashlib
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.files import append_line, exclusive, new_folder, sha256, sweep, write_json, write_text

HERE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]  # which machine, in the names of unfinished files


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        pass
    return process.pid


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refuse(*_: Any, **__: Any) -> None:
    raise OSError("no")


def refuse_with(number: int) -> None:
    raise OSError(number, os.strerror(number))


# Text


def test_text_is_written_byte_for_byte_and_readable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    text = "ä\r\nb\rc\u2028d\x85\n"
    write_text(path, text)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    write_text(path, "short")
    assert path.read_bytes() == b"short"
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize(("broken", "text"), [(None, "lone \ud800"), ("os.replace", "b"), ("os.fsync", "b")])
def test_text_that_cannot_be_written_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str | None, text: str
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    if broken:
        monkeypatch.setattr(broken, refuse)
    with pytest.raises((OSError, UnicodeEncodeError)):
        write_text(path, text)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_json_is_readable_and_gives_floats_back_bit_for_bit(tmp_path: Path) -> None:
    value = {"ä": [0.1 + 0.2, 1e-323, 1 / 3], "b": None}
    write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text.startswith('{\n  "ä": [\n    0.30000000000000004,')
    write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").read_text() == "{}\n"


# Folders


def test_a_folder_appears_when_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "parent" / "new"
    with new_folder(path) as unfinished:
        (unfinished / "sub").mkdir()
        (unfinished / "sub" / "a").write_text("a")
        assert unfinished.parent == path.parent
        assert not path.exists()
    assert (path / "sub" / "a").read_text() == "a"
    assert names(path.parent) == ["new"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_of_a_folder_whose_block_fails(tmp_path: Path, error: type[BaseException]) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "new") as unfinished:
            (unfinished / "a").write_text("a")
            raise error

    with pytest.raises(error):
        fill()
    assert names(tmp_path) == []


def test_a_folder_never_replaces_a_folder(tmp_path: Path) -> None:
    with new_folder(tmp_path / "new") as unfinished:
        (unfinished / "a").write_text("first")
    with pytest.raises(FileExistsError), new_folder(tmp_path / "new") as unfinished:
        (unfinished / "a").write_text("second")
    assert (tmp_path / "new" / "a").read_text() == "first"
    assert names(tmp_path) == ["new"]


def test_a_new_folder_sweeps_what_killed_processes_left(tmp_path: Path, dead: int) -> None:
    for left in (f".new.{HERE}-{dead}.0123abcd", f".other-name.v2.{HERE}-{dead}.ffffffff"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "half").write_text("half")
    with new_folder(tmp_path / "new"):
        pass
    assert names(tmp_path) == ["new"]


def test_sweeping_spares_the_living_and_what_is_not_ours(tmp_path: Path, dead: int) -> None:
    not_ours = (".cache", ".git.old.x", f".notes.{dead}.swp", f"new.{HERE}-{dead}.0123abcd", f".new.{HERE}-{dead}.x")
    elsewhere = f".new.{'0' * 8}-{dead}.0123abcd"
    living = (f".new.{HERE}-{os.getpid()}.0123abcd", f".new.{HERE}-99999999999999999999.0123abcd")
    spared = sorted([*not_ours, elsewhere, *living])
    for name in spared:
        (tmp_path / name).mkdir()
    (tmp_path / f".file.{HERE}-{dead}.0123abcd").write_text("half a file")
    sweep(tmp_path)
    assert names(tmp_path) == spared


def test_sweeping_spares_the_processes_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: int) -> None:
    def not_yours(process_id: int, _: int) -> None:
        raise PermissionError(process_id)

    monkeypatch.setattr(os, "kill", not_yours)
    (tmp_path / f".new.{HERE}-{dead}.0123abcd").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == [f".new.{HERE}-{dead}.0123abcd"]


# Sums


@pytest.mark.parametrize("content", [b"", b"abc", bytes(3 << 20) + b"end"])
def test_sha256_is_that_of_the_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


# Locks


def test_a_lock_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "runs" / ".mine.lock"
    with exclusive(path), pytest.raises(BlockingIOError), exclusive(path):
        pass
    with exclusive(path):
        pass


def test_the_lock_of_a_killed_process_is_lifted(tmp_path: Path) -> None:
    hold = "from pathlib import Path; from transformer_cli.files import exclusive; "
    hold += f"lock = exclusive(Path({str(tmp_path)!r}, 'lock')); lock.__enter__(); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(BlockingIOError), exclusive(tmp_path / "lock"):
            pass
        process.kill()
        process.wait()
        with exclusive(tmp_path / "lock"):
            pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_warned_of(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: refuse_with(number))
    reached = False
    with exclusive(tmp_path / "lock"):
        reached = True
    assert reached
    reason = os.strerror(number)
    assert caplog.messages == [
        f"{tmp_path}/lock cannot be locked ({reason}); make sure that nobody else does this meanwhile"
    ]


# Links, pipes, permissions


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_files_and_folders_get_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        write_text(tmp_path / "file", "")
        with new_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


def test_a_line_is_appended_behind_those_that_are_there(tmp_path: Path) -> None:
    append_line(tmp_path / "lines", "größer")
    append_line(tmp_path / "lines", "b")
    assert (tmp_path / "lines").read_bytes() == "größer\nb\n".encode()


def test_a_line_that_a_full_disk_cuts_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    program = (
        "import resource, signal, sys, pathlib; from transformer_cli.files import append_line\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
        "append_line(pathlib.Path(sys.argv[1]), 'short')\n"
        "try:\n    append_line(pathlib.Path(sys.argv[1]), 'much longer')\n"
        "except OSError as error:\n    print(error.strerror, error.filename == sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout == "No space left on device True\n"
    assert path.read_text() == "short\n"
