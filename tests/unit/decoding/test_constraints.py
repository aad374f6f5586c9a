"""What may not be written: n-grams that occurred, anything but the prefix; in each kind of search."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from oracles.tables import EOS, SOS, A, B, C, TableDecoder, table
from transformer_cli.decoding.beam import beam_search
from transformer_cli.decoding.constraints import FREE, Constraints, forced_prefix, no_repeated_ngram
from transformer_cli.decoding.greedy import greedy
from transformer_cli.decoding.interface import Hypothesis, Rules
from transformer_cli.decoding.sampling import sample, uniform_numbers

CPU = torch.device("cpu")
SENTENCES = list(range(6))
Search = Callable[[Rules], list[list[Hypothesis]]]  # those of each sentence


def drawn(rules: Rules) -> list[list[Hypothesis]]:
    uniform = uniform_numbers([(1, each) for each in SENTENCES], int(rules.max_tokens.max()))
    return [[each] for each in sample(TableDecoder(SENTENCES), rules, uniform, temperature=2.0)]


SEARCHES: list[Search] = [
    lambda rules: [[each] for each in greedy(TableDecoder(SENTENCES), rules)],
    lambda rules: beam_search(TableDecoder(SENTENCES), rules, beam_size=3, n_best=3),
    drawn,
]
searches = pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sampling"])
prefixes_of_all = some.lists(some.lists(some.sampled_from([A, B, C]), max_size=5), min_size=6, max_size=6)


def rules(limit: int, constraints: Constraints) -> Rules:
    return Rules(torch.full((len(SENTENCES),), limit), SOS, EOS, torch.tensor([SOS]), constraints, 0.8)


def found_by(search: Search, rules: Rules) -> list[Hypothesis]:
    return [each for hypotheses in search(rules) for each in hypotheses]


def ngrams(tokens: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


@searches
@given(size=some.integers(1, 4))
def test_no_ngram_twice(search: Search, size: int) -> None:
    for found in found_by(search, rules(9, Constraints(forbid=[no_repeated_ngram(size)]))):
        assert len(set(ngrams(found.tokens, size))) == len(ngrams(found.tokens, size))
        assert found.log_prob > float("-inf")


def test_without_the_rule_ngrams_do_occur_twice() -> None:
    for search in SEARCHES:
        all_pairs = [ngrams(found.tokens, 2) for found in found_by(search, rules(9, Constraints()))]
        assert any(len(set(pairs)) < len(pairs) for pairs in all_pairs)


@searches
@given(prefixes=prefixes_of_all, ngram=some.integers(1, 3))
def test_a_translation_begins_with_its_prefix_whatever_else_is_forbidden(
    search: Search, prefixes: list[list[int]], ngram: int
) -> None:
    constraints = Constraints([no_repeated_ngram(ngram)], [forced_prefix(prefixes, CPU)])
    for prefix, found in zip(prefixes, search(rules(5, constraints)), strict=True):
        assert found
        assert all(each.tokens[: len(prefix)] == prefix for each in found)


@searches
def test_the_prefix_counts_in_the_log_probability(search: Search) -> None:
    prefix = [C, C, A]
    force = forced_prefix([prefix] * len(SENTENCES), CPU)
    for sentence, (found,) in enumerate(search(rules(3, Constraints(force=[force])))):
        steps = [torch.tensor(table(sentence, tuple(prefix[:at]))).log_softmax(dim=0)[prefix[at]] for at in range(3)]
        assert found.tokens == prefix
        assert found.log_prob == pytest.approx(sum(step.item() for step in steps), abs=1e-5)


def everything_forbidden(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """From the third token on."""
    if tokens.shape[1] < 2:
        return tokens.new_empty(0), tokens.new_empty(0)
    return torch.arange(len(tokens)).repeat_interleave(5), torch.arange(5).repeat(len(tokens))


@searches
def test_where_nothing_may_follow_the_translation_ends_as_it_is(search: Search) -> None:
    constrained = rules(9, Constraints([everything_forbidden]))
    free = {tuple(found.tokens): found.log_prob for found in found_by(search, rules(2, Constraints()))}
    ended = {tuple(found.tokens): found.log_prob for found in found_by(search, constrained)}
    assert max(map(len, ended)) == 2
    for tokens in free.keys() & ended.keys():
        assert ended[tokens] == free[tokens]
    assert any(len(tokens) == 2 for tokens in free.keys() & ended.keys())


def test_the_examples_of_forbidden_ngrams() -> None:
    rows, ids = no_repeated_ngram(3)(torch.tensor([[7, 8, 9, 7, 8], [7, 8, 9, 7, 9]]))
    assert (rows.tolist(), ids.tolist()) == ([0], [9])
    rows, ids = no_repeated_ngram(1)(torch.tensor([[7, 8]]))
    assert (rows.tolist(), ids.tolist()) == ([0, 0], [7, 8])
    assert not len(no_repeated_ngram(3)(torch.tensor([[7, 8]]))[0])


def test_prefixes_of_different_lengths_end_each_at_its_own() -> None:
    force = forced_prefix([[7, 8], [], [9]], CPU)
    rows = torch.tensor([0, 0, 1, 2])
    expected = [[7, 7, FREE, 9], [8, 8, FREE, FREE], [FREE] * 4, [FREE] * 4]
    assert [force(rows, position).tolist() for position in range(4)] == expected


def test_no_rules_are_no_constraints() -> None:
    assert not Constraints()
    assert Constraints(forbid=[no_repeated_ngram(2)])
