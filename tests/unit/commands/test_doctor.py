"""`tfm doctor`: what it finds on this machine, on others that are pretended, and where something is missing."""

import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

from kinds import Tfm
from transformer_cli.commands import doctor


def test_doctor_functions_find_what_is_here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    software, places, computing = doctor.software(), doctor.places(), doctor.computing()
    assert software["packages"]["torch"] == metadata.version("torch")
    assert software["packages"].keys() >= {"ctranslate2", "tensorboard"}
    assert "pytest" not in software["packages"]
    assert (places["folder"], places["problem"]) == (str(project), None)
    assert (places["data"], places["runs"]) == (str(project / "data"), str(project / "runs"))
    assert computing["threads"] == torch.get_num_threads()
    assert computing["memory_free"] <= computing["memory_total"]


def test_people_get_lines_and_nothing_is_left_behind(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm("doctor", cwd=tmp_path)
    assert (code, err) == (0, "")
    labels = [line.split()[0] for line in out.splitlines()]
    assert labels[:6] == ["tfm", "folder", "python", "executable", "system", "packages"]
    assert labels[-5:] == ["threads", "device", "cuda", "precision", "precision"]
    assert f"torch {metadata.version('torch')}, " in out
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["torch>=2.6", "no-such-thing==1", "nor-this>=2; extra == 'own'", "typer ; extra=='own'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    expected = dict.fromkeys(("no-such-thing", "nor-this"))
    assert doctor.software()["packages"] == {
        **expected,
        "torch": metadata.version("torch"),
        "typer": metadata.version("typer"),
    }


def test_of_the_environment_it_tells_only_what_has_an_influence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MY_PASSWORD", "secret")
    found = doctor.software()["variables"]
    assert found["OMP_NUM_THREADS"] == "3"
    assert "secret" not in found.values()


def test_a_folder_in_which_nothing_can_be_written_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert doctor.places()["problem"] == "Read-only file system"


def test_a_torch_that_cannot_be_imported_is_told_after_all_else(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:  # torch is back before anything else ends: a plugin may seed it
        here.setitem(sys.modules, "torch", None)
        code, out, err = tfm("doctor", cwd=tmp_path)
    problem = "torch cannot be imported: import of torch halted; None in sys.modules; install it again"
    assert (code, err) == (1, f"tfm: error: {problem}\n")
    assert "\nmemory free " in out
    assert "\ndevice " not in out


def test_a_device_is_told_with_its_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 2 * 10**9))
    found = doctor.computing()
    assert (found["device"], found["device_memory_free"]) == ("cuda:0 (NVIDIA H200)", 10**9)
    assert (found["precision"], found["precision_reason"]) == ("bfloat16", "fast here by compute capability 9.0")
