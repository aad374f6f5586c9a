"""Whether two recipes differ by more than their runs do: Welch's t-test on the scores of several runs of each.

Pure arithmetic on scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, variance

import numpy as np

STEPS = 100_000  # of the numerical integral


@dataclass(frozen=True)
class RecipeDifference:
    """How the mean score of a recipe's runs differs from that of another recipe's."""

    points: float
    """its mean minus the other's"""
    half_width: float | None
    """the 95 % interval of the difference is points ± half_width; None if the runs of neither recipe differ"""
    p: float | None
    """how often recipes that are equally good differ by so much (Welch 1947); None as for half_width"""


def welch(scores: Sequence[float], others: Sequence[float]) -> RecipeDifference:
    """Compare the mean of `scores` with that of `others`, without assuming equal variances. At least two of each."""
    points = mean(scores) - mean(others)
    parts = [variance(each) / len(each) for each in (scores, others)]
    total = sum(parts)
    if not total:
        return RecipeDifference(points, None, None)
    sizes = (len(scores), len(others))
    freedom = total**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    error = math.sqrt(total)
    return RecipeDifference(points, error * t_at(0.05, freedom), p_of_t(points / error, freedom))


def p_of_t(t: float, freedom: float) -> float:
    """Returns the probability that Student's t with `freedom` ≥ 1 degrees of freedom is at least |t| from 0.

    With x = √freedom · tan θ, the density of x becomes cos^(freedom-1) θ on (-π/2, π/2), up to a factor. For example,
    freedom = 1 has the same density at all angles: |t| = 1 is half of the way to π/2, so p = 0.5.
    """
    angles = (np.arange(STEPS) + 0.5) * (math.pi / 2 / STEPS)
    density = np.cos(angles) ** (freedom - 1)
    return float(density[angles > math.atan(abs(t) / math.sqrt(freedom))].sum() / density.sum())


def t_at(p: float, freedom: float) -> float:
    """The inverse of `p_of_t`: the t that is exceeded, on either side of 0, with probability p; at most 1,000."""
    low, high = 0.0, 1000.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if p_of_t(middle, freedom) > p else (low, middle)
    return high
