"""Random cuts of words: how often each one is drawn, and that the same generator draws the same ones."""

from collections import Counter

import numpy as np
import pytest

from transformer_cli.text.random_cuts import BpeDropout, Inventory

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


def test_a_step_skips_each_merge_with_the_probability_of_dropout() -> None:
    n, p = 20_000, 0.3
    found = Counter(map(spelled, BpeDropout(INVENTORY).cut(["low"] * n, dropout=p, chance=chance())))
    # l o w: "ow" is not skipped (then l ow: "low" or not), or it is and "lo" is not (then lo w likewise)
    shares = {"low": (1 - p**2) * (1 - p), "l ow": (1 - p) * p, "lo w": p * (1 - p) * p, "l o w": p * p}
    assert found.keys() == shares.keys()
    assert {cut: count / n for cut, count in found.items()} == pytest.approx(shares, abs=0.015)


def test_a_character_without_a_piece_is_its_bytes() -> None:
    expected = [*(100 + byte for byte in "é".encode()), 3]
    assert BpeDropout(INVENTORY).cut(["éow"], dropout=0.0, chance=chance()) == [expected]


def test_the_same_generator_draws_the_same_cuts_in_every_process() -> None:
    words = ["lowlow", "low"]
    found = BpeDropout(INVENTORY).cut(words, dropout=0.5, chance=chance(7))
    assert [spelled(ids) for ids in found] == ["low low", "l ow"]
