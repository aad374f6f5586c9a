"""What may not be written: n-grams that occurred, anything but the prefix; in each kind of search."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from oracles.tables import A, B, C, TableDecoder, rules, table
from transformer_cli.search.beam import beam_search
from transformer_cli.search.greedy import greedy_search, sample, uniform_numbers
from transformer_cli.search.protocols import Hypothesis
from transformer_cli.search.rules import SearchRules

SENTENCES = list(range(6))
Search = Callable[[SearchRules], list[list[Hypothesis]]]  # those of each sentence


def drawn(rules: SearchRules) -> list[list[Hypothesis]]:
    uniform = uniform_numbers([(1, each) for each in SENTENCES], int(rules.max_tokens.max()))
    return [[each] for each in sample(TableDecoder(SENTENCES), rules, uniform, temperature=2.0)]


SEARCHES: list[Search] = [
    lambda rules: [[each] for each in greedy_search(TableDecoder(SENTENCES), rules)],
    lambda rules: beam_search(TableDecoder(SENTENCES), rules, beam_size=3, n_best=3),
    drawn,
]
searches = pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sampling"])
a_prefix = some.lists(some.sampled_from([A, B, C]), max_size=5)


def limited(limit: int, no_repeat_ngram_size: int = 0, prefix: Sequence[int] = ()) -> SearchRules:
    search = {"no_repeat_ngram_size": no_repeat_ngram_size, "prefix": prefix, "length_penalty": 0.8}
    return rules(*[limit] * len(SENTENCES), **search)


def found_by(search: Search, rules: SearchRules) -> list[Hypothesis]:
    return [each for hypotheses in search(rules) for each in hypotheses]


def ngrams(tokens: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


@searches
@given(size=some.integers(1, 4))
def test_no_repeat_ngram_size_prevents_repeated_ngrams(search: Search, size: int) -> None:
    for found in found_by(search, limited(9, size)):
        assert len(set(ngrams(found.tokens, size))) == len(ngrams(found.tokens, size))
        assert found.log_prob > float("-inf")


def test_no_repeat_ngram_size_0_allows_repeated_ngrams() -> None:
    for search in SEARCHES:
        all_pairs = [ngrams(found.tokens, 2) for found in found_by(search, limited(9))]
        assert any(len(set(pairs)) < len(pairs) for pairs in all_pairs)


@searches
@settings(max_examples=30)
@given(prefix=a_prefix, ngram=some.integers(1, 3))
def test_prefix_overrides_no_repeat_ngram_size(search: Search, prefix: list[int], ngram: int) -> None:
    for found in search(limited(5, ngram, prefix)):
        assert found
        assert all(each.tokens[: len(prefix)] == prefix for each in found)


@searches
def test_prefix_is_part_of_log_prob(search: Search) -> None:
    prefix = [C, C, A]
    for sentence, (found,) in enumerate(search(limited(3, prefix=prefix))):
        steps = [torch.tensor(table(sentence, tuple(prefix[:at]))).log_softmax(dim=0)[prefix[at]] for at in range(3)]
        assert found.tokens == prefix
        assert found.log_prob == pytest.approx(sum(step.item() for step in steps), abs=1e-5)
