"""The cache by itself: which rows go where, and what is not copied. tests/parity/test_decoding.py has it in a model."""

import pytest
import torch
from torch import Tensor

from transformer_cli.model.attention import KeysValues
from transformer_cli.model.cache import Cache


def numbered(rows: int, length: int = 1) -> KeysValues:
    """Keys (rows, 1 head, length, 2) that hold the number of their row; values hold its negative."""
    keys = torch.arange(float(rows))[:, None, None, None].expand(rows, 1, length, 2)
    return KeysValues(keys, -keys)


def make_cache(sentences: int) -> Cache:
    """Two layers; sentence i has i + 1 real source positions of three."""
    real = torch.ones(sentences, 3, dtype=torch.bool).tril()
    return Cache([numbered(sentences, 3), numbered(sentences, 3)], real[:, None, None, :])


def step(cache: Cache, rows: int) -> list[KeysValues]:
    return [cache.append(layer, numbered(rows)) for layer in range(2)]


def numbers(keys: Tensor) -> list[list[int]]:
    """Of each row, the number at each position."""
    return keys[:, 0, :, 0].int().tolist()


def test_each_step_adds_a_position_to_each_layer() -> None:
    cache = make_cache(2)
    for length in range(3):
        assert cache.length == length
        for keys, values in step(cache, 2):
            assert numbers(keys) == [[0] * (length + 1), [1] * (length + 1)]
            assert values.equal(-keys)


def test_sentences_are_kept_on_both_sides() -> None:
    cache = make_cache(3)
    step(cache, 3)
    cache.select(torch.tensor([0, 2]))
    assert [numbers(memory.keys) for memory in cache.memory] == [[[0] * 3, [2] * 3]] * 2
    assert cache.may_attend.sum(dim=-1).flatten().tolist() == [1, 3]
    assert [numbers(each.keys) for each in step(cache, 2)] == [[[0, 0], [2, 1]]] * 2


def test_sentences_may_be_kept_before_the_first_step() -> None:
    cache = make_cache(3)
    cache.select(torch.tensor([1]))
    assert cache.length == 0
    assert numbers(cache.memory[0].keys) == [[1] * 3]
    assert numbers(step(cache, 1)[1].keys) == [[0]]


def test_hypotheses_are_reordered_on_the_decoder_side_alone() -> None:
    """The example of 2 sentences with beam 3."""
    cache = make_cache(2)
    memory, may_attend = cache.memory, cache.may_attend
    step(cache, 2)
    cache.select(torch.tensor([0, 0, 0, 1, 1]))
    assert numbers(step(cache, 5)[0].keys) == [[0, 0], [0, 1], [0, 2], [1, 3], [1, 4]]
    cache.select(torch.tensor([2, 0, 0, 4]))
    (first, second) = step(cache, 4)
    assert numbers(first.keys) == [[0, 2, 0], [0, 0, 1], [0, 0, 2], [1, 4, 3]]
    assert numbers(second.keys) == numbers(first.keys)
    assert second.values.equal(-second.keys)
    assert cache.memory is memory
    assert cache.may_attend is may_attend


def test_a_sentence_without_hypotheses_is_dropped() -> None:
    cache = make_cache(2)
    step(cache, 2)
    cache.select(torch.tensor([0, 0, 0, 1, 1]))
    step(cache, 5)
    cache.select(torch.tensor([3, 4]))
    assert numbers(cache.memory[0].keys) == [[1] * 3]
    assert numbers(step(cache, 2)[0].keys) == [[1, 3, 0], [1, 4, 1]]


@pytest.mark.parametrize("selected", [[0, 1], [0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 1, 1], [1, 1, 1]])
def test_hypotheses_of_a_sentence_are_put_together_and_apart_again(selected: list[int]) -> None:
    cache = make_cache(2)
    cache.select(torch.tensor(selected))
    queries = torch.randn(len(selected), 4, 1, 5)
    together = cache.together(queries)
    assert together.shape == (len(set(selected)), 4, max(map(selected.count, selected)), 5)
    assert together[-1, :, 0].equal(queries[selected.index(selected[-1]), :, 0])
    assert cache.apart(together).equal(queries)
