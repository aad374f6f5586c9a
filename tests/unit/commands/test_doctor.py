"""`tfm doctor`: what it finds on this machine, and on others that are pretended."""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch

from kinds import Tfm
from pretended import pretended_gpus


@pytest.fixture
def told(tfm: Tfm, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """What is told, by its label."""

    def ask(**environment: str) -> dict[str, str]:
        code, out, err = tfm("doctor", cwd=tmp_path, environment=environment)
        assert (code, err) == (0, "")
        return {line[:20].rstrip(): line[20:] for line in out.splitlines()}

    return ask


def test_doctor_tells_what_is_here_and_leaves_nothing_behind(
    told: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    found = told()
    assert [*found] == [
        *("tfm", "python", "packages", "variables", "folder", "downloads", "processor", "memory free", "device"),
        "precision",
    ]
    assert found["folder"].startswith(f"{tmp_path}, ")
    assert found["tfm"].startswith(f"{metadata.version('transformer-cli')} in /")
    assert {f"torch {metadata.version('torch')}", f"ctranslate2 {metadata.version('ctranslate2')}"} < {
        *found["packages"].split(", ")
    }
    assert "pytest" not in found["packages"]
    assert found["device"].startswith(f"cpu, {torch.get_num_threads()} thread")
    assert list(tmp_path.iterdir()) == []


def test_doctor_tells_only_variables_that_have_an_influence(told: Callable[..., dict[str, str]]) -> None:
    variables = told(OMP_NUM_THREADS="3", MY_PASSWORD="secret")["variables"]
    assert "OMP_NUM_THREADS 3" in variables.split(", ")
    assert "secret" not in variables


def test_doctor_device_is_told_with_its_precision(told: Callable[..., dict[str, str]]) -> None:
    with pretended_gpus(1, "NVIDIA H200", (9, 0)):
        found = told()
    assert found["device"] == "cuda:0 (NVIDIA H200)"
    assert found["precision"] == "bfloat16: fast here by compute capability 9.0"
