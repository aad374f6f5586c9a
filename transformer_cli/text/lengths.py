"""Bounds of the length of a translation, by the lengths in the training text. Knows no tokens and no models.

Square roots of lengths spread equally in short and long sentences; docs/decisions/text.md has the measurements.
"""

import re
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

SPREAD = 2.5  # bounds are so many times as far from the median as the deciles, which some wrong pairs hardly move
MIN_DEVIATION = 1.0  # of square roots: 20 of 100 letters, even if all pairs are equally long
MIN_LONG_WIDTH = 30  # nothing narrower is too long: a word may well become a phrase
_CHINESE_OR_JAPANESE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]")
_KOREAN = re.compile("[\uac00-\ud7a3]")


def width(text: str) -> int:
    """Returns the length in letters of an alphabet: a Chinese or Japanese character is three wide, a Korean one two."""
    return len(text) + 2 * len(_CHINESE_OR_JAPANESE.findall(text)) + len(_KOREAN.findall(text))


class LengthBounds(NamedTuple):
    """Source width s, translation width t: √(lowest · s) − below ≤ √t ≤ √(highest · s) + above."""

    lowest: float
    highest: float
    below: float
    above: float

    @staticmethod
    def fit(widths: Sequence[tuple[int, int]]) -> "LengthBounds":
        """Returns the bounds for text like these pairs. widths: of source and target."""
        source, target = np.maximum(1.0, np.array(widths, float).T)
        ratio = float(np.median(target / source))
        deciles = np.quantile(np.sqrt(target) - np.sqrt(ratio * source), (0.1, 0.9))
        return LengthBounds(ratio, ratio, *(max(MIN_DEVIATION, SPREAD * abs(float(each))) for each in deciles))

    def check(self, source: str, translation: str) -> str:
        """Returns "too short", "too long" or "". The texts are without placeholders."""
        s, t = width(source), width(translation)
        if sqrt(t) < sqrt(self.lowest * s) - self.below:
            return "too short"
        return "too long" if sqrt(t) > sqrt(self.highest * s) + self.above and t > MIN_LONG_WIDTH else ""


PLAIN_BOUNDS = LengthBounds(0.75, 1.35, 2.5, 2.5)  # for any two languages, if there is no training text
