"""Everything that computes, on a GPU that is not there: what was not moved to it may not be mixed with what was.

tests/pretended.py says what such a device refuses. A real one is needed for speed and rounding, not for this.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kinds import TrainTiny
from outcomes import weights
from pretended import PretendedDevice, is_moved, pretended_gpus
from transformer_cli import Translator, evaluate, inspect_sentence
from transformer_cli.model import loss
from transformer_cli.model.loss import token_losses
from transformer_cli.runs.run import Run
from transformer_cli.text.vocabulary import EOS, PAD, SOS

pytestmark = pytest.mark.long  # make test runs the same code on the CPU

SENTENCES = ["Der kleine Hund läuft im Park.", "", "Die Frau schläft.", "Das alte Kind singt zu Hause."]
FROZEN_VECTORS = ("model.vectors.source=VECTORS", "model.vectors.freeze=true")


@pytest.fixture
def gpu() -> Iterator[PretendedDevice]:
    with pretended_gpus(1), PretendedDevice("cuda:0") as pretended:
        yield pretended


@pytest.fixture
def train_there(train_tiny: TrainTiny, tmp_path: Path, gpu: PretendedDevice) -> Callable[..., Run]:
    """Train the tiny run on the pretended device in tmp_path/runs, for an epoch of one step unless it is set."""

    def train_with(*overrides: str) -> Run:
        (tmp_path / "de.vec").write_text(f"hund {'0.5 ' * 32}\n", encoding="utf-8")
        overrides = tuple(each.replace("VECTORS", str(tmp_path / "de.vec")) for each in overrides)
        few = ("training.epochs=1", "training.batch_size=200", f"training.device={gpu.device.type}")
        return train_tiny(tmp_path / "runs", *few, *overrides)

    return train_with


def test_pretended_device_refuses_what_a_device_refuses(gpu: PretendedDevice) -> None:
    here, there = torch.ones(2, 2), torch.ones(2, 2).to(gpu.device)
    assert (here.device.type, there.device, (there + 1).T.device) == ("cpu", gpu.device, gpu.device)
    assert (there.cpu().device.type, torch.zeros(1, device=there.device).device) == ("cpu", gpu.device)
    assert there[torch.tensor([0])].tolist() == (there * torch.tensor(1.0))[:1].tolist() == [[1.0, 1.0]]
    for wrong, said in (
        (lambda: there + here, "expected all tensors on"),
        (lambda: there.index_select(0, torch.tensor([0])), "expected all tensors on"),
        (lambda: there.__setitem__(torch.tensor([0]), here[:1]), "expected all tensors on"),
        (lambda: here.add_(there), "expected all tensors on"),
        (lambda: np.asarray(there), "can't convert"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=said):
            wrong()
    layer = torch.nn.Linear(2, 1).to(gpu.device)
    layer(there).sum().backward()
    assert is_moved(layer.weight) and layer.weight.grad is not None and is_moved(layer.weight.grad)  # noqa: PT018


@pytest.mark.parametrize(
    "settings",
    [
        ("model.dropout=0.3",),  # which follows from the step's number there too
        ("model.tie_embeddings=target+output", "training.freeze=[encoder]", "training.clip_grad_norm=null"),
        ("training.batch_by=tokens", "training.batch_size=700", "training.gradient_accumulation_steps=3",
         "model.vectors.source=VECTORS"),
        ("model.positions=sinusoidal", "training.label_smoothing=0.1", "model.norm=pre", *FROZEN_VECTORS),
    ],
    ids=["dropout", "frozen", "tokens and vectors", "sinusoidal and frozen vectors"],
)  # fmt: skip
def test_train_on_a_device_resumes_and_averages_exactly(
    train_there: Callable[..., Run], gpu: PretendedDevice, settings: tuple[str, ...]
) -> None:
    settings = (*settings, "training.average_checkpoints=2")
    train_there(*settings, "training.epochs=2")
    cut = train_there(*settings, "training.epochs=3")
    whole = train_there(*settings, "name=whole", "training.epochs=3")
    for name in ("last", "average"):
        one, other = weights(cut, name), weights(whole, name)
        assert all(torch.equal(value, other[key]) for key, value in one.items())
    assert gpu.n_operations > 500


@pytest.mark.parametrize("gpu", ["cuda:0"], indirect=True)
def test_train_on_a_device_computes_no_logits_of_a_whole_batch(
    train_there: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "GPU_CHUNK_TOKENS", 100)
    rows: list[int] = []
    cross_entropy = loss.cross_entropy

    def noted(logits: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        rows.append(len(logits))
        return cross_entropy(logits, *arguments, **keywords)

    monkeypatch.setattr(loss, "cross_entropy", noted)
    train_there()
    assert max(rows) == 100


@pytest.mark.parametrize("gpu", ["cuda:0"], indirect=True)
def test_forward_on_a_device_does_not_synchronise(tiny: Run, gpu: PretendedDevice) -> None:
    model = Translator(tiny, str(gpu.device)).model.train()
    ids = torch.tensor([[SOS, 5, 6, EOS], [SOS, 7, EOS, PAD]])
    n_operations, n_waits = gpu.n_operations, gpu.n_waits  # a word was translated when the run was opened
    losses = token_losses(model, ids, ids)
    assert gpu.n_operations > n_operations + 50
    assert gpu.n_waits == n_waits
    losses.nll.sum().item()
    assert gpu.n_waits == n_waits + 1


@pytest.mark.parametrize(
    "decoding",
    [
        {"no_repeat_ngram_size": 2},
        {"beam_size": 70, "no_repeat_ngram_size": 1},
        {"sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7},
    ],
    ids=str,
)
def test_translate_on_a_device_as_on_the_cpu(
    tiny: Run, translator: Translator, gpu: PretendedDevice, decoding: dict[str, Any]
) -> None:
    found, expected = (
        each.with_options(prefix="the", **decoding).translate_detailed(SENTENCES)
        for each in (Translator(tiny, str(gpu.device)), translator)
    )
    assert [each.text for each in found] == [each.text for each in expected]
    assert gpu.n_operations > 100


def test_translate_on_a_device_by_an_ensemble(tiny: Run, gpu: PretendedDevice) -> None:
    for decoding in ({"beam_size": 4}, {"sample": True}):
        ensemble = Translator(tiny, str(gpu.device), others=[tiny]).with_options(n_best=3, **decoding)
        found = ensemble.translate_detailed(SENTENCES)
        assert [len(each.alternatives) for each in found] == [2, 0, 2, 2]


def test_inspect_on_a_device(tiny: Run, gpu: PretendedDevice) -> None:
    inspection = inspect_sentence(Translator(tiny, str(gpu.device)), "Der Hund singt, der Hund läuft.")
    tensors = [inspection.before, inspection.after, inspection.without_positions]
    tensors += [each.weights for layers in inspection.attention.values() for each in layers]
    tensors += inspection.stages.values()
    assert not any(is_moved(each) for each in tensors)
    assert inspection.repetitions()
    assert len(inspection.maps()) == 6


def test_evaluate_on_a_device(workspace: Path, gpu: PretendedDevice) -> None:
    found = {
        device: evaluate(workspace / "runs/tiny", device=device, data_dir=workspace / "data")[0].result
        for device in (gpu.device.type, "cpu")
    }
    there, here = found.values()
    assert there.loss == pytest.approx(here.loss, abs=1e-5)
    assert there.bleu == here.bleu
