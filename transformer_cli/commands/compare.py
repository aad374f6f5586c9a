"""`tfm compare`: several runs, or files of translations → which is better, and whether that is more than chance."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from transformer_cli.commands import options
from transformer_cli.commands.tables import Column, Form, spread, write_table
from transformer_cli.system.terminal import counted

if TYPE_CHECKING:
    from transformer_cli.evaluation.compare import Comparison, Example

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
    form: Form = "text",
    as_json: bool = False,
) -> None:
    """Tell which system is better, and whether that may be chance."""
    recipes: dict[str, list[str]] = {}
    for argument in systems:
        label, runs = _runs_of(argument)
        if label in recipes:
            raise typer.BadParameter(f"{label} is named twice; give each its own name, as in NAME={label}")
        recipes[label] = runs
    are_single = all(len(runs) == 1 for runs in recipes.values())
    if len(recipes) < 2 and are_single:
        raise typer.BadParameter("name at least two runs or files, such as: tfm compare A B")
    if input_file and not reference:
        raise typer.BadParameter("--input needs --reference")
    if reference and split:
        raise typer.BadParameter("--split and --reference cannot be used together")
    options.refuse_repeated(input_file, reference or ())
    if examples and not are_single:
        raise typer.BadParameter("--examples shows sentences of two runs; it cannot be used with several runs of each")
    if examples and not as_json and form not in ("text", "json"):
        raise typer.BadParameter(f"--examples are shown in text and in JSON; they have no place in --format {form}")
    further = options.further_metrics(metrics)
    options.check_text(
        input_file,
        *(reference or ()),
        *(Path(name) for runs in recipes.values() for name in runs if Path(name).is_file()),
    )
    from transformer_cli.evaluation.compare import Conditions, compare, compare_recipes

    conditions = Conditions(split or (), input_file, reference or (), lowercase, language, further, beam_size, device)
    found: Sequence[Comparison[Any]]
    if are_single:
        single = {label: runs[0] for label, runs in recipes.items()}
        found = compare(single, conditions, examples=options.EXAMPLES if examples is None else examples)
    else:
        found = compare_recipes(recipes, conditions)
    if not as_json and form != "json":
        print(comparisons_as_table(found, form))
        return
    records = [asdict(each) for each in found]
    for record in records if not are_single else ():
        record["recipes"] = record.pop("systems")
    print(json.dumps({"comparisons": records}))  # ASCII: a folder's name may hold bytes that no encoding can print


def _runs_of(argument: str) -> tuple[str, list[str]]:
    """Returns what a system or a recipe is called, and its runs: "NAME=a-s*,b" has a name, patterns and commas.

    What is itself the name of a run, a folder or a file is one name.
    """
    if Path(argument).exists() or Path("runs", argument).exists():
        return argument, [argument]
    label, _, names = argument.rpartition("=")
    parts = [name for name in names.split(",") if name] or [argument]
    return label or ",".join(parts), [name for part in parts for name in options.matching(part)]


def comparisons_as_table(comparisons: "Sequence[Comparison[Any]]", form: Form = "text") -> str:
    """Returns each system's scores beside the first one's, a verdict on each pair, and what changed most.

    Of recipes, it has the mean scores with the spread of their runs. As text, each metric has a table of its own; in
    other forms they stand side by side.
    """
    from transformer_cli.evaluation.metrics import FURTHER_METRICS

    parts = []
    for comparison in comparisons:
        systems, called = comparison.systems, {by: FURTHER_METRICS.get(by, by) for by in comparison.signatures}
        names, searches = [each.name for each in systems], [each.search for each in systems]
        tables = {called[by]: _columns(comparison, by) for by in called}
        differs = len({*searches} - {None}) > 1
        search = [Column("search", searches)] if differs else []
        title = f"{comparison.split}: {counted(comparison.sentences, 'sentence')}"
        title += "" if differs else "".join(f", {each}" for each in dict.fromkeys(filter(None, searches)))
        signed = "\n".join(f"{called[by]} {each}" for by, found in comparison.signatures.items() for each in found)
        verdicts = [each.verdict for each in systems if each.verdict]
        if len(verdicts) > 1:
            tests = 2 * len(verdicts)  # by BLEU and by chrF
            verdicts.append(
                f"({tests} differences share the level of 0.05, by Holm: the smallest p must be below 0.05 / {tests}, "
                f"the next one below 0.05 / {tests - 1}, …)"
            )
        said = "\n".join(verdicts)
        if form == "text":
            parts += [title, *(write_table([Column(metric, names), *each, *search]) for metric, each in tables.items())]
            parts += [signed, *(_example(one, names[0], each.name) for each in systems for one in each.examples), said]
        else:
            of_text = [Column("text", [comparison.split] * len(names))] if len(comparisons) > 1 else []
            wide = [replace(one, head=f"{metric} {one.head}") for metric, each in tables.items() for one in each]
            columns = [Column("system", names), *of_text, *wide, *search]
            parts.append(write_table(columns, form, f"{title}\n{signed}\n{said}"))
    is_alone = len(comparisons[0].systems) == 1  # such a recipe is not judged
    return "\n\n".join(filter(None, [*parts, "" if is_alone or form != "text" else CAUTIONS[comparisons[0].judges]]))


def _columns(comparison: "Comparison[Any]", metric: str) -> list[Column]:
    """Returns what was found by a metric: scores, differences from the first system, and whether they may be chance."""
    found = [each.scores[metric] for each in comparison.systems]
    differences = [each.difference for each in found]

    def of_difference(head: str, name: str, written: Callable[[Any], str]) -> Column:
        values = [each and getattr(each, name) for each in differences]  # None: the first system has no difference
        told = [math.nan if each and value is None else value for each, value in zip(differences, values, strict=True)]
        return Column(head, told, written)

    if comparison.judges == "weights":
        return [
            Column("score ± 95 %", [(each.score, each.interval.half_width) for each in found], spread),
            of_difference("difference", "points", "{:+.2f}".format),
            of_difference("p (bootstrap)", "p_bootstrap", _p),
            of_difference("p (randomisation)", "p_randomization", _p),
        ]
    halves = [each and (each.points, each.half_width) for each in differences]
    return [
        Column("runs", [each.scores for each in found], lambda scores: " ".join(f"{each:.1f}" for each in scores)),
        Column("mean ± SD", [(each.mean, each.standard_deviation) for each in found], spread),
        Column("difference (95 %)", halves, lambda pair: f"{'+' * (pair[0] >= 0)}{spread(pair)}"),
        of_difference("p (Welch)", "p", _p),
    ]


def _p(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _example(example: "Example", first: str, second: str) -> str:
    """Returns a sentence with its two translations, one below the other."""
    rows = [("source", example.source), ("reference", example.reference)]
    rows += zip((first, second), example.translations, strict=True)
    width = max(len(name) for name, _ in rows)
    before, after = example.chrf
    lines = [f"  {name.ljust(width)}  {text}".rstrip() for name, text in rows if text is not None]
    return "\n".join([f"line {example.line}: chrF {before:.1f} → {after:.1f}", *lines])
