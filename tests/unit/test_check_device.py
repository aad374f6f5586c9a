"""scripts/check_device.py: it runs on the CPU, and fails if a check does."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

import check_device
from measure.device import Place, Work
from measure.figures import Figure
from oracles.plain import PlainTransformer, plain_loss
from pretended import PretendedDevice, pretended_gpus
from transformer_cli.data.batching import collate

COMPARED = (check_device.losses, check_device.optimisers, check_device.repeats, check_device.texts)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Restores torch's number of threads, which the script changes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_check_device_compares_the_threads_of_a_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_device, "SECTIONS", COMPARED)
    check_device.main(["--device", "cpu", "--quick", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["about"]["compared with"].startswith("one thread beside ")
    assert len(printed["figures"]) == 8 + 2 + 4 + 2
    assert {each["verdict"] for each in printed["figures"]} == {"ok"}


def test_check_device_that_differs_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: Work) -> Iterator[check_device.Check]:
        yield check_device._judge(Figure("losses", "float32", "nats", float("nan")), 1.0)
        raise RuntimeError("no kernel")

    monkeypatch.setattr(check_device, "SECTIONS", (wrong,))
    with pytest.raises(SystemExit) as stopped:
        check_device.main(["--device", "cpu", "--quick"])
    assert stopped.value.code == 1
    assert capsys.readouterr().out.endswith("losses: float32: nan nats: differs\n2 checks failed\n")


@pytest.mark.long
def test_check_device_moves_everything_to_a_gpu() -> None:
    with pretended_gpus(1), PretendedDevice("cuda:0") as gpu:
        work = check_device._make_work(torch.device("cpu"), 2, is_quick=True)
        work = replace(work, places=(Place(gpu.device, 2), work.places[1]), precisions=("float32",))
        checks = [check for section in COMPARED for check in section(work)]
        plain = PlainTransformer(work.places[0].model(work.config)).to(gpu.device)
        batch = collate(work.split, work.plan(16)[0]).to(gpu.device)
        plain_loss(plain, batch.source, batch.target).backward()
    assert {check.verdict for check in checks} == {"ok"}
    assert gpu.n_operations > 1000
