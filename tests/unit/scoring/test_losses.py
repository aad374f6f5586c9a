"""Losses against written-out sums, sentence by sentence and together."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torchtext.data.utils import interleave_keys

from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.runs.run import Run
from transformer_cli.scoring import losses as module
from transformer_cli.scoring.losses import corpus_losses, make_loss_check, perplexity, perplexity_text, sentence_losses
from transformer_cli.text.vocabulary import EOS, SOS
from transformer_cli.translate import Translator


@pytest.fixture(scope="module")
def split() -> EncodedSplit:
    """Made-up sentences of all lengths, more than one batch of 128."""
    chance = np.random.default_rng(0)
    lengths = chance.integers(1, 13, size=(2, 200))
    sides = [Side(chance.integers(4, 20, side.sum(), dtype=np.int32), np.cumsum([0, *side])) for side in lengths]
    return EncodedSplit(*sides)


def one_by_one(translator: Translator, split: EncodedSplit, rows: Sequence[int]) -> dict[int, tuple[float, int]]:
    """(sum of the losses, target tokens) of each sentence on its own, the plain way."""
    found = {}
    for row in rows:
        source = torch.tensor([[SOS, *split.source[row].tolist(), EOS]])
        target = torch.tensor([[SOS, *split.target[row].tolist(), EOS]])
        logits = translator.model(source, target[:, :-1])[0]
        found[row] = float(torch.nn.functional.cross_entropy(logits, target[0, 1:], reduction="sum")), len(logits)
    return found


def test_loss_check_has_the_longest_pairs(translator: Translator, split: EncodedSplit) -> None:
    rows = range(50, 100)
    check = make_loss_check(translator.model, split, np.array(rows))
    longest = sorted(rows, key=lambda row: -len(split.source[row]) - len(split.target[row]))[:3]
    assert check["source"] == [split.source[row].tolist() for row in longest]
    assert len(check["nll"]) == 3


@pytest.mark.parametrize("positions", [1, 100, 2048])
def test_corpus_losses_equal_a_plain_loop(
    translator: Translator, split: EncodedSplit, monkeypatch: pytest.MonkeyPatch, positions: int
) -> None:
    monkeypatch.setattr(module, "BATCH_POSITIONS", positions)
    rows = np.arange(0, len(split), 1 if positions == 2048 else 20)
    with torch.no_grad():
        single = one_by_one(translator, split, rows.tolist())
    losses = corpus_losses(translator.model, split, rows)
    nll, tokens = (sum(values) for values in zip(*single.values(), strict=True))
    assert losses.tokens == tokens
    assert losses.loss == pytest.approx(nll / tokens, rel=1e-5)
    lengths = split.source.lengths, split.target.lengths
    order = sorted(single, key=lambda row: interleave_keys(*(int(side[row]) for side in lengths)))
    batches = [[single[row] for row in order[start : start + 128]] for start in range(0, len(order), 128)]
    means = [sum(nll for nll, _ in batch) / sum(tokens for _, tokens in batch) for batch in batches]
    assert losses.loss_batch_mean == pytest.approx(sum(means) / len(means), rel=1e-5)
    assert (losses.loss_batch_mean == losses.loss) == (len(batches) == 1)


def test_sentence_losses_of_ensemble_use_mean_probability(
    translator: Translator, tiny: Run, split: EncodedSplit
) -> None:
    models, rows = [translator.model, tiny.new_model().eval()], np.array([150, 3, 77])
    expected = []
    for row in rows.tolist():
        source = torch.tensor([[SOS, *split.source[row].tolist(), EOS]])
        target = torch.tensor([[SOS, *split.target[row].tolist(), EOS]])
        with torch.inference_mode():
            mean = torch.stack([model(source, target[:, :-1])[0].softmax(dim=-1) for model in models]).mean(dim=0)
        expected.append(-float(mean.gather(1, target[0, 1:, None]).log().sum()))
    found = sentence_losses(models[0], split, rows, others=models[1:])
    assert found.nll == pytest.approx(expected, rel=1e-5)
    assert found.tokens.tolist() == [len(split.target[row]) + 1 for row in rows]


@pytest.mark.parametrize(("loss", "text"), [(1.91, "6.753"), (13.8, "984609.111"), (14, "1.2e+06"), (9e9, "1.01e+304")])
def test_perplexity_text_is_short(loss: float, text: str) -> None:
    assert perplexity_text(perplexity(loss)) == text
