"""The model, the loss, the gradient and greedy search against the tutorials' code written out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from oracles.plain import PlainTransformer, plain_greedy, plain_loss, plain_state, plain_step
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.data.batching import collate
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.data.vocabulary import EOS, PAD, SOS
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.step import Learner
from transformer_cli.translator import Translator

VOCABULARY = 300
ROWS = np.arange(48)
DEFAULT = ModelConfig(dropout=0.0)


@pytest.fixture(scope="module")
def split() -> EncodedSplit:
    """Sentences of random words, as long as Multi30k's: 12.4 and 13.1 tokens on average, few of them above 25."""
    chance = np.random.default_rng(0)
    sides = []
    for mean in (12.4, 13.1):
        lengths = np.clip(chance.gamma(9.0, mean / 9.0, len(ROWS)).round(), 2, 40).astype(np.int64)
        ids = chance.integers(4, VOCABULARY, lengths.sum(), dtype=np.int32)
        sides.append(Side(ids, np.cumsum([0, *lengths])))
    return EncodedSplit(*sides)


@pytest.fixture(scope="module")
def ours() -> Transformer:
    torch.manual_seed(0)
    return Transformer(DEFAULT, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=PAD)


@pytest.fixture(scope="module")
def plain(ours: Transformer) -> PlainTransformer:
    return PlainTransformer(ours)


def test_the_plain_model_gives_the_same_logits(split: EncodedSplit, ours: Transformer, plain: PlainTransformer) -> None:
    batch = collate(split, ROWS)
    real = batch.target != PAD
    torch.testing.assert_close(
        ours(batch.source, batch.target)[real], plain(batch.source, batch.target)[real], atol=1e-5, rtol=1e-4
    )


@pytest.fixture(scope="module")
def learner(ours: Transformer) -> Learner:
    return Learner(ours, TrainingConfig(precision="float32"), torch.device("cpu"))


def test_a_step_has_the_plain_loss_and_gradient_of_a_whole_padded_batch(
    learner: Learner, split: EncodedSplit, ours: Transformer, plain: PlainTransformer
) -> None:
    batch = collate(split, ROWS)
    ours.zero_grad()
    found_loss = learner.backward(split, [ROWS])
    loss = plain_loss(plain.train(), batch.source, batch.target)
    plain.zero_grad()
    loss.backward()
    assert found_loss.tokens == int((batch.target[:, 1:] != PAD).sum())
    assert found_loss.nll / found_loss.tokens == pytest.approx(loss.item(), rel=1e-5)
    found = plain_state({name: _gradient(weight) for name, weight in ours.named_parameters()})
    expected = {name: _gradient(weight) for name, weight in plain.named_parameters()}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        error = (found[name] - gradient).norm() / gradient.norm().clamp(min=1e-3)
        assert error < 1e-4, name


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def test_the_plain_step_learns_as_torch_does(split: EncodedSplit, ours: Transformer) -> None:
    plain = PlainTransformer(ours)
    batch = collate(split, ROWS[:8])
    optimizer = torch.optim.Adam(plain.parameters(), lr=5e-4)
    losses = [plain_step(plain, optimizer, batch.source, batch.target) for _ in range(8)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]


def test_translations_are_those_of_plain_greedy_search(project: Path, corpus: Path) -> None:
    translator = Translator.load(project / "runs/tiny", device="cpu")
    run = translator.run
    plain = PlainTransformer(translator.model)
    lines = (corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    for translation in translator.translations(lines):
        words = run.codecs.source.encode(translation.source)
        ids = [SOS, *words.ids, EOS]
        found = plain_greedy(plain, ids, sos=SOS, eos=EOS, max_tokens=14)
        assert run.codecs.target.tokens(found) == translation.tokens
