"""`tfm config`: the settings of the defaults, of a shipped config, of a file and of a run."""

from pathlib import Path

from kinds import Tfm
from transformer_cli.config.load import load_config, shipped_configs
from transformer_cli.runs.run import Run

SETTINGS = Path(__file__).parents[3] / "docs" / "settings.md"


def test_config_prints_what_can_be_given_as_a_config(tfm: Tfm, tmp_path: Path) -> None:
    for name, overrides in ((None, ()), ("demo", ()), ("paper-big", ("training.average=20", "name=averaged"))):
        sets = [argument for override in overrides for argument in ("--set", override)]
        code, out, err = tfm("config", *([name] if name else []), *sets, cwd=tmp_path)
        assert (code, err) == (0, "")
        (tmp_path / "mine.yaml").write_text(out, encoding="utf-8")
        assert load_config(tmp_path / "mine.yaml") == load_config(name, overrides)
        assert tfm("config", "mine.yaml", cwd=tmp_path)[1].partition("\n\n")[2].startswith("name: ")


def test_config_without_a_name_is_the_file_of_the_checkout(tfm: Tfm, tmp_path: Path) -> None:
    assert tfm("config", cwd=tmp_path) == (0, shipped_configs()["multi30k"].read_text(encoding="utf-8"), "")


def test_config_of_a_run_is_what_it_was_trained_with(tfm: Tfm, project: Path, tiny: Run, tmp_path: Path) -> None:
    code, out, err = tfm("config", "runs/tiny/config.yaml", cwd=project)
    assert (code, err) == (0, "")
    assert out.startswith("# The settings of runs/tiny/config.yaml\n\nname: tiny ")
    (tmp_path / "again.yaml").write_text(out, encoding="utf-8")
    assert load_config(tmp_path / "again.yaml") == tiny.config


def test_config_list_names_the_shipped_ones(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("config", "--list", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*shipped_configs()]
    assert f"\n```\n$ tfm config --list\n{out}```\n" in SETTINGS.read_text(encoding="utf-8")
