"""One optimiser step on its own; how steps add up to a run is in test_trainer.py."""

import numpy as np
import torch

from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.data.vocabulary import PAD
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.step import Learner, dropout_seed

SPLIT = EncodedSplit(Side.of([[4, 5, 6], [5], [6, 6, 4, 4]]), Side.of([[4, 4], [5, 6, 4], [6]]))
SHAPE = ModelConfig(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=8, max_length=8)


def make_learner(*, clip_grad_norm: float | None = None) -> Learner:
    torch.manual_seed(0)
    model = Transformer(SHAPE, source_vocabulary=7, target_vocabulary=7, pad_id=PAD)
    settings = TrainingConfig(precision="float32", clip_grad_norm=clip_grad_norm)
    return Learner(model, settings, torch.device("cpu"))


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])


def test_a_step_is_a_function_of_weights_batches_and_number() -> None:
    batches, after = [np.array([0, 2]), np.array([1])], []
    for number in (1, 1, 2):
        learner = make_learner()
        torch.manual_seed(number + 7)  # it does not matter what was drawn before
        loss = learner.update(learner.gradient(SPLIT, batches, number=number))
        assert loss is not None
        assert loss.tokens == (2 + 1) + (1 + 1) + (3 + 1)
        after.append(weights(learner))
    assert after[0].equal(after[1])
    assert not after[0].equal(after[2])  # other dropout


def test_the_learning_rate_is_that_of_the_next_step() -> None:
    learner = make_learner()
    before = weights(learner)
    learner.set_learning_rate(0.0)
    learner.update(learner.gradient(SPLIT, [np.array([0])], number=1))
    assert learner.learning_rate == 0.0
    assert weights(learner).equal(before)


def test_every_process_has_dropout_of_its_own_and_the_first_that_of_a_process_alone() -> None:
    seeds = {dropout_seed(seed, step, rank) for seed in range(2) for step in range(1, 50) for rank in range(4)}
    assert len(seeds) == 2 * 49 * 4
    assert max(seeds) < 2**32  # all that torch's CPU generator looks at
    for step in (1, 2, 77):
        alone = np.random.SeedSequence([5, step]).generate_state(1)[0]
        assert dropout_seed(5, step, 0) == alone
