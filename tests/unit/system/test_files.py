"""Atomic files and folders, small files and checksums, and the errors about them."""

import os
import stat
import time
from pathlib import Path

import pytest

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system import files
from transformer_cli.text.lines import read_lines


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_text_is_exact_and_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    text = "ä\r\nb\rc\u2028d\x85\n"
    files.write_text(path, text)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    files.write_text(path, "short")
    assert path.read_bytes() == b"short"
    files.write_text(path.with_name("犬" * 85), "of the longest name that Linux takes")
    assert names(path.parent) == ["a.txt", "犬" * 85]


def test_write_json_keeps_floats_bit_for_bit(tmp_path: Path) -> None:
    value = {"ä": [0.1 + 0.2, 1e-323, 1 / 3], "b": None}
    files.write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text.startswith('{\n  "ä": [\n    0.30000000000000004,')
    files.write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").read_text() == "{}\n"


def test_atomic_folder_appears_when_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "parent" / "new"
    with files.atomic_folder(path) as unfinished:
        (unfinished / "sub").mkdir()
        (unfinished / "sub" / "a").write_text("a")
        assert unfinished.parent == path.parent
        assert not path.exists()
    assert (path / "sub" / "a").read_text() == "a"
    assert names(path.parent) == ["new"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize("kind", ["a file", "a link to nothing", "a folder"])
def test_atomic_folder_replaces_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "new"
    {"a file": path.touch, "a link to nothing": lambda: path.symlink_to("gone"), "a folder": path.mkdir}[kind]()
    before = path.lstat()
    with pytest.raises(FileExistsError), files.atomic_folder(path):
        pass
    assert (path.lstat().st_ino, names(tmp_path)) == (before.st_ino, ["new"])


def test_atomic_folder_is_synced_before_and_after_renaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    fsync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def noted_replace(old: Path, new: Path) -> None:
        done.append("renamed")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with files.atomic_folder(tmp_path / "new") as unfinished:
        (unfinished / "sub").mkdir()
        (unfinished / "sub" / "a").write_text("a")
        inside = [str(unfinished / "sub" / "a"), str(unfinished / "sub"), str(unfinished)]
    assert done == [*inside, "renamed", str(tmp_path)]


LEFT = ".file.unfinished-0123abcd"
LEFT_FOLDER = ".folder.v2.unfinished-ffffffff"


def leave(folder: Path, seconds: float) -> None:
    """The unfinished file and folder of a process that was killed so many seconds ago."""
    (folder / LEFT).write_text("half")
    (folder / LEFT_FOLDER).mkdir()
    (folder / LEFT_FOLDER / "half").write_text("half")
    then = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.mark.parametrize(("seconds", "expected"), [(23 * 3600, [LEFT, LEFT_FOLDER, "new"]), (25 * 3600, ["new"])])
def test_delete_unfinished_deletes_files_idle_for_a_day(tmp_path: Path, seconds: float, expected: list[str]) -> None:
    leave(tmp_path, seconds)
    files.write_text(tmp_path / "new", "")
    assert names(tmp_path) == expected
    (tmp_path / "new").unlink()
    with files.atomic_folder(tmp_path / "new"):
        pass
    assert names(tmp_path) == expected


def test_delete_unfinished_with_idle_0_deletes_at_once(tmp_path: Path) -> None:
    leave(tmp_path, 0)
    files.delete_unfinished(tmp_path, idle_s=0)
    assert names(tmp_path) == []


def test_delete_unfinished_keeps_active_and_other_files(tmp_path: Path) -> None:
    not_ours = [".cache", ".git.old.x", ".notes.123.swp", LEFT[1:], f"{LEFT}x"]
    for name in not_ours:
        (tmp_path / name).mkdir()
    leave(tmp_path, 1e6)
    with files.atomic_folder(tmp_path / "new") as folder, files.atomic_file(tmp_path / "other"):
        (folder / "first").touch()
        os.utime(folder, (0, 0))  # what was just written in it counts
        files.delete_unfinished(tmp_path)
    assert names(tmp_path) == sorted([*not_ours, "new", "other"])


def test_delete_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real")
    files.delete(tmp_path / "link")
    files.delete(tmp_path / "gone")
    assert names(tmp_path) == ["real"]
    files.delete(tmp_path / "real")
    assert names(tmp_path) == []


def test_write_bytes_follows_a_link_and_a_pipe_but_write_text_replaces_them(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    files.write_bytes(tmp_path / "link", b"bytes")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "bytes"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_bytes(tmp_path / "pipe", b"bytes")
    assert os.read(reader, 100) == b"bytes"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    for name in ("link", "pipe"):
        files.write_text(tmp_path / name, "text")
        assert (tmp_path / name).is_file()
        assert (tmp_path / name).read_text() == "text"
    assert (tmp_path / "real").read_text() == "bytes"


def test_write_text_uses_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        files.write_text(tmp_path / "file", "")
        with files.atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def test_write_checksums_equals_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"abc")
    (tmp_path / "c").write_bytes(b"123456789" * 200_000)
    files.write_checksums(tmp_path, ["a b"])
    assert (tmp_path / "SHA256SUMS").read_text() == f"{ABC}  a b\n"
    assert files.read_checksums(tmp_path) == {"a b": ABC}
    assert files.sha256_of_bytes(b"abc") == ABC
    files.write_checksums(tmp_path)
    assert set(files.read_checksums(tmp_path)) == {"a b", "c"}


def test_verify_file_refuses_changed_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    files.write_checksums(tmp_path)
    files.verify_file(path)
    for content in (b"abd", b"ab"):
        path.write_bytes(content)
        with pytest.raises(FileError, match=rf"^{path}: damaged: its content is not what was written \(another SHA-"):
            files.verify_file(path)
    path.unlink()
    with pytest.raises(MissingFile, match=f"^{path}: missing$"):
        files.verify_file(path)
    (tmp_path / "b").touch()
    with pytest.raises(FileError, match=r"b: damaged: SHA256SUMS has no checksum of it$"):
        files.verify_file(tmp_path / "b")


def test_verify_file_refuses_any_flipped_bit_in_sha256sums(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files.write_checksums(tmp_path)
    path = tmp_path / "SHA256SUMS"
    content, said = path.read_bytes(), []
    for bit in range(8 * (len(content) - 1)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(FileError) as caught:
            files.verify_file(tmp_path / "a")
        said.append(str(caught.value))
    assert not any("\n" in line for line in said)


def test_read_checksums_refuses_paths_in_other_folders(tmp_path: Path) -> None:
    for content in (f"{ABC}  ../x\n", "[]", f"{ABC} x", f"{ABC.upper()}  x"):
        (tmp_path / "SHA256SUMS").write_text(content)
        with pytest.raises(FileError, match=r"SHA256SUMS: line 1: damaged: it should be a SHA-256 and the name of a"):
            files.read_checksums(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((b"", "empty, but should be JSON"), (b"{", "not JSON: .*: line 1 column 2")),
        *((b"\n\xff", "line 2: byte 0xff is not UTF-8"), (b"[" * 100_000, "not JSON: ")),
        (b"9" * 5000, "not JSON: Exceeds the limit"),
    ],
    ids=["empty", "cut", "not UTF-8", "deep", "long number"],
)
def test_read_json_invalid_names_the_position(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"^{path}: {message}"):
        files.read_json(path)


def test_read_text_not_a_file_or_too_large_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    for name, message in (
        ("pipe", "not a file, but a pipe or a device"),
        ("", "not a file, but a folder"),
        ("none", "missing"),
        ("large", "larger than 4 bytes, so it is not the expected file"),
    ):
        with pytest.raises(FileError, match=f"{message}$"):
            files.read_text(tmp_path / name, max_bytes=4)
    with pytest.raises(FileError, match="not a file, but a pipe or a device"):
        files.read_text(Path("/dev/zero"))


def test_preview_is_one_short_line() -> None:
    assert files.preview("a\nb") == "'a\\nb'"
    assert files.preview([1] * 100) == "[" + "1, " * 19 + "1…"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.BZ2", "a.xz"])
def test_write_text_compressed_is_read_back(name: str, tmp_path: Path) -> None:
    files.write_text(tmp_path / name, "Ein Hund.\n")
    assert [*read_lines(tmp_path / name)] == ["Ein Hund."]
    assert ((tmp_path / name).read_bytes() == b"Ein Hund.\n") == (name == "a.txt")


def test_append_line_after_a_cut_off_line_starts_a_new_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    files.append_line(path, "one")
    path.write_bytes(path.read_bytes() + b"tw")  # a disk that was full
    for line in ("two", "three"):
        files.append_line(path, line)
    assert path.read_text() == "one\ntw\ntwo\nthree\n"
