"""Welch's t-test on the scores of runs, against SciPy's figures and a table of Student's t."""

import pytest

from transformer_cli.evaluation.spread import RecipeDifference, p_of_t, t_at, welch


@pytest.mark.parametrize(
    ("scores", "others", "p", "half_width"),  # of scipy.stats.ttest_ind(scores, others, equal_var=False), SciPy 1.17
    [
        ([37.2, 36.6], [35.1, 35.9], 0.11669, 2.3213),
        ([37.2, 36.6, 36.9], [35.1, 35.9, 35.0, 36.2], 0.01294, 0.9048),
        ([30.0, 20.0], [25.1, 25.0, 24.9], 1.0, 63.4952),
        ([50.0, 50.1], [20.0, 20.0], 0.00106, 0.6353),
    ],
)
def test_welch_agrees_with_scipy(scores: list[float], others: list[float], p: float, half_width: float) -> None:
    found = welch(scores, others)
    assert found.p == pytest.approx(p, abs=1e-4)
    assert found.half_width == pytest.approx(half_width, rel=1e-3)
    assert found.points == pytest.approx(sum(scores) / len(scores) - sum(others) / len(others))


def test_runs_without_any_spread_have_no_p() -> None:
    assert welch([3.0, 3.0], [1.0, 1.0]) == RecipeDifference(2.0, None, None)


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042)])
def test_t_is_that_of_the_tables(freedom: float, t: float) -> None:
    assert t_at(0.05, freedom) == pytest.approx(t, rel=1e-3)
    assert p_of_t(-t, freedom) == p_of_t(t, freedom) == pytest.approx(0.05, abs=1e-4)


def test_with_one_degree_of_freedom_t_is_evenly_spread_over_the_angles() -> None:
    assert p_of_t(1.0, 1) == pytest.approx(0.5, abs=1e-4)
    assert p_of_t(0.0, 3) == pytest.approx(1.0)
