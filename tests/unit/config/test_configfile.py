"""Configs that are no regular files: pipes are read, and endless devices end."""

import os
import threading
from pathlib import Path

import pytest

from transformer_cli.config import configfile
from transformer_cli.config.load import load_config
from transformer_cli.errors import ConfigError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_pipe_that_is_written_into_is_a_config(pipe: Path) -> None:
    writer = threading.Thread(target=lambda: pipe.write_text(f"# {'x' * 100_000}\nname: piped\n"))
    writer.start()
    assert load_config(pipe).name == "piped"
    writer.join()


def test_a_pipe_of_a_shell_is_a_config() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"name: piped")
    os.close(writing)
    assert load_config(f"/dev/fd/{reading}").name == "piped"
    os.close(reading)


def test_a_dash_is_standard_input() -> None:
    assert configfile.find_config("-") == Path("/dev/stdin")


def test_what_a_failed_command_leaves_is_not_the_defaults() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(ConfigError, match="a pipe into which nothing was written"):
        load_config(f"/dev/fd/{reading}")
    os.close(reading)


def test_an_endless_device_is_no_config() -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero: has more than 1,000,000 bytes, so it is not a config"):
        load_config("/dev/zero")


def test_an_empty_device_is_the_defaults() -> None:
    assert load_config("/dev/null") == load_config()


def test_a_large_file_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * configfile.MOST_BYTES)
    assert load_config(path) == load_config()
    path.write_bytes(b"#" * (configfile.MOST_BYTES + 1))
    with pytest.raises(ConfigError, match=f"^{path}: has more than 1,000,000 bytes"):
        load_config(path)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match=r"^'a\\x00b': cannot be read: embedded null byte; name a file that can$"):
        load_config("a\0b")


def test_a_file_in_a_file() -> None:
    with pytest.raises(ConfigError, match=f"^'{__file__}/a': cannot be read: Not a directory; name a file"):
        load_config(f"{__file__}/a")
