"""Configs as files: YAML with comments, pipes, and endless devices."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from transformer_cli.config.comments import LINE_WIDTH, commented_settings, header_comment
from transformer_cli.config.load import differences, load_config, shipped_configs
from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError

SHIPPED = {name: path.read_text(encoding="utf-8") for name, path in shipped_configs().items()}


@pytest.mark.parametrize("name", SHIPPED)
def test_commented_settings_have_comments_and_load_back(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    written = commented_settings(config, text=SHIPPED[name])
    (tmp_path / "own.yaml").write_text(written, encoding="utf-8")
    assert load_config(tmp_path / "own.yaml") == config
    assert max(map(len, written.split("\n"))) <= LINE_WIDTH
    lines = written.split("\n")
    uncommented = [(line, below) for line, below in pairwise(lines) if line.strip() and "#" not in line]
    assert [line for line, below in uncommented if not below.strip().startswith("#")] == []


def test_commented_settings_name_the_default() -> None:
    changed = load_config(
        None,
        ["training.eps=1e-12", "data.captions.sentences=300", "model.num_heads=4", "training.average_checkpoints=2"],
    )
    written = commented_settings(changed, title="Mine")
    assert written.startswith("# Mine\n\nname: null ")
    assert "  num_heads: 4              # attention heads [default: 8]\n" in written
    assert "  eps: 1e-12                # Adam's epsilon [default: 1e-8]\n" in written
    assert "    sentences: 300          # number of training pairs, from the first on\n" in written
    assert written.count("[default: ") == len(differences(Config(), changed)) == 4


def test_commented_settings_omit_default_internal_keys() -> None:
    written = commented_settings(Config())
    assert [each for each in ("fingerprint", "start_token", "imported", "marian") if each in written] == []
    own = load_config(None, ["data.fingerprint=0123abcd", "model.start_token=false", "model.positions=marian"])
    written = commented_settings(own)
    assert [each for each in ("fingerprint: 0123abcd ", "start_token: false ", "positions: marian ") if each in written]


def test_commented_settings_keep_comments_of_the_file() -> None:
    written = commented_settings(load_config("paper-base"), text=SHIPPED["paper-base"])
    assert written.startswith(SHIPPED["paper-base"].split("\n")[0])
    assert "  d_model: 512              # table 3 [default: 256]\n" in written
    assert "  num_heads: 8              # table 3; a head is 64 wide\n" in written
    assert "  patience: null            # stop after this many " in written
    changed = commented_settings(load_config("paper-base", ["model.num_heads=4"]), text=SHIPPED["paper-base"])
    assert "  num_heads: 4              # attention heads [default: 8]\n" in changed  # what was said of 8 is not


def test_commented_settings_put_files_on_lines(tmp_path: Path) -> None:
    sides = "{source: 'a: b, c #.en', target: a.de}"
    text = f"data:\n  corpus: files\n  files: {{train: {sides}, valid: {sides}, test-2: {sides}}}"
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    config = load_config(tmp_path / "own.yaml")
    written = commented_settings(config)
    assert f"\n    test-2: {{source: '{tmp_path}/a: b, c #.en', target: {tmp_path}/a.de}}\n" in written
    (tmp_path / "again.yaml").write_text(written, encoding="utf-8")
    assert load_config(tmp_path / "again.yaml") == config


def test_shipped_configs_have_titles() -> None:
    said = {name: header_comment(text).split("\n")[0] for name, text in SHIPPED.items()}
    assert len({*said.values()}) == len(SHIPPED)
    assert all(line.startswith("# ") and line.endswith(".") for line in said.values())
    assert max(map(len, SHIPPED)) + max(map(len, said.values())) <= LINE_WIDTH


def test_load_config_empty_pipe_is_refused() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"name: piped")
    os.close(writing)
    assert load_config(f"/dev/fd/{reading}").name == "piped"
    with pytest.raises(ConfigError, match="the pipe is empty"):  # not the defaults
        load_config(f"/dev/fd/{reading}")
    os.close(reading)


def test_load_config_empty_device_is_the_defaults() -> None:
    assert load_config("/dev/null") == load_config()


def test_load_config_from_stdin_paths_are_relative_to_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("model: {vectors: {source: ./v.vec}}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with open("mine.yaml") as file:
        assert load_config(f"/dev/fd/{file.fileno()}").model.vectors.source == str(tmp_path / "v.vec")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/zero", "/dev/zero: not a config: it has more than 1,000,000 bytes"),
        ("a\0b", "'a\\x00b': cannot be read: embedded null byte; name another file"),
        (f"{__file__}/a", f"'{__file__}/a': cannot be read: Not a directory; correct the path or its permissions"),
    ],
)
def test_load_config_unreadable_file_prints_one_line(path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(message)
