"""One optimiser step on its own; how steps add up to a run is in test_trainer.py."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from transformer_cli.compute.devices import Precision, choose_precision
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.errors import ConfigError
from transformer_cli.model.dropout import current_generator
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD
from transformer_cli.training import learner as module
from transformer_cli.training.learner import BatchLoss, Learner, mix_seed

SPLIT = EncodedSplit(Side.of([[4, 5, 6], [5], [6, 6, 4, 4]]), Side.of([[4, 4], [5, 6, 4], [6]]))
SHAPE = ModelConfig(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=8, max_length=8)


def make_learner(*, dropout: float = 0.1, **settings: Any) -> Learner:
    torch.manual_seed(0)
    shape = SHAPE.model_copy(update={"dropout": dropout})
    training = TrainingConfig(precision="float32", **settings)
    model = Transformer(shape, source_vocabulary=7, target_vocabulary=7, pad_id=PAD)
    return Learner(model, training, torch.device("cpu"))


def step(learner: Learner, batches: Sequence[Rows], number: int = 1) -> BatchLoss:
    loss = learner.backward(SPLIT, batches, step=number)
    assert learner.step()
    return loss


def gradient(weight: torch.Tensor) -> torch.Tensor:
    assert weight.grad is not None
    return weight.grad


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])


class OwnDraws(nn.Module):
    """Draws from torch's global generator, or from the one that tfm's dropout uses."""

    def __init__(self, *, is_global: bool) -> None:
        super().__init__()
        self.is_global = is_global

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(x.shape, generator=None if self.is_global else current_generator())


@pytest.mark.parametrize(("shards", "is_global"), [(1, True), (1, False), (3, False)])
def test_own_random_numbers_follow_from_seed_and_step(shards: int, is_global: bool) -> None:
    found: list[torch.Tensor] = []
    for number in (1, 1, 2):
        learner = make_learner(shards=shards)
        learner.model.encoder.layers[0].feed_forward.dropout = OwnDraws(is_global=is_global)  # type: ignore[assignment]
        torch.manual_seed(len(found))
        step(learner, [np.arange(3)], number)
        found.append(weights(learner))
    assert found[0].equal(found[1])
    assert not found[0].equal(found[2])


def test_global_random_numbers_in_several_shards_are_refused() -> None:
    learner = make_learner(shards=2)
    learner.model.encoder.layers[0].feed_forward.dropout = nn.Dropout(0.5)  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"^training\.shards: 2, but the model draws from torch's global random gen"):
        learner.backward(SPLIT, [np.arange(3)], step=1)


@pytest.mark.parametrize("setting", ["auto", "float32", "bfloat16"])
def test_learner_resolves_precision(setting: Precision | Literal["auto"]) -> None:
    device, model = torch.device("cpu"), Transformer(SHAPE, source_vocabulary=7, target_vocabulary=7, pad_id=PAD)
    learner = Learner(model, TrainingConfig(precision=setting), device)
    assert learner.precision == learner.training.precision == choose_precision(setting, device)


def test_step_depends_on_weights_batches_and_number_alone() -> None:
    batches, after = [np.array([0, 2]), np.array([1])], []
    for number in (1, 1, 2):
        learner = make_learner()
        torch.manual_seed(number + 7)  # it does not matter what was drawn before
        loss = step(learner, batches, number=number)
        assert loss.tokens == (2 + 1) + (1 + 1) + (3 + 1)
        after.append(weights(learner))
    assert after[0].equal(after[1])
    assert not after[0].equal(after[2])  # other dropout


def test_mix_seed_differs_by_step_process_and_shard() -> None:
    places = [*product(range(2), range(1, 50), (0, 3), (0, 2))]
    seeds = {mix_seed(*place) for place in places}
    assert len(seeds) == len(places)
    assert max(seeds) < 2**32  # all that torch's CPU generator looks at
    for step in (1, 2, 77):
        alone = np.random.SeedSequence([5, step]).generate_state(1)[0]
        assert mix_seed(5, step, 0, 0) == alone


@pytest.mark.parametrize("limit", [0.001, None])
def test_step_clips_the_gradient_to_its_norm(limit: float | None) -> None:
    learner = make_learner(clip_grad_norm=limit)
    learner.backward(SPLIT, [np.array([0, 1, 2])], step=1)
    before = learner.step()
    norm = float(torch.nn.utils.get_total_norm([gradient(each) for each in learner.model.parameters()]))
    assert norm == pytest.approx(before if limit is None else limit, rel=0.01)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_step_with_infinite_gradient_changes_no_weight(value: float) -> None:
    learner = make_learner()
    before = weights(learner)
    learner.backward(SPLIT, [np.array([0, 1, 2])], step=1)
    gradient(learner.model.output.bias)[0] = value
    assert math.isnan(learner.step())
    assert weights(learner).equal(before)


def stepped(*, threads: int, shards: int, **settings: Any) -> torch.Tensor:
    """The weights after three steps of two batches each."""
    torch.set_num_threads(threads)
    try:
        learner = make_learner(shards=shards, **settings)
        for number in (1, 2, 3):
            step(learner, [np.array([0, 2]), np.array([1])], number=number)
        return weights(learner)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    "settings", [{}, {"optimizer": "muon"}, {"consistency": 3.0}], ids=["adam", "muon", "consistency"]
)
def test_step_is_the_same_for_any_number_of_threads(settings: dict[str, Any]) -> None:
    one, two, three = (stepped(threads=threads, shards=2, **settings) for threads in (1, 2, 3))
    assert one.equal(two)
    assert one.equal(three)
    assert not one.equal(stepped(threads=1, shards=1, **settings))  # other dropout


def test_consistency_halves_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(split: EncodedSplit, rows: Rows, max_tokens: int) -> list[Rows]:
        limits.append(max_tokens)
        return [rows]

    limits: list[int] = []
    monkeypatch.setattr(module, "split_into_micro_batches", whole)
    for consistency in (0.0, 3.0):
        step(make_learner(consistency=consistency), [np.arange(3)])
    assert limits == [module.MICRO_BATCH_TOKENS, module.MICRO_BATCH_TOKENS // 2]


def test_shards_add_up_to_the_whole_gradient() -> None:
    batch, gradients = [np.array([0, 1, 2])], []
    for shards in (1, 2, 5):  # with 5, two have no sentence
        learner = make_learner(dropout=0.0, shards=shards)
        loss = learner.backward(SPLIT, batch, step=1)
        gradients.append([loss.nll, *(each.grad for each in learner.model.parameters())])
    torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(gradients[0], gradients[2])
