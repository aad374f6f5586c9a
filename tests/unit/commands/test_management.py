"""`tfm doctor`, here and on simulated machines; `tfm config` of the defaults, a shipped config, a file and a run."""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch

from kinds import Tfm
from pretended import pretended_gpus
from transformer_cli.config.load import load_config, shipped_configs
from transformer_cli.runs.run import Run

SETTINGS = Path(__file__).parents[3] / "docs" / "settings.md"


@pytest.fixture
def told(tfm: Tfm, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The output of `tfm doctor`, by label."""

    def ask(**environment: str) -> dict[str, str]:
        code, out, err = tfm("doctor", cwd=tmp_path, environment=environment)
        assert (code, err) == (0, "")
        return {line[:20].rstrip(): line[20:] for line in out.splitlines()}

    return ask


def test_doctor_prints_facts_and_writes_no_file(told: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    found = told()
    assert [*found] == [
        *("tfm", "python", "interpreter", "packages", "variables", "folder", "downloads", "processor", "memory free"),
        *("device", "precision"),
    ]
    assert found["folder"].startswith(f"{tmp_path}, ")
    assert found["tfm"].startswith(f"{metadata.version('transformer-cli')} in /")
    packages = {*found["packages"].split(", ")}
    assert {f"{name} {metadata.version(name)}" for name in ("torch", "ctranslate2")} < packages
    assert "pytest" not in found["packages"]
    assert found["device"].startswith(f"cpu, {torch.get_num_threads()} thread")
    assert list(tmp_path.iterdir()) == []


def test_doctor_prints_only_relevant_variables(told: Callable[..., dict[str, str]]) -> None:
    variables = told(OMP_NUM_THREADS="3", MY_PASSWORD="secret")["variables"]
    assert "OMP_NUM_THREADS 3" in variables.split(", ")
    assert "secret" not in variables


@pytest.mark.parametrize(
    ("python", "is_private"), [("/bin/sh", False), ("/home/anna/.pyenv/bin/python3", True), ("venv/python3", True)]
)
def test_doctor_marks_a_private_interpreter(
    told: Callable[..., dict[str, str]], tmp_path: Path, python: str, is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv").mkdir(mode=0o700)
    (tmp_path / "venv/python3").symlink_to("/bin/sh")
    monkeypatch.setattr("sys.executable", str(tmp_path / python))  # an absolute path stays itself
    assert ("private" in told()["interpreter"]) is is_private


def test_doctor_prints_device_and_precision(told: Callable[..., dict[str, str]]) -> None:
    with pretended_gpus(1, "NVIDIA H200", (9, 0)):
        found = told()
    assert found["device"] == "cuda:0 (NVIDIA H200)"
    assert found["precision"] == "bfloat16: fast here by compute capability 9.0"


def test_config_output_loads_as_a_config(tfm: Tfm, tmp_path: Path) -> None:
    for name, overrides in (
        (None, ()),
        ("demo", ()),
        ("paper-big", ("training.average_checkpoints=20", "name=averaged")),
    ):
        sets = [argument for override in overrides for argument in ("--set", override)]
        code, out, err = tfm("config", *([name] if name else []), *sets, cwd=tmp_path)
        assert (code, err) == (0, "")
        (tmp_path / "mine.yaml").write_text(out, encoding="utf-8")
        assert load_config(tmp_path / "mine.yaml") == load_config(name, overrides)
        assert tfm("config", "mine.yaml", cwd=tmp_path)[1].partition("\n\n")[2].startswith("name: ")


def test_config_without_name_equals_multi30k_yaml(tfm: Tfm, tmp_path: Path) -> None:
    assert tfm("config", cwd=tmp_path) == (0, shipped_configs()["multi30k"].read_text(encoding="utf-8"), "")


def test_config_of_a_run_prints_its_settings(tfm: Tfm, project: Path, tiny: Run, tmp_path: Path) -> None:
    code, out, err = tfm("config", "runs/tiny/config.yaml", cwd=project)
    assert (code, err) == (0, "")
    assert out.startswith("# The settings of runs/tiny/config.yaml\n\nname: tiny ")
    (tmp_path / "again.yaml").write_text(out, encoding="utf-8")
    assert load_config(tmp_path / "again.yaml") == tiny.config


def test_config_list_prints_shipped_configs(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("config", "--list", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*shipped_configs()]
    assert f"\n```\n$ tfm config --list\n{out}```\n" in SETTINGS.read_text(encoding="utf-8")
