"""One pass over a padded batch against the slow, obvious ways: a sentence alone, a token at a time, no cache."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from oracles.small import assert_close, make_model
from oracles.variants import VARIANTS
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.model.transformer import Transformer

PAD, SOS, EOS = 1, 2, 3
SOURCES = [[SOS, 5, 6, 7, 8, EOS], [SOS, 9, EOS], [SOS, 10, 11, 4, EOS], [SOS, 4, 4, EOS], [SOS, 7, EOS]]
TARGETS = [[SOS, 8, 4], [SOS, 10, 11, 5, 6, 7], [SOS], [SOS, 9, 9, 9], [SOS, 6, 5]]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return make_model(**VARIANTS[request.param])


def test_sentence_alone_equals_sentence_in_padded_batch(model: Transformer) -> None:
    together = model(padded(SOURCES), padded(TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(torch.tensor([source]), torch.tensor([target]))[0]
        assert_close(together[row, : len(target)], alone)


def test_later_target_token_keeps_earlier_logits_bitwise(model: Transformer) -> None:
    source, target = padded(SOURCES[:2]), torch.tensor([[SOS, 8, 4, 6, 5], [SOS, 10, 11, 5, 6]])
    before = model(source, target)
    for position in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, position] = 7
        after = model(source, changed)
        assert after[:, :position].equal(before[:, :position])
        assert (after[:, position:] != before[:, position:]).any(dim=2).all()  # and each one from there on hears of it


def test_cached_decoding_equals_one_forward_pass(model: Transformer) -> None:
    source, target = padded(SOURCES), torch.tensor([[SOS, 8, 4, 6, 5, 9]] * len(SOURCES))
    cache = model.init_cache(source)
    steps = [model.next_logits(target[:, position], cache) for position in range(target.shape[1])]
    assert_close(torch.stack(steps, dim=1), model(source, target))


def test_cached_beams_of_two_sentences_equal_full_decoding(model: Transformer) -> None:
    """The example of cache.py: three of each sentence or fewer, then others go on, then only the second sentence."""
    source = padded(SOURCES[:2])
    cache = model.init_cache(source)
    tokens = torch.full((2, 1), SOS)  # of each hypothesis so far
    of_sentence = torch.tensor([0, 1])
    for rows, newest in [
        ([0, 0, 0, 1, 1, 1], [4, 5, 6, 7, 8, 9]),
        ([2, 0, 0, 3, 3], [5, 6, 7, 8, 9]),
        ([1, 4, 3, 4], [4, 11, 4, 11]),
    ]:
        assert_close(model.next_logits(tokens[:, -1], cache), model(source[of_sentence], tokens)[:, -1])
        cache.select(torch.tensor(rows))
        tokens = torch.cat((tokens[rows], torch.tensor(newest)[:, None]), dim=1)
        of_sentence = of_sentence[rows]
    assert of_sentence.tolist() == [0, 1, 1, 1]
    assert_close(model.next_logits(tokens[:, -1], cache), model(source[of_sentence], tokens)[:, -1])
    cache.select(torch.tensor([1, 2, 3]))
    tokens = torch.cat((tokens, torch.tensor([[4], [5], [6], [7]])), dim=1)
    whole, step = AttentionRecord(), AttentionRecord()
    assert_close(model.next_logits(tokens[1:, -1], cache, step), model(source[[1, 1, 1]], tokens[1:])[:, -1])
    model(source[[1, 1, 1]], tokens[1:], whole)
    assert_close(cache.ungroup_by_sentence(step.cross[0].weights), whole.cross[-1].weights[:, :, -1:])
