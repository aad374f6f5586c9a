"""What is printed of comparisons: tables with a verdict, and JSON."""

from dataclasses import replace

import pytest

from transformer_cli.commands import compare as output
from transformer_cli.evaluation.compare import (
    Comparison,
    Example,
    RecipeComparison,
    RecipeResult,
    RecipeScore,
    SystemResult,
)
from transformer_cli.evaluation.metrics import Interval
from transformer_cli.evaluation.statistics import Difference, PairedScore, RecipeDifference


@pytest.fixture
def comparison() -> Comparison:
    """Two systems, one sentence that changed."""
    interval = Interval(35.0, 1.5)
    example = Example(7, "Ein Hund.", "A dog.", ("a cat.", "a dog."), (33.33, 100.0))
    score = PairedScore(36.2, interval, Difference(1.2, 0.003, 0.00004))
    same = PairedScore(50.0, interval, Difference(0.0, None, None))
    return Comparison(
        "test",
        1000,
        ["bleu-bs", "bleu-ar"],
        ["chrf-bs", "chrf-ar"],
        [
            SystemResult("old", PairedScore(35.0, interval, None), PairedScore(50.0, interval, None), None, None),
            SystemResult("newer", score, same, "newer is better", [example, replace(example, source=None)]),
        ],
    )


def test_a_comparison_is_tables_examples_and_a_verdict(comparison: Comparison) -> None:
    assert output.comparisons_as_table([comparison]).split("\n") == [
        "test: 1,000 sentences",
        "",
        "BLEU   score ± 95 %  difference  p (bootstrap)  p (randomisation)",
        "old    35.00 ± 1.50",
        "newer  36.20 ± 1.50       +1.20         0.0030           < 0.0001",
        "",
        "chrF   score ± 95 %  difference  p (bootstrap)  p (randomisation)",
        "old    50.00 ± 1.50",
        "newer  50.00 ± 1.50       +0.00              –                  –",
        "",
        "BLEU bleu-bs",
        "BLEU bleu-ar",
        "chrF chrf-bs",
        "chrF chrf-ar",
        "",
        "line 7: chrF 33.3 → 100.0",
        "  source     Ein Hund.",
        "  reference  A dog.",
        "  old        a cat.",
        "  newer      a dog.",
        "",
        "line 7: chrF 33.3 → 100.0",
        "  reference  A dog.",
        "  old        a cat.",
        "  newer      a dog.",
        "",
        "newer is better",
        "",
        *output.CAUTION.split("\n"),
    ]
    several = replace(comparison, systems=[*comparison.systems, comparison.systems[1]])
    assert (
        "newer is better\nnewer is better\n(4 differences share the level of 0.05, by Holm: the smallest p must "
        "be below 0.05 / 4, the next one below 0.05 / 3, …)\n\nThis judges" in (output.comparisons_as_table([several]))
    )


def test_recipes_are_means_with_the_spread_of_their_runs() -> None:
    score = RecipeScore([35.0, 36.0], 35.5, 0.7071, None)
    surer, unsure = RecipeDifference(1.0, 0.25, 0.0213), RecipeDifference(-1.0, None, None)
    recipes = [
        RecipeResult(["a1", "a2"], score, score, None),
        RecipeResult(["b1", "b2"], replace(score, difference=surer), replace(score, difference=unsure), "no verdict"),
    ]
    table = output.recipes_as_table([RecipeComparison("test", 30, "sig-b", "sig-c", recipes)])
    assert table.split("\n") == [
        "test: 30 sentences",
        "",
        "BLEU          runs     mean ± SD  difference (95 %)  p (Welch)",
        "a1,a2  35.00 36.00  35.50 ± 0.71",
        "b1,b2  35.00 36.00  35.50 ± 0.71       +1.00 ± 0.25     0.0213",
        "",
        "chrF          runs     mean ± SD  difference (95 %)  p (Welch)",
        "a1,a2  35.00 36.00  35.50 ± 0.71",
        "b1,b2  35.00 36.00  35.50 ± 0.71              -1.00          –",
        "",
        "BLEU sig-b",
        "chrF sig-c",
        "",
        "no verdict",
        "",
        *output.RECIPE_CAUTION.split("\n"),
    ]
