"""`tfm config`: the settings of the defaults, of a shipped config, of a file and of a run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transformer_cli.config.configfile import shipped_configs
from transformer_cli.config.load import load_config
from transformer_cli.runs.run import Run

SETTINGS = Path(__file__).parents[3] / "docs" / "settings.md"

Tfm = Callable[..., tuple[int, str, str]]


def test_what_is_printed_can_be_given_as_a_config(tfm: Tfm, tmp_path: Path) -> None:
    for name, overrides in ((None, ()), ("demo", ()), ("paper-big", ("training.average=20", "name=averaged"))):
        sets = [argument for override in overrides for argument in ("--set", override)]
        code, out, err = tfm("config", *([name] if name else []), *sets, cwd=tmp_path)
        assert (code, err) == (0, "")
        (tmp_path / "mine.yaml").write_text(out, encoding="utf-8")
        assert load_config(tmp_path / "mine.yaml") == load_config(name, overrides)
        assert tfm("config", "mine.yaml", cwd=tmp_path)[1].partition("\n\n")[2].startswith("name: ")


def test_the_defaults_are_the_file_of_the_checkout(tfm: Tfm, tmp_path: Path) -> None:
    assert tfm("config", cwd=tmp_path) == (0, shipped_configs()["multi30k"].read_text(encoding="utf-8"), "")


def test_a_run_has_what_it_was_trained_with(tfm: Tfm, project: Path, tiny: Run, tmp_path: Path) -> None:
    code, out, err = tfm("config", "--run", "tiny", cwd=project)
    assert (code, err) == (0, "")
    assert out.startswith("# The settings of runs/tiny\n\nname: tiny ")
    (tmp_path / "again.yaml").write_text(out, encoding="utf-8")
    assert load_config(tmp_path / "again.yaml") == tiny.config


def test_a_run_that_lost_its_config_is_one_line(tfm: Tfm, workspace: Path) -> None:
    (workspace / "runs/tiny/config.yaml").unlink()
    code, out, err = tfm("config", "--run", "tiny", cwd=workspace)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tfm: error: runs/tiny/config.yaml: missing; restore it")


def test_an_edit_of_a_runs_config_is_shown(tfm: Tfm, workspace: Path) -> None:
    path = workspace / "runs/tiny/config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("beam_size: 1", "beam_size: 7"), encoding="utf-8")
    code, out, err = tfm("config", "--run", "tiny", cwd=workspace)
    assert (code, "  beam_size: 7 " in out) == (0, True)
    assert err == ""


def test_the_shipped_ones_are_listed(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("config", "--list", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*shipped_configs()]
    assert f"\n```\n{out}```\n" in SETTINGS.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments", [("demo", "--run", "tiny"), ("--run", "a", "--set", "name=b"), ("--list", "demo")]
)
def test_only_one_thing_is_printed(tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = tfm("config", *arguments, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "cannot be used with" in err


def test_train_takes_a_shipped_config_by_name(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("train", "--config", "demo-captions", cwd=tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tfm: error: data/: no dataset captions de→en ")


def test_printing_a_config_imports_no_torch() -> None:
    command = "import sys; from transformer_cli.commands.app import app; app(['config', 'demo'], standalone_mode=False)"
    heavy = "print(sorted({'torch', 'numpy', 'spacy'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{command}; {heavy}"], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
