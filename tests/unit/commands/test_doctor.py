"""`tfm doctor`: what it finds on this machine, on others that are pretended, and where something is missing."""

import sys
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
        *("tfm", "python", "system", "packages", "variables", "folder", "disk free", "downloads"),
        *("processor", "memory", "device", "precision"),
    ]
    assert found["folder"] == str(tmp_path)
    assert found["tfm"].startswith(f"{metadata.version('transformer-cli')} in /")
    assert {f"torch {metadata.version('torch')}", f"ctranslate2 {metadata.version('ctranslate2')}"} < {
        *found["packages"].split(", ")
    }
    assert "pytest" not in found["packages"]
    assert found["device"].startswith(f"cpu, {torch.get_num_threads()} thread")
    assert list(tmp_path.iterdir()) == []


def test_doctor_package_that_is_not_installed_has_a_dash(
    told: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = ["torch>=2.6", "no-such-thing==1", "nor-this>=2; extra == 'own'", "typer ; extra=='own'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    torch_, typer = (metadata.version(name) for name in ("torch", "typer"))
    assert told()["packages"] == f"torch {torch_}, no-such-thing –, nor-this –, typer {typer}"


def test_doctor_tells_only_variables_that_have_an_influence(told: Callable[..., dict[str, str]]) -> None:
    variables = told(OMP_NUM_THREADS="3", MY_PASSWORD="secret")["variables"]
    assert "OMP_NUM_THREADS 3" in variables.split(", ")
    assert "secret" not in variables


def test_doctor_folder_that_cannot_be_written_to_is_told(
    told: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    assert told()["folder"].endswith(", in which nothing can be written")


def test_doctor_torch_that_cannot_be_imported_is_told_after_all_else(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "torch":
                raise ImportError("libtorch.so: file too short")

    with monkeypatch.context() as here:  # torch is back before anything else ends: a plugin may seed it
        here.delitem(sys.modules, "torch")
        here.setattr(sys, "meta_path", [Broken, *sys.meta_path])
        code, out, err = tfm("doctor", cwd=tmp_path)
    problem = "torch cannot be imported: libtorch.so: file too short; install it again"
    assert (code, err) == (1, f"tfm: error: {problem}\n")
    assert "\nmemory " in out
    assert "\ndevice " not in out


def test_doctor_device_is_told_with_its_precision(told: Callable[..., dict[str, str]]) -> None:
    with pretended_gpus(1, "NVIDIA H200", (9, 0)):
        found = told()
    assert (found["device"], found["device memory free"]) == ("cuda:0 (NVIDIA H200)", "1.0 GB")
    assert found["precision"] == "bfloat16: fast here by compute capability 9.0"
