"""Beam search with constraints writes all terms in the likeliest way, and is plain beam search without them."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from oracles.tables import EOS, SOS, rules
from transformer_cli.adapters.terminology.constraints import ConstrainedRanking, TermConstraints
from transformer_cli.search.beam import beam_search
from transformer_cli.search.protocols import Step

N = 6  # ids; those from 2 on are written


class Scripted:
    """Logits that depend on the last token, and on the sentence."""

    def __init__(self, n_sentences: int, seed: int) -> None:
        self.table = 2 * torch.randn(n_sentences, N, N, generator=torch.Generator().manual_seed(seed))
        self.rows = torch.arange(n_sentences)

    def decode_step(self, tokens: Tensor) -> Step:
        return Step(self.table[self.rows, tokens].clone(), torch.zeros_like(tokens))

    def select(self, rows: Tensor) -> None:
        self.rows = self.rows[rows]


def has(tokens: Sequence[int], phrase: Sequence[int]) -> bool:
    return any([*tokens[at : at + len(phrase)]] == [*phrase] for at in range(len(tokens)))


@pytest.mark.parametrize("seed", range(5))
def test_constraints_wide_beam_finds_the_best_translation(seed: int) -> None:
    phrases = ((2, 3),), ((4,), (5, 5))
    ranking = ConstrainedRanking([TermConstraints(phrases)])
    (found,) = beam_search(Scripted(1, seed), rules(4), beam_size=2000, n_best=1, rank_fn=ranking)
    log_probs = Scripted(1, seed).table[0].log_softmax(1)

    def score(tokens: Sequence[int]) -> float:
        ended = [*tokens, EOS][:4]
        return sum(float(log_probs[one, other]) for one, other in zip([SOS, *ended], ended, strict=False)) / len(ended)

    every = (tokens for n in range(1, 5) for tokens in product(range(2, N), repeat=n))
    best = max((each for each in every if has(each, (2, 3)) and (has(each, (4,)) or has(each, (5, 5)))), key=score)
    assert found[0].tokens == [*best]
    assert found[0].score == pytest.approx(score(best), abs=1e-5)


@pytest.mark.parametrize("beam_size", [2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_constraints_writes_unlikely_terms_once_each(beam_size: int, seed: int) -> None:
    terms = [
        TermConstraints((((2, 3),), ((2, 3),), ((4,),))),
        TermConstraints((((5, 5, 5),), ((5, 4),))),
        TermConstraints((((2,),), ((2, 3),))),  # the second one begins as the first
    ]
    ranking = ConstrainedRanking(terms)
    found = beam_search(Scripted(3, seed), rules(12, 12, 12), beam_size=beam_size, n_best=1, rank_fn=ranking)
    for each, (best, *_) in zip(terms, found, strict=True):
        text = "".join(map(str, best.tokens))
        for (phrase,) in sorted(each.phrases, key=lambda one: -len(one[0])):
            written = "".join(map(str, phrase))
            assert written in text
            text = text.replace(written, "-", 1)


def test_constraints_without_terms_is_beam_search() -> None:
    plain, with_none = (
        beam_search(Scripted(3, 1), rules(9, 9, 4), beam_size=3, n_best=2, **ranking)
        for ranking in ({}, {"rank_fn": ConstrainedRanking([TermConstraints(())] * 3)})
    )
    assert [[one.tokens for one in each] for each in with_none] == [[one.tokens for one in each] for each in plain]


def test_constraints_term_continued_as_another_word_is_missing() -> None:
    terms = [TermConstraints((((2,),),), continuation_ids=frozenset({3, 4, 5}))]
    for seed in range(5):
        ((best,),) = beam_search(Scripted(1, seed), rules(5), beam_size=4, n_best=1, rank_fn=ConstrainedRanking(terms))
        followers = [other for one, other in zip(best.tokens, [*best.tokens[1:], EOS], strict=True) if one == 2]
        assert {2, EOS}.intersection(followers)


def test_constraints_at_max_length_keep_the_most_terms() -> None:
    terms = [TermConstraints((((2,),), ((3,),), ((4,),)))]
    ((best,),) = beam_search(Scripted(1, 0), rules(2), beam_size=5, n_best=1, rank_fn=ConstrainedRanking(terms))
    assert len({2, 3, 4}.intersection(best.tokens)) == 2
