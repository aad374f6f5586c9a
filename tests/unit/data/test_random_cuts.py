"""Random cuts of words: against SentencePiece where nothing is random, and against all cuts of a word otherwise."""

import math
import tracemalloc
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from transformer_cli.data.random_cuts import BpeDropout, Inventory, UnigramSampling

BYTES = range(100, 356)
PIECES = ["l", "o", "w", "ow", "lo", "low", "wl"]  # bpe merges "ow" first
INVENTORY = Inventory(
    ids={piece: index for index, piece in enumerate(PIECES)},
    scores=dict(enumerate([-9.0, -9.5, -10.0, -1.0, -2.0, -3.0, -4.0])),
    bytes=BYTES,
)


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def spelled(ids: list[int]) -> str:
    return " ".join(PIECES[id_] for id_ in ids)


def all_cuts(word: str) -> Iterator[tuple[int, ...]]:
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        if word[:end] in INVENTORY.ids:
            yield from ((INVENTORY.ids[word[:end]], *rest) for rest in all_cuts(word[end:]))


def test_a_step_skips_each_merge_with_the_probability_of_dropout() -> None:
    n, p = 20_000, 0.3
    found = Counter(map(spelled, BpeDropout(INVENTORY).cut(["low"] * n, dropout=p, chance=chance())))
    # l o w: "ow" is not skipped (then l ow: "low" or not), or it is and "lo" is not (then lo w likewise)
    shares = {"low": (1 - p**2) * (1 - p), "l ow": (1 - p) * p, "lo w": p * (1 - p) * p, "l o w": p * p}
    assert found.keys() == shares.keys()
    assert {cut: count / n for cut, count in found.items()} == pytest.approx(shares, abs=0.015)


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_unigram_draws_each_cut_by_its_probability(alpha: float) -> None:
    n, word = 20_000, "lowlow"
    weights = {cut: math.exp(alpha * sum(INVENTORY.scores[id_] for id_ in cut)) for cut in all_cuts(word)}
    found = Counter(map(tuple, UnigramSampling(INVENTORY).cut([word] * n, dropout=1 - alpha, chance=chance())))
    assert found.keys() <= weights.keys()
    for cut, weight in weights.items():
        assert found[cut] / n == pytest.approx(weight / sum(weights.values()), abs=0.015)


def test_a_character_without_a_piece_is_its_bytes() -> None:
    expected = [*(100 + byte for byte in "é".encode()), 3]
    assert BpeDropout(INVENTORY).cut(["éow"], dropout=0.0, chance=chance()) == [expected]
    assert UnigramSampling(INVENTORY).cut(["éow"], dropout=0.0, chance=chance()) == [expected]


def test_long_words_are_not_remembered() -> None:
    """Without spaces, as in Chinese, each line is one word: memory would hold what is known of thousands of lines."""
    words = ["low" * (100 + number) for number in range(20)]
    unigram, bpe = UnigramSampling(INVENTORY), BpeDropout(INVENTORY)
    tracemalloc.start()
    try:
        unigram.cut(words, dropout=0.5, chance=chance())
        bpe.cut(words, dropout=0.5, chance=chance())
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_the_same_generator_draws_the_same_cuts_in_every_process() -> None:
    words = ["lowlow", "low"]
    found = BpeDropout(INVENTORY).cut(words, dropout=0.5, chance=chance(7))
    drawn = UnigramSampling(INVENTORY).cut(words, dropout=0.9, chance=chance(7))
    assert [spelled(ids) for ids in found] == ["low low", "l ow"]
    assert [spelled(ids) for ids in drawn] == ["lo w l ow", "low"]
