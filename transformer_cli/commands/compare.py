"""`tfm compare`: several runs, or files of translations → which is better, and whether that is more than chance."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transformer_cli.commands import options
from transformer_cli.system.terminal import counted, table

if TYPE_CHECKING:
    from transformer_cli.evaluation.compare import Comparison, Example
    from transformer_cli.evaluation.statistics import PairedScore, RecipeScore

HEADS = {  # of the columns beside the names, by what is judged
    "weights": ("score ± 95 %", "difference", "p (bootstrap)", "p (randomisation)"),
    "recipes": ("runs", "mean ± SD", "difference (95 %)", "p (Welch)"),
}
CAUTION = """\
This judges these translations: two sets of weights, not two recipes. The same
recipe with another seed gives other weights. To judge recipes, name several
runs of each: tfm compare a-seed0,a-seed1 b-seed0,b-seed1"""
RECIPE_CAUTION = """\
This judges recipes by the spread of their runs (Welch's t-test), on this text
alone. Two runs of each find only differences that are large beside that spread."""
CAUTIONS = {"weights": CAUTION, "recipes": RECIPE_CAUTION}


def compare(
    systems: list[str],
    split: list[str] | None = None,
    input_file: Path | None = None,
    reference: list[Path] | None = None,
    lowercase: bool = False,
    metrics: str = "bleu,chrf",
    language: str | None = None,
    examples: int | None = None,
    beam_size: int | None = None,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Tell which system is better, and whether that may be chance."""
    recipes = [_runs_of(argument) for argument in systems]
    are_single = all(len(runs) == 1 for runs in recipes)
    if len(recipes) < 2 and are_single:
        raise typer.BadParameter("name at least two runs or files, such as: tfm compare A B")
    if input_file and not reference:
        raise typer.BadParameter("--input needs --reference")
    if reference and split:
        raise typer.BadParameter("--split and --reference cannot be used together")
    options.refuse_repeated(input_file, reference or ())
    if examples and not are_single:
        raise typer.BadParameter("--examples shows sentences of two runs; it cannot be used with several runs of each")
    further = options.further_metrics(metrics)
    options.check_text(input_file, *(reference or ()), *(Path(each) for each in systems if Path(each).is_file()))
    from transformer_cli.evaluation.compare import Conditions, compare, compare_recipes

    conditions = Conditions(split or (), input_file, reference or (), lowercase, language, further, beam_size, device)
    found: Sequence[Comparison[PairedScore]] | Sequence[Comparison[RecipeScore]]
    if are_single:
        found = compare(systems, conditions, examples=options.EXAMPLES if examples is None else examples)
    else:
        found = compare_recipes(recipes, conditions)
    if not as_json:
        print(comparisons_as_table(found))
        return
    records = [asdict(each) for each in found]
    for record in records if not are_single else ():
        record["recipes"] = record.pop("systems")
    print(json.dumps({"comparisons": records}))  # ASCII: a folder's name may hold bytes that no encoding can print


def _runs_of(argument: str) -> list[str]:
    """Split an argument at its commas, unless it is itself the name of a run, a folder or a file."""
    if Path(argument).exists() or Path("runs", argument).exists():
        return [argument]
    return [name for name in argument.split(",") if name] or [argument]


def comparisons_as_table(comparisons: "Sequence[Comparison[PairedScore]] | Sequence[Comparison[RecipeScore]]") -> str:
    """Returns each system's scores beside the first one's, a verdict on each pair, and what changed most.

    Of recipes, it has the mean scores with the spread of their runs.
    """
    from transformer_cli.evaluation.metrics import FURTHER_METRICS

    parts = []
    for comparison in comparisons:
        parts.append(f"{comparison.split}: {counted(comparison.sentences, 'sentence')}")
        for metric in comparison.signatures:
            heads = [FURTHER_METRICS.get(metric, metric), *HEADS[comparison.judges], "search"]
            rows = [[each.name, *_cells(each.scores[metric]), each.search or ""] for each in comparison.systems]
            if not any(each.search for each in comparison.systems):
                heads, rows = heads[:-1], [row[:-1] for row in rows]
            parts.append(table([heads, *rows]))
        signatures = [(FURTHER_METRICS.get(name, name), found) for name, found in comparison.signatures.items()]
        parts.append("\n".join(f"{name} {each}" for name, found in signatures for each in found))
        for system in comparison.systems:
            parts += [_example(each, comparison.systems[0].name, system.name) for each in system.examples]
        parts.append(_verdicts(system.verdict for system in comparison.systems))
    is_alone = len(comparisons[0].systems) == 1  # such a recipe is not judged
    return "\n\n".join(filter(None, [*parts, "" if is_alone else CAUTIONS[comparisons[0].judges]]))


def _cells(found: "PairedScore | RecipeScore") -> list[str]:
    """Returns a row of a table, below its HEADS."""
    from transformer_cli.evaluation.metrics import score_with_interval
    from transformer_cli.evaluation.statistics import PairedScore

    if isinstance(found, PairedScore):
        score, paired = score_with_interval(found.score, found.interval), found.difference
        if paired is None:
            return [score, "", "", ""]
        return [score, f"{paired.points:+.2f}", _p(paired.p_bootstrap), _p(paired.p_randomization)]
    scores = " ".join(f"{each:.2f}" for each in found.scores)
    spread = f"{found.mean:.2f} ± {found.standard_deviation:.2f}"
    difference = found.difference
    if difference is None:
        return [scores, spread, "", ""]
    half = "" if difference.half_width is None else f" ± {difference.half_width:.2f}"
    return [scores, spread, f"{difference.points:+.2f}{half}", _p(difference.p)]


def _verdicts(verdicts: Iterable[str | None]) -> str:
    """Returns one line per verdict (the first system has none), and how they share the level of significance."""
    said = [verdict for verdict in verdicts if verdict]
    if len(said) > 1:
        tests = 2 * len(said)  # by BLEU and by chrF
        said.append(
            f"({tests} differences share the level of 0.05, by Holm: the smallest p must be below 0.05 / {tests}, "
            f"the next one below 0.05 / {tests - 1}, …)"
        )
    return "\n".join(said)


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
