"""Comparisons of systems and of recipes → JSON, and tables with a verdict. Computes nothing; imports no torch."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from transformer_cli.output.tables import score_with_interval, table
from transformer_cli.system.terminal import bold, counted, fitted

if TYPE_CHECKING:
    from transformer_cli.evaluation.compare import Comparison, Example, RecipeComparison
    from transformer_cli.evaluation.statistics import PairedScore

CAUTION = """\
This judges these translations: two sets of weights, not two recipes. The same
recipe with another seed gives other weights. To judge recipes, name several
runs of each: tfm compare a-seed0,a-seed1 b-seed0,b-seed1"""
RECIPE_CAUTION = """\
This judges recipes by the spread of their runs (Welch's t-test), on this text
alone. Two runs of each find only differences that are large beside that spread."""


def comparisons_as_dict(comparisons: Sequence["Comparison"] | Sequence["RecipeComparison"]) -> dict[str, Any]:
    """Returns the fields of each text's Comparison or RecipeComparison."""
    return {"comparisons": [asdict(comparison) for comparison in comparisons]}


def comparisons_as_json(comparisons: Sequence["Comparison"] | Sequence["RecipeComparison"]) -> str:
    """`comparisons_as_dict` as JSON, escaped to ASCII as `results_as_json` is."""
    return json.dumps(comparisons_as_dict(comparisons))


def comparisons_as_table(comparisons: Sequence["Comparison"]) -> str:
    """Returns a table for each text, and what all of them judge."""
    return fitted("\n\n".join([*map(_comparison_as_table, comparisons), CAUTION]))


def recipes_as_table(comparisons: Sequence["RecipeComparison"]) -> str:
    """Returns a table for each text, and what all of them judge."""
    return fitted("\n\n".join([*map(_recipes_as_table, comparisons), RECIPE_CAUTION]))


def _comparison_as_table(comparison: "Comparison") -> str:
    """Returns each system's scores beside the first one's, a verdict on each pair, and what changed most."""
    parts = [bold(f"{comparison.split}: {counted(comparison.sentences, 'sentence')}")]
    for metric in ("BLEU", "chrF"):
        rows = [[metric, "score ± 95 %", "difference", "p (bootstrap)", "p (randomisation)"]]
        for system in comparison.systems:
            rows.append([system.name, *_tested(system.bleu if metric == "BLEU" else system.chrf)])
        parts.append(table(rows))
    signatures = zip(("BLEU", "chrF"), (comparison.bleu_signatures, comparison.chrf_signatures), strict=True)
    parts.append("\n".join(f"{metric} {signature}" for metric, both in signatures for signature in both))
    first = comparison.systems[0].name
    parts += [_example(each, first, system.name) for system in comparison.systems for each in system.examples or ()]
    parts.append(_verdicts([system.verdict for system in comparison.systems]))
    return "\n\n".join(parts)


def _recipes_as_table(comparison: "RecipeComparison") -> str:
    """Returns the mean scores of recipes, with the spread of their runs, and a verdict on each pair."""
    parts = [bold(f"{comparison.split}: {counted(comparison.sentences, 'sentence')}")]
    for metric in ("BLEU", "chrF"):
        rows = [[metric, "runs", "mean ± SD", "difference (95 %)", "p (Welch)"]]
        for recipe in comparison.recipes:
            found = recipe.bleu if metric == "BLEU" else recipe.chrf
            row = [",".join(recipe.runs), " ".join(f"{score:.2f}" for score in found.scores)]
            row.append(f"{found.mean:.2f} ± {found.standard_deviation:.2f}")
            if difference := found.difference:
                half = "" if difference.half_width is None else f" ± {difference.half_width:.2f}"
                row += [f"{difference.points:+.2f}{half}", _p(difference.p)]
            rows.append(row + [""] * (len(rows[0]) - len(row)))
        parts.append(table(rows))
    parts.append(f"BLEU {comparison.bleu_signature}\nchrF {comparison.chrf_signature}")
    parts.append(_verdicts([recipe.verdict for recipe in comparison.recipes]))
    return "\n\n".join(parts)


def _verdicts(verdicts: Sequence[str | None]) -> str:
    """Returns one line per verdict (the first system has none), and how they share the level of significance."""
    said = [bold(verdict) for verdict in verdicts if verdict]
    if len(said) > 1:
        said.append(f"({len(said)} comparisons: better means p < 0.05 / {len(said)})")
    return "\n".join(said)


def _tested(found: "PairedScore") -> list[str]:
    """Returns the cells of a score: with its interval, its difference and two p-values."""
    cells = [score_with_interval(found.score, found.interval)]
    if (difference := found.difference) is None:
        return [*cells, "", "", ""]
    return [*cells, f"{difference.points:+.2f}", _p(difference.p_bootstrap), _p(difference.p_randomization)]


def _example(example: "Example", first: str, second: str) -> str:
    """Returns a sentence with its two translations, one below the other."""
    rows = [("source", example.source), ("reference", example.reference)]
    rows += zip((first, second), example.translations, strict=True)
    width = max(len(name) for name, _ in rows)
    before, after = example.chrf
    lines = [f"  {name.ljust(width)}  {text}".rstrip() for name, text in rows if text is not None]
    return "\n".join([f"line {example.line}: chrF {before:.1f} → {after:.1f}", *lines])


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"
