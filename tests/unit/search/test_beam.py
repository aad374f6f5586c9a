"""Beam search over a decoder that answers from a table, against the search that tries everything."""

from itertools import product

import pytest
import torch
from torch import Tensor

from oracles.tables import EOS, A, B, C, TableDecoder, everything, rules, table
from transformer_cli.search.beam import beam_search
from transformer_cli.search.greedy import greedy_search
from transformer_cli.search.protocols import Hypothesis, Step
from transformer_cli.search.rules import score

EVERYTHING = 200  # more than the 121 translations of up to four tokens
SENTENCES = list(range(12))


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_beam_as_wide_as_all_prefixes_equals_brute_force(length_penalty: float) -> None:
    limits = [1 + sentence % 4 for sentence in SENTENCES]
    found = beam_search(
        TableDecoder(SENTENCES), rules(*limits, length_penalty=length_penalty), beam_size=EVERYTHING, n_best=EVERYTHING
    )
    for sentence, limit, hypotheses in zip(SENTENCES, limits, found, strict=True):
        all_there_are = [
            (score(log_prob, length, length_penalty), tokens, log_prob)
            for tokens, log_prob, length in everything(sentence, limit)
        ]
        expected = sorted(all_there_are, reverse=True)
        assert [each.tokens for each in hypotheses] == [tokens for _, tokens, _ in expected]
        assert [each.score for each in hypotheses] == pytest.approx([best for best, _, _ in expected], abs=1e-5)
        assert [each.log_prob for each in hypotheses] == pytest.approx([each for _, _, each in expected], abs=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [3, 40])
def test_beam_n_best_first_equals_n_best_1(beam_size: int, length_penalty: float) -> None:
    """A search for one best hypothesis may end earlier, and finds the same."""
    steps = []
    found = []
    for n_best in (1, 2, beam_size):
        decoder = TableDecoder(SENTENCES)
        limits = rules(*[7] * len(SENTENCES), length_penalty=length_penalty)
        found.append(beam_search(decoder, limits, beam_size=beam_size, n_best=n_best))
        steps.append(sum(map(sum, decoder.n_rows)))
    one, two, many = found
    assert [each[:1] for each in many] == one
    assert [each[:2] for each in many] == two
    if length_penalty == 0.0:
        assert steps[0] < steps[2]


def test_beam_size_1_equals_greedy_search() -> None:
    limits = rules(*[1 + sentence % 6 for sentence in SENTENCES], length_penalty=0.7)
    alone = greedy_search(TableDecoder(SENTENCES), limits)
    beams = beam_search(TableDecoder(SENTENCES), limits, beam_size=1, n_best=1)
    for expected, (found,) in zip(alone, beams, strict=True):
        assert (found.tokens, found.alignment) == (expected.tokens, expected.alignment)
        assert (found.log_prob, found.score) == (expected.log_prob, expected.score)


def test_beam_decodes_only_rows_of_active_hypotheses() -> None:
    decoder = TableDecoder(SENTENCES)
    beam_search(decoder, rules(*[9] * 12), beam_size=6, n_best=6)
    assert decoder.n_rows[0] == [1] * 12
    assert max(decoder.n_rows[1]) <= 3  # of five tokens, <sos> never comes, and <eos> ends
    assert max(map(max, decoder.n_rows)) <= 6
    assert any(min(each) < max(each) for each in decoder.n_rows)  # sentences have different numbers of them
    assert sum(decoder.n_rows[-1]) < sum(decoder.n_rows[3])


class Undecided(TableDecoder):
    """All logits are equal."""

    def decode_step(self, tokens: Tensor) -> Step:
        found = super().decode_step(tokens)
        return Step(torch.zeros_like(found.logits), found.alignment)


def test_beam_equal_scores_keep_the_first() -> None:
    (found,) = beam_search(Undecided([0]), rules(2, length_penalty=0.0), beam_size=3, n_best=3)
    assert [each.tokens for each in found] == [[], [A], [A, A]]  # <eos>, A, B; then <eos> after A, A and B after A


def hypotheses_by_hand(sentence: int, beam_size: int, limit: int) -> list[Hypothesis]:
    """Beam search with α = 1 as it is told, for one sentence, with lists."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []  # scores, tokens
    for length in range(1, limit + 1):
        continued = []
        for (log_prob, tokens), token in product(live, (EOS, A, B, C)):
            more = torch.tensor(table(sentence, tuple(tokens))).log_softmax(dim=0)[token].item()
            continued.append(((log_prob + more) / length, log_prob + more, [*tokens, token]))
        ranked = sorted([*((best, best, tokens) for best, tokens in done), *continued], reverse=True)[:beam_size]
        live = []
        for best, log_prob, tokens in ranked:
            if (best, tokens) in done:
                continue
            if tokens[-1] == EOS or length == limit:
                done.append((best, tokens))
            else:
                live.append((log_prob, tokens))
        done = sorted(done, reverse=True)[:beam_size]
    words = [[token for token in tokens if token != EOS] for _, tokens in done]
    return [Hypothesis(tokens, [], 0.0, best) for (best, _), tokens in zip(done, words, strict=True)]


@pytest.mark.parametrize("beam_size", [2, 7])
def test_beam_ranks_active_and_finished_together(beam_size: int) -> None:
    found = beam_search(TableDecoder(SENTENCES), rules(*[6] * 12), beam_size=beam_size, n_best=beam_size)
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        expected = hypotheses_by_hand(sentence, beam_size, 6)
        assert [each.tokens for each in hypotheses] == [each.tokens for each in expected]
        assert [each.score for each in hypotheses] == pytest.approx([each.score for each in expected], abs=1e-5)
