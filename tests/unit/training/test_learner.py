"""One optimiser step on its own; how steps add up to a run is in test_trainer.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.data.lengths import Rows
from transformer_cli.data.sampled_text import mixed_seed
from transformer_cli.data.vocabulary import PAD
from transformer_cli.errors import MemoryShortage
from transformer_cli.model.fast.dropout import use_fast_dropout
from transformer_cli.model.fast.packing import packed_token_losses
from transformer_cli.model.loss import TokenLosses
from transformer_cli.model.transformer import Transformer
from transformer_cli.training import learner as module
from transformer_cli.training.learner import BatchLoss, Learner

SPLIT = EncodedSplit(Side.of([[4, 5, 6], [5], [6, 6, 4, 4]]), Side.of([[4, 4], [5, 6, 4], [6]]))
SHAPE = ModelConfig(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=8, max_length=8)


def make_learner(*, dropout: float = 0.1, **settings: Any) -> Learner:
    torch.manual_seed(0)
    shape = SHAPE.model_copy(update={"dropout": dropout})
    training = TrainingConfig(precision="float32", **settings)
    model = Transformer(shape, source_vocabulary=7, target_vocabulary=7, pad_id=PAD)
    if training.fast:
        use_fast_dropout(model)
    return Learner(model, training, torch.device("cpu"))


def step(learner: Learner, batches: Sequence[Rows], number: int = 1) -> BatchLoss:
    loss = learner.gradient(SPLIT, batches, number=number)
    assert learner.update()
    return loss


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])


def test_a_step_is_a_function_of_weights_batches_and_number() -> None:
    batches, after = [np.array([0, 2]), np.array([1])], []
    for number in (1, 1, 2):
        learner = make_learner()
        torch.manual_seed(number + 7)  # it does not matter what was drawn before
        loss = step(learner, batches, number=number)
        assert loss.tokens == (2 + 1) + (1 + 1) + (3 + 1)
        after.append(weights(learner))
    assert after[0].equal(after[1])
    assert not after[0].equal(after[2])  # other dropout


def test_the_learning_rate_is_that_of_the_next_step() -> None:
    learner = make_learner()
    before = weights(learner)
    learner.set_learning_rate(0.0)
    step(learner, [np.array([0])])
    assert learner.learning_rate == 0.0
    assert weights(learner).equal(before)


def test_every_process_and_lane_has_dropout_of_its_own_and_the_first_that_of_a_process_alone() -> None:
    places = [
        (seed, step, rank, lane) for seed in range(2) for step in range(1, 50) for rank in (0, 3) for lane in (0, 2)
    ]
    seeds = {mixed_seed(*place) for place in places}
    assert len(seeds) == len(places)
    assert max(seeds) < 2**32  # all that torch's CPU generator looks at
    for step in (1, 2, 77):
        alone = np.random.SeedSequence([5, step]).generate_state(1)[0]
        assert mixed_seed(5, step, 0, 0) == alone


# Lanes


def stepped(*, threads: int, lanes: int, **settings: Any) -> torch.Tensor:
    """The weights after three steps of two batches each."""
    torch.set_num_threads(threads)
    try:
        learner = make_learner(lanes=lanes, **settings)
        for number in (1, 2, 3):
            step(learner, [np.array([0, 2]), np.array([1])], number=number)
        return weights(learner)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("settings", [{}, {"optimizer": "muon"}, {"fast": False}], ids=["adam", "muon", "plain"])
def test_the_number_of_threads_changes_no_bit_and_that_of_lanes_does(settings: dict[str, Any]) -> None:
    one, two, three = (stepped(threads=threads, lanes=2, **settings) for threads in (1, 2, 3))
    assert one.equal(two)
    assert one.equal(three)
    assert not one.equal(stepped(threads=1, lanes=1, **settings))  # other dropout


def test_lanes_add_up_to_the_gradient_of_one() -> None:
    batch, gradients = [np.array([0, 1, 2])], []
    for lanes in (1, 2, 5):  # with 5, two have no sentence
        learner = make_learner(dropout=0.0, lanes=lanes)
        loss = learner.gradient(SPLIT, batch, number=1)
        gradients.append([loss.nll, *(each.grad for each in learner.model.parameters())])
    torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(gradients[0], gradients[2])


def test_a_lane_that_finds_no_memory_leaves_the_weights_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    compute, asked = packed_token_losses, list[int]()

    def fail_once(model: Transformer, source: torch.Tensor, target: torch.Tensor, **options: Any) -> TokenLosses:
        asked.append(len(source))
        if len(asked) == 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return compute(model, source, target, **options)

    monkeypatch.setattr(module, "packed_token_losses", fail_once)
    learner = make_learner(lanes=3)
    before = weights(learner)
    with pytest.raises(MemoryShortage, match="a batch of 1 sentences"):
        learner.gradient(SPLIT, [np.array([0, 1, 2])], number=1)
    assert weights(learner).equal(before)
    step(learner, [np.array([0, 1, 2])])  # nothing is left of the other lanes
    again = make_learner(lanes=3)
    step(again, [np.array([0, 1, 2])])
    assert weights(learner).equal(weights(again))
