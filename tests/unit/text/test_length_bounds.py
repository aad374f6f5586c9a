"""Translations that are too short or too long for their source."""

import random

import pytest

from transformer_cli.text.lengths import PLAIN_BOUNDS, LengthBounds, width

CHANCE = random.Random(0)
WIDTHS = [(n, max(1, round(CHANCE.gauss(0.8 * n, n**0.5)))) for n in (CHANCE.randint(10, 120) for _ in range(1000))]
LEARNED = LengthBounds.fit(WIDTHS)


def test_width_of_a_sentence_is_similar_in_all_scripts() -> None:
    assert [width(each) for each in ("", "Hündchen", "собака", "犬が走る", "강아지")] == [0, 8, 6, 12, 6]


@pytest.mark.parametrize(
    ("bounds", "source", "translation", "expected"),
    [
        (LEARNED, 100, 80, ""),
        (LEARNED, 100, 45, "too short"),
        (LEARNED, 100, 120, "too long"),
        (LEARNED, 10, 2, ""),  # the ratio alone would be far too small
        (LEARNED, 4, 30, ""),  # or too large
        *((LEARNED, 4, 31, "too long"), (LEARNED, 0, 0, ""), (PLAIN_BOUNDS, 100, 50, "")),
        *((PLAIN_BOUNDS, 100, 30, "too short"), (PLAIN_BOUNDS, 100, 0, "too short")),
        (PLAIN_BOUNDS, 100, 300, "too long"),
    ],
)
def test_bounds_flag_lengths_far_outside(bounds: LengthBounds, source: int, translation: int, expected: str) -> None:
    assert bounds.check("a" * source, "b" * translation) == expected


def test_bounds_survive_wrong_pairs_and_equal_lengths() -> None:
    wrong = [(source, CHANCE.choice(WIDTHS)[1]) for source, _ in WIDTHS[:50]]
    noisy = LengthBounds.fit([*wrong, *WIDTHS[50:]])
    assert noisy == pytest.approx(LEARNED, rel=0.1)
    assert LengthBounds.fit([(5, 5), (9, 9), (0, 0)]) == (1, 1, 1, 1)
