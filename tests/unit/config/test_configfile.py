"""Configs that are no regular files: pipes are read, and endless devices end."""

import os
from pathlib import Path

import pytest

from transformer_cli.config.load import load_config
from transformer_cli.errors import ConfigError


def test_load_config_of_a_shells_pipe_refuses_an_empty_one() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"name: piped")
    os.close(writing)
    assert load_config(f"/dev/fd/{reading}").name == "piped"
    with pytest.raises(ConfigError, match="a pipe into which nothing was written"):  # not the defaults
        load_config(f"/dev/fd/{reading}")
    os.close(reading)


def test_load_config_of_an_empty_device_is_the_defaults() -> None:
    assert load_config("/dev/null") == load_config()


def test_load_config_paths_of_standard_input_begin_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("model: {vectors: {source: ./v.vec}}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with open("mine.yaml") as file:
        assert load_config(f"/dev/fd/{file.fileno()}").model.vectors.source == str(tmp_path / "v.vec")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/zero", "/dev/zero: has more than 1,000,000 bytes, so it is not a config"),
        ("a\0b", "'a\\x00b': cannot be read: embedded null byte; name another file"),
        (f"{__file__}/a", f"'{__file__}/a': cannot be read: Not a directory; name another file"),
    ],
)
def test_load_config_of_what_cannot_be_a_config_is_one_line(path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(message)
