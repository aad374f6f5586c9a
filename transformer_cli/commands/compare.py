"""`tfm compare`: several runs, or files of translations → which is better, and whether that is more than chance."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.commands import completion, options
from transformer_cli.commands.options import a_file, option
from transformer_cli.system.tables import table
from transformer_cli.system.terminal import counted

if TYPE_CHECKING:
    from transformer_cli.evaluation.compare import Comparison, Example, RecipeComparison, RecipeResult, SystemResult

EXAMPLES = 3
CAUTION = """\
This judges these translations: two sets of weights, not two recipes. The same
recipe with another seed gives other weights. To judge recipes, name several
runs of each: tfm compare a-seed0,a-seed1 b-seed0,b-seed1"""
RECIPE_CAUTION = """\
This judges recipes by the spread of their runs (Welch's t-test), on this text
alone. Two runs of each find only differences that are large beside that spread."""


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C …]",
            help="Runs (names or folders), or files of translations. The others are compared with the first. "
            "A1,A2 B1,B2 compares recipes: several runs of each; A1,A2 alone gives the mean and spread of one.",
            show_default=False,
            autocompletion=completion.runs,
        ),
    ],
    split: options.SplitOption = None,
    source: Annotated[
        Path | None, a_file("Your own sentences, with --reference. Files do not need it.", "--input", "-i")
    ] = None,
    reference: options.ReferenceOption = None,
    lowercase: options.LowercaseOption = False,
    metrics: options.MetricsOption = "bleu,chrf",
    language: Annotated[
        str | None,
        option(
            "The language of files of translations, for BLEU's tokeniser.",
            metavar="CODE",
            show_default="the runs', or en",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        option(
            "How many of the sentences that changed most are shown.", min=0, metavar="N", show_default=str(EXAMPLES)
        ),
    ] = None,
    device: options.DeviceOption = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Tell which system is better, and whether that may be chance."""
    recipes = [_runs_of(argument) for argument in systems]
    are_single = all(len(runs) == 1 for runs in recipes)
    if len(recipes) < 2 and are_single:
        raise typer.BadParameter("name at least two runs or files, such as: tfm compare A B")
    if source and not reference:
        raise typer.BadParameter("--input needs --reference")
    if reference and split:
        raise typer.BadParameter("--split and --reference cannot be used together")
    if examples and not are_single:
        raise typer.BadParameter("--examples shows sentences of two runs; it cannot be used with several runs of each")
    further = options.further_metrics(metrics)
    options.check_text(source, *(reference or ()), *(Path(each) for each in systems if Path(each).is_file()))
    from transformer_cli.evaluation.compare import Terms, compare, compare_recipes

    terms = Terms(split or (), source, reference or (), lowercase, language, further, device)
    found: Sequence[Comparison] | Sequence[RecipeComparison]
    if are_single:
        found = compare(systems, terms, examples=EXAMPLES if examples is None else examples)
    else:
        found = compare_recipes(recipes, terms)
    # JSON is escaped to ASCII: a folder's name may hold bytes that no encoding can print
    print(json.dumps({"comparisons": [asdict(each) for each in found]}) if as_json else as_tables(found))


def _runs_of(argument: str) -> list[str]:
    """Split an argument at its commas, unless it is itself the name of a run, a folder or a file."""
    if Path(argument).exists() or Path("runs", argument).exists():
        return [argument]
    return [name for name in argument.split(",") if name] or [argument]


def as_tables(comparisons: Sequence["Comparison"] | Sequence["RecipeComparison"]) -> str:
    """Returns the scores of systems or recipes beside the first one's, verdicts on them, and what changed most."""
    from transformer_cli.evaluation.metrics import FURTHER_METRICS

    parts, caution = list[str](), CAUTION
    for each in comparisons:
        parts.append(f"{each.split}: {counted(each.sentences, 'sentence')}")
        if each.judges == "weights":
            systems, heads = each.systems, ["score ± 95 %", "difference", "p (bootstrap)", "p (randomisation)"]
            signatures = {"BLEU": each.bleu_signatures, "chrF": each.chrf_signatures, **each.further_signatures}
            rows_of = {metric: [_system_row(one, metric) for one in systems] for metric in signatures}
            last = [_example(shown, systems[0].name, one.name) for one in systems for shown in one.examples or ()]
            last.append(_verdicts([one.verdict for one in systems]))
        else:
            recipes, heads = each.recipes, ["runs", "mean ± SD", "difference (95 %)", "p (Welch)"]
            single = {"BLEU": each.bleu_signature, "chrF": each.chrf_signature, **each.further_signatures}
            signatures = {metric: [signature] for metric, signature in single.items()}
            rows_of = {metric: [_recipe_row(one, metric) for one in recipes] for metric in signatures}
            last = [_verdicts([one.verdict for one in recipes])]
            caution = RECIPE_CAUTION if len(recipes) > 1 else ""  # one recipe alone is not judged
        names = {metric: FURTHER_METRICS.get(metric, metric) for metric in signatures}
        parts += [table([[names[metric], *heads], *rows]) for metric, rows in rows_of.items()]
        parts.append("\n".join(f"{names[metric]} {one}" for metric, several in signatures.items() for one in several))
        parts += last
    return "\n\n".join(filter(None, [*parts, caution]))


def _system_row(system: "SystemResult", metric: str) -> list[str]:
    from transformer_cli.evaluation.metrics import score_with_interval

    found = {"BLEU": system.bleu, "chrF": system.chrf, **system.further}[metric]
    cells = [system.name, score_with_interval(found.score, found.interval)]
    if (difference := found.difference) is None:
        return [*cells, "", "", ""]
    return [*cells, f"{difference.points:+.2f}", _p(difference.p_bootstrap), _p(difference.p_randomization)]


def _recipe_row(recipe: "RecipeResult", metric: str) -> list[str]:
    found = {"BLEU": recipe.bleu, "chrF": recipe.chrf, **recipe.further}[metric]
    scores = " ".join(f"{score:.2f}" for score in found.scores)
    cells = [",".join(recipe.runs), scores, f"{found.mean:.2f} ± {found.standard_deviation:.2f}"]
    if (difference := found.difference) is None:
        return [*cells, "", ""]
    half = "" if difference.half_width is None else f" ± {difference.half_width:.2f}"
    return [*cells, f"{difference.points:+.2f}{half}", _p(difference.p)]


def _verdicts(verdicts: Sequence[str | None]) -> str:
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
