"""A comparison's figures in words."""

import pytest

from transformer_cli.evaluation.significance import Difference
from transformer_cli.evaluation.verdict import verdict


def said(bleu: tuple[float, float | None], chrf: tuple[float, float | None], comparisons: int = 1) -> str:
    """The verdict on B beside A, for points and p of each metric."""
    found = [Difference(points, p, p) for points, p in (bleu, chrf)]
    return verdict("B", "A", bleu=found[0], chrf=found[1], comparisons=comparisons, judges="1,000 sentences")


@pytest.mark.parametrize(
    ("bleu", "chrf", "expected"),
    [
        ((1.2, 0.003), (0.8, 0.0004), "B is better than A by 1.20 BLEU (p = 0.003) and 0.80 chrF (p < 0.001)"),
        ((-1.2, 0.003), (-0.8, 0.01), "A is better than B by 1.20 BLEU (p = 0.003) and 0.80 chrF (p = 0.010)"),
        (
            (0.2, 0.34),
            (-0.1, 0.5),
            "1,000 sentences cannot tell B and A apart: +0.20 BLEU (p = 0.340), -0.10 chrF (p = 0.500)",
        ),
        (
            (1.2, 0.003),
            (0.1, 0.5),
            "B is better than A by 1.20 BLEU (p = 0.003); 1,000 sentences cannot tell them apart by chrF (p = 0.500)",
        ),
        (
            (0.1, None),
            (-0.7, 0.001),
            "A is better than B by 0.70 chrF (p = 0.001); 1,000 sentences cannot tell them apart by BLEU (no p-value)",
        ),
        (
            (1.2, 0.003),
            (-0.7, 0.001),
            "the scores disagree: B is better by 1.20 BLEU (p = 0.003), A by 0.70 chrF (p = 0.001)",
        ),
        ((0.0, None), (0.0, None), "B and A have equal scores: 1,000 sentences show no difference at all"),
    ],
)
def test_the_verdict_says_who_is_better_or_that_nobody_can_tell(
    bleu: tuple[float, float | None], chrf: tuple[float, float | None], expected: str
) -> None:
    assert said(bleu, chrf) == expected


def test_several_comparisons_share_the_level() -> None:
    assert said((1.2, 0.03), (0.8, 0.03)).startswith("B is better")
    assert said((1.2, 0.03), (0.8, 0.03), comparisons=2).startswith("1,000 sentences cannot tell")


def test_three_sentences_cannot_tell_whatever_a_test_says() -> None:
    found = Difference(5.0, 0.0001, 0.0001)
    text = verdict("B", "A", bleu=found, chrf=found, comparisons=1, judges="3 sentences", least_p=0.25)
    assert text == "3 sentences cannot tell B and A apart: +5.00 BLEU (p = 0.250), +5.00 chrF (p = 0.250)"
