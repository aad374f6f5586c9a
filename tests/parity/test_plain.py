"""The loss, the gradient and greedy search against the tutorials' code written out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from oracles.plain import PlainTransformer, plain_greedy, plain_loss, plain_state
from transformer_cli import Translator
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.data.batching import collate
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import EOS, PAD, SOS
from transformer_cli.training.learner import Learner

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


def test_training_step_equals_plain_padded_batch(split: EncodedSplit) -> None:
    torch.manual_seed(0)
    ours = Transformer(DEFAULT, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=PAD)
    plain = PlainTransformer(ours)
    batch = collate(split, ROWS)
    learner = Learner(ours, TrainingConfig(precision="float32"), torch.device("cpu"))
    found_loss = learner.backward(split, [ROWS], step=1)
    loss = plain_loss(plain.train(), batch.source, batch.target)
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


def test_translate_equals_plain_greedy_search(project: Path, corpus: Path) -> None:
    translator = Translator(project / "runs/tiny", device="cpu")
    run = translator.run
    plain = PlainTransformer(translator.model)
    lines = (corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    for translation in translator.translate_detailed(lines):
        words = run.codecs.source.encode(translation.source)
        ids = [SOS, *words.ids, EOS]
        found = plain_greedy(plain, ids, sos=SOS, eos=EOS, max_tokens=14)
        assert run.codecs.target.tokens(found) == translation.tokens
