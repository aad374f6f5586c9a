"""What the tables of several commands say alike: scores with their intervals."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_cli.evaluation.metrics import Interval


def score_with_interval(score: float, interval: "Interval | None") -> str:
    """Returns a score with half of its interval's width, if it has one."""
    return f"{score:.2f} ± {interval.half_width:.2f}" if interval else f"{score:.2f}"
