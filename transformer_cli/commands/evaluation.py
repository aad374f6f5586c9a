"""`tfm evaluate`, `tfm compare` and `tfm score`."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.commands import options, suggestions
from transformer_cli.commands.tables import Column, TableFormat, plus_minus, render_table
from transformer_cli.system.files import STDIO
from transformer_cli.system.terminal import pluralize

if TYPE_CHECKING:
    from transformer_cli.adapters.study.compare import Comparison, Example
    from transformer_cli.scoring.evaluate import Result
    from transformer_cli.scoring.metrics import Interval

WEIGHTS_CAUTION = """\
This compares two trained models, not two training recipes: another seed gives
another model. To compare recipes, give several runs of each, such as
tfm compare a-seed0,a-seed1 b-seed0,b-seed1"""
GROUP_CAUTION = """\
This compares training recipes by the spread of their runs (Welch's t-test), on
this text alone. With two runs of each, only large differences are significant."""
PLUS_MINUS = {"systems": "half of the 95 % bootstrap interval", "groups": "the standard deviation of the runs"}
CAUTIONS = {"systems": WEIGHTS_CAUTION, "groups": GROUP_CAUTION}


def evaluate(
    run_arguments: Annotated[list[str] | None, typer.Argument(
        metavar="[RUN]...", show_default="the newest", autocompletion=suggestions.runs, help="Runs to evaluate, one "
        "after the other. A pattern such as 'rate3-s*' stands for all runs whose names match.")] = None,
    split: options.Splits = None,
    input_file: Annotated[Path | None, options.Input(
        "--input", "-i", metavar="FILE", help="Evaluate on the sentences of this file instead of a split; needs "
        "--reference.")] = None,
    reference: options.References = None,
    to: options.ToLanguage = None,
    run: options.Runs = None,
    search: options.SearchOverrides = None,
    beam_size: options.BeamSize = None,
    glossary: options.Glossary = None,
    device: options.Device = "auto",
    output: Annotated[Path | None, options.Output(
        "--output", "-o", metavar="FILE", help="Also write the translations to this file, one per line.")] = None,
    output_tokens: Annotated[Path | None, options.Output(
        "--output-tokens", metavar="FILE", help="Also write the translations' tokens to this file, one sentence per "
        "line.")] = None,
    lowercase: options.Lowercase = False,
    metrics: options.Metrics = "bleu,chrf",
    details: Annotated[bool, options.Output(
        "--details", help="Also print BLEU's brevity penalty, length ratio and n-gram precisions.")] = False,
    form: options.TableFormatOption = "text",
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Print the loss, perplexity, BLEU and chrF of runs.

    Each RUN argument is evaluated separately. Several --run options are evaluated together, as an ensemble.
    """
    if (input_file is None) != (not reference):
        raise typer.BadParameter("--input and --reference need each other")
    if input_file and split:
        raise typer.BadParameter("--split and --input cannot be used together")
    if output == output_tokens == STDIO:
        raise typer.BadParameter("only one of --output and --output-tokens can go to standard output")
    options.check_references(input_file, reference or ())
    if meant := set(run_arguments or ()) & set(suggestions.splits()) - set(suggestions.runs()):
        raise typer.BadParameter(f"there is no run {min(meant)}; did you mean --split {min(meant)}?")
    extra_metrics = options.parse_metrics(metrics)
    options.check_writable(output, output_tokens, read=[input_file, glossary, *(reference or ())])
    options.check_plain_text(input_file, *(reference or ()))
    folders = options.find_runs(run_arguments, run)
    groups = [[folder] for folder in folders] if run_arguments else [folders]
    if len(groups) > 1 and (output or output_tokens):
        raise typer.BadParameter("--output and --output-tokens keep the translations of one run; name one")
    from transformer_cli.api import evaluate, read_glossary
    from transformer_cli.config.load import translation_settings
    from transformer_cli.runs.run import Run
    from transformer_cli.scoring.evaluate import Evaluation

    by_run: dict[str, list[Evaluation]] = {}
    for group in groups:
        first, *others = (Run.open(folder).for_target(to) for folder in group)
        chosen = options.given_options(glossary=read_glossary(glossary, first.config.data), beam_size=beam_size)
        by_run[str(group[0])] = evaluate(
            first,
            others=others,
            splits=split or (),
            files=(input_file, *reference) if input_file and reference else None,
            device=device,
            settings=translation_settings(first.config.decoding, chosen, search or ()),
            lowercase=lowercase,
            metrics=extra_metrics,
        )
    ensemble = [str(folder) for folder in folders[1:]] if not run_arguments else []
    results = {run: [each.result for each in evaluations] for run, evaluations in by_run.items()}
    text = results_as_json(results, ensemble) if as_json else results_as_table(results, form, details=details)
    print(text, file=sys.stderr if STDIO in (output, output_tokens) else sys.stdout)
    translations = [each for group in by_run.values() for evaluation in group for each in evaluation.translations]
    for path, lines in (
        (output, [translation.text for translation in translations]),
        (output_tokens, [translation.tokens_on_one_line for translation in translations]),
    ):
        if path:
            with options.open_output(path) as out:
                out.writelines(f"{line}\n" for line in lines)


def results_as_json(by_run: Mapping[str, Sequence["Result"]], ensemble: Sequence[str] = ()) -> str:
    """Returns JSON with each run's folder, the others of its ensemble, and the Result of each split.

    In ASCII, since a folder's name may have bytes that cannot be encoded.
    """
    others = {"others": ensemble} if ensemble else {}
    runs = [{"run": run, **others, "results": [*map(asdict, results)]} for run, results in by_run.items()]
    return json.dumps(runs[0] if len(runs) == 1 else {"runs": runs})


def results_as_table(
    by_run: Mapping[str, Sequence["Result"]], form: TableFormat = "text", *, details: bool = False
) -> str:
    """Returns a table of losses and scores with a row per run and split, and the scores' signatures.

    details: add the columns of --details.
    """
    from transformer_cli.scoring.losses import perplexity_text
    from transformer_cli.scoring.metrics import EXTRA_METRICS

    found = [(run, each) for run, results in by_run.items() for each in results]
    results = [each for _, each in found]

    def column(head: str, name: str, formatter: Callable[[Any], str] = str) -> Column:
        return Column(head, [getattr(each, name) for each in results], formatter)

    def scores(head: str, found: Iterable[tuple[float, "Interval | None"]]) -> Column:
        return Column(head, [(score, interval and interval.half_width) for score, interval in found], plus_minus)

    columns = [
        *([Column("run", [run for run, _ in found])] if len(by_run) > 1 else []),
        column("split", "split"),
        column("sentences", "sentences", "{:,}".format),
        column("loss", "loss", "{:.3f}".format),
        column("PPL", "ppl", perplexity_text),
        column("loss (batch mean)", "loss_batch_mean", "{:.3f}".format),
        scores("BLEU", ((each.bleu, each.bleu_interval) for each in results)),
        column("BLEU (tokens)", "bleu_tokens", "{:.2f}".format),
        scores("chrF", ((each.chrf, each.chrf_interval) for each in results)),
    ]
    for name in results[0].extra_metrics:
        found_by = [each.extra_metrics[name] for each in results]
        columns.append(scores(EXTRA_METRICS[name], ((each.score, each.interval) for each in found_by)))
    if details:
        columns += [column("brevity penalty", "brevity_penalty", "{:.3f}".format)]
        columns += [column("length ratio", "length_ratio", "{:.3f}".format)]
        columns += [column("precisions", "precisions", lambda each: "/".join(f"{value:.1f}" for value in each))]
    differing = _differing_parts([each.bleu_signature for each in results])
    is_mixed = any(differing)
    columns += [*([Column("scored", differing)] if is_mixed else []), column("seconds", "seconds", "{:.1f}".format)]
    notes = ["± half of the 95 % bootstrap interval"] if any(each.bleu_interval for each in results) else []
    notes += [
        f"{each.split}: {each.terms_kept:,} of {each.terms:,} glossary terms are in the translations"
        for each in results
        if each.terms
    ]
    notes += ["scored: how the signatures differ; compare only rows that are scored alike"] if is_mixed else []
    signatures = [f"BLEU {each.bleu_signature}\nchrF {each.chrf_signature}" for each in results]
    signatures += [f"{EXTRA_METRICS[name]} {of.signature}" for one in results for name, of in one.extra_metrics.items()]
    return render_table(columns, form, "\n".join([*notes, "", *dict.fromkeys(signatures)]))


def _differing_parts(signatures: Sequence[str]) -> list[str]:
    """Returns the parts of each signature that others do not have, such as case:lc; bs and seed are ignored."""
    parts = [[part for part in each.split("|") if not part.startswith(("bs:", "seed:"))] for each in signatures]
    return [" ".join(part for part in each if any(part not in other for other in parts)) for each in parts]


def compare(
    systems: Annotated[list[str], typer.Argument(
        metavar="A B [C …]", show_default=False, autocompletion=suggestions.runs, help="The systems: runs (names or "
        "folders) or files of translations. The first one is the baseline. To compare training recipes, give several "
        "runs of each, as in A1,A2 B1,B2 or 'a-s*' 'b-s*'; a single group gets its mean and spread. NAME=A "
        "labels A as NAME.")],
    split: options.Splits = None,
    input_file: Annotated[Path | None, options.Input(
        "--input", "-i", metavar="FILE", help="The source sentences, instead of a split; needs --reference. Not needed "
        "if all systems are files.")] = None,
    reference: options.References = None,
    lowercase: options.Lowercase = False,
    metrics: options.Metrics = "bleu,chrf",
    scores: Annotated[list[str] | None, options.Input(
        "--scores", metavar="NAME=FILE,…", help="Scores of the sentences by another metric or by people: a file for "
        "each system, in their order, with one number per line; higher is better. Repeatable.")] = None,
    language: Annotated[str | None, options.Input(
        "--language", metavar="CODE", show_default="the runs' target, or en", help="The language of the translations, "
        "for BLEU's tokeniser.")] = None,
    examples: Annotated[int | None, options.Output(
        "--examples", metavar="N", show_default="3", min=0, help="How many example sentences to print: those whose "
        "chrF differs most.")] = None,
    beam_size: options.BeamSize = None,
    device: options.Device = "auto",
    form: options.TableFormatOption = "text",
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Compare systems by BLEU and chrF, with significance tests."""
    recipes: dict[str, list[str]] = {}
    for argument in systems:
        label, runs = _parse_system(argument)
        if label in recipes:
            raise typer.BadParameter(f"{label} is named twice; give one another name, as in NAME={label}")
        recipes[label] = runs
    are_single = all(len(runs) == 1 for runs in recipes.values())
    if len(recipes) < 2 and are_single:
        raise typer.BadParameter("name at least two runs or files, such as: tfm compare A B")
    if input_file and not reference:
        raise typer.BadParameter("--input needs --reference")
    if reference and split:
        raise typer.BadParameter("--split and --reference cannot be used together")
    options.check_references(input_file, reference or ())
    if examples and not are_single:
        raise typer.BadParameter("--examples compares single systems; it cannot be used with several runs of each")
    if examples and not as_json and form != "text":
        raise typer.BadParameter(f"--examples are printed in text and JSON only, not with --format {form}")
    extra_metrics = options.parse_metrics(metrics)
    score_files = {name: files.split(",") for name, _, files in (each.partition("=") for each in scores or ())}
    if not all(name and all(files) for name, files in score_files.items()):
        raise typer.BadParameter("--scores: write NAME=FILE,FILE,…, with a file for each system")
    files = [Path(name) for runs in recipes.values() for name in runs if Path(name).is_file()]
    options.check_plain_text(input_file, *(reference or ()), *files)
    from transformer_cli.adapters.study.compare import CompareOptions
    from transformer_cli.api import compare, compare_groups

    compare_options = CompareOptions(
        splits=split or (),
        sources=input_file,
        references=reference or (),
        lowercase=lowercase,
        language=language,
        metrics=extra_metrics,
        scores=score_files,
        beam_size=beam_size,
        device=device,
    )
    found: Sequence[Comparison[Any]]
    if are_single:
        single = {label: runs[0] for label, runs in recipes.items()}
        found = compare(single, compare_options, **options.given_options(examples=examples))
    else:
        found = compare_groups(recipes, compare_options)
    if not as_json:
        print(comparisons_as_table(found, form))
        return
    records = [asdict(each) for each in found]
    for record in records if not are_single else ():
        record["groups"] = record.pop("systems")
    print(json.dumps({"comparisons": records}))  # in ASCII, since a folder's name may have bytes that cannot be encoded


def _parse_system(argument: str) -> tuple[str, list[str]]:
    """Returns the name and the runs of a system or recipe, such as "NAME=a-s*,b".

    An argument that is the name of a run, folder or file is taken as a whole.
    """
    if Path(argument).exists() or Path("runs", argument).exists():
        return argument, [argument]
    label, _, names = argument.rpartition("=")
    parts = [name for name in names.split(",") if name] or [argument]
    return label or ",".join(parts), [name for part in parts for name in options.match_runs(part)]


def comparisons_as_table(comparisons: "Sequence[Comparison[Any]]", form: TableFormat = "text") -> str:
    """Returns tables of the systems' scores, examples, and verdicts on each system against the first.

    Recipes have the mean and spread of their runs. In text each metric has its own table. Other formats have one table:
    CSV with all figures, Markdown and LaTeX with the scores, of which the best is bold.
    """
    from transformer_cli.scoring.metrics import EXTRA_METRICS

    parts = []
    for comparison in comparisons:
        systems, called = comparison.systems, {by: EXTRA_METRICS.get(by, by) for by in comparison.signatures}
        names, searches = [each.name for each in systems], [each.search for each in systems]
        tables = {called[by]: _metric_columns(comparison, by) for by in called}
        differs = len({*searches} - {None}) > 1
        search = [Column("search", searches)] if differs else []
        full_tables = [render_table([Column(metric, names), *each, *search]) for metric, each in tables.items()]
        title = f"{comparison.split}: {pluralize(comparison.sentences, 'sentence')}"
        title += "" if differs else "".join(f", {each}" for each in dict.fromkeys(filter(None, searches)))
        signatures = [f"{called[by]} {each}" for by, found in comparison.signatures.items() for each in found]
        verdicts = [each.verdict for each in systems if each.verdict]
        if len(verdicts) > 1:
            tests = 2 * len(verdicts)  # by BLEU and by chrF
            verdicts.append(
                f"({tests} tests at the level of 0.05 with Holm's correction: the smallest p must be below 0.05 / "
                f"{tests}, the next one below 0.05 / {tests - 1}, …)"
            )
        if form == "text":
            examples = [_format_example(one, names[0], each.name) for each in systems for one in each.examples]
            parts += [title, *full_tables, "\n".join(signatures), *examples, "\n".join(verdicts)]
        else:
            of_text = [Column("text", [comparison.split] * len(names))] if len(comparisons) > 1 else []
            columns = [_scores_column(comparison, by, called[by]) for by in called]
            notes = [title, f"± {PLUS_MINUS[comparison.compares]}"]
            notes += [f"† p < 0.05 against {names[0]} (uncorrected)"] if verdicts else []
            if form == "csv":
                columns = [replace(one, header=f"{by} {one.header}") for by, each in tables.items() for one in each]
            elif form == "latex":
                notes, search = [*notes, *full_tables], []
            notes += [*signatures, *verdicts]
            parts.append(render_table([Column("system", names), *of_text, *columns, *search], form, "\n".join(notes)))
    is_alone = len(comparisons[0].systems) == 1  # one group has no verdict
    return "\n\n".join(filter(None, [*parts, "" if is_alone or form != "text" else CAUTIONS[comparisons[0].compares]]))


def _scores_column(comparison: "Comparison[Any]", metric: str, header: str) -> Column:
    """Returns the scores of a metric: the best between **, and † after those with p < 0.05."""
    (cells,) = (each.cells for each in _metric_columns(comparison, metric) if " ± " in each.header)
    best = (min if metric == "ter" else max)((cell.split()[0] for cell in cells), key=float)
    shown = []
    for cell, system in zip(cells, comparison.systems, strict=True):
        score, *rest = cell.partition(" ± ")
        difference = system.scores[metric].difference
        mark = "†" if difference and difference.p is not None and difference.p < 0.05 else ""
        shown.append("".join([f"**{score}**" if score == best and len(cells) > 1 else score, *rest, mark]))
    return Column(header, shown)


def _metric_columns(comparison: "Comparison[Any]", metric: str) -> list[Column]:
    """Returns the columns of a metric: scores, differences from the first system, and their p-values."""
    found = [each.scores[metric] for each in comparison.systems]
    differences = [each.difference for each in found]

    def of_difference(head: str, name: str, formatter: Callable[[Any], str]) -> Column:
        values = [each and getattr(each, name) for each in differences]  # None for the first system
        shown = [math.nan if each and value is None else value for each, value in zip(differences, values, strict=True)]
        return Column(head, shown, formatter)

    if comparison.compares == "systems":
        return [
            Column("score ± 95 %", [(each.score, each.interval.half_width) for each in found], plus_minus),
            of_difference("difference", "points", "{:+.2f}".format),
            of_difference("p (bootstrap)", "p_bootstrap", _format_p),
            of_difference("p (randomisation)", "p_randomization", _format_p),
        ]
    halves = [each and (each.points, each.half_width) for each in differences]
    return [
        Column("runs", [each.scores for each in found], lambda scores: " ".join(f"{each:.1f}" for each in scores)),
        Column("mean ± SD", [(each.mean, each.standard_deviation) for each in found], plus_minus),
        Column("difference (95 %)", halves, lambda pair: f"{'+' * (pair[0] >= 0)}{plus_minus(pair)}"),
        of_difference("p (Welch)", "p", _format_p),
    ]


def _format_p(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _format_example(example: "Example", first: str, second: str) -> str:
    """Returns the lines of an example: source, reference, and both translations."""
    rows = [("source", example.source), ("reference", example.reference)]
    rows += zip((first, second), example.translations, strict=True)
    width = max(len(name) for name, _ in rows)
    before, after = example.chrf
    lines = [f"  {name.ljust(width)}  {text}".rstrip() for name, text in rows if text is not None]
    return "\n".join([f"line {example.line}: chrF {before:.1f} → {after:.1f}", *lines])


def score(
    input_file: Annotated[Path, options.Input("--input", "-i", metavar="FILE", help="The source sentences, one per "
    "line.")],
    target_file: Annotated[Path, options.Input(
        "--translation", metavar="FILE", help="Their translations, one per line.")],
    run_arguments: options.RunArgument = None,
    run: options.OneRun = None,
    device: options.Device = "auto",
    as_json: options.AsJsonLines = False,
) -> None:  # fmt: skip
    """Print the log-probability and perplexity of given translations.

    Each pair of lines gives one line with three columns: natural log-probability, number of target tokens with <eos>,
    and perplexity per token.
    """
    if input_file == target_file == STDIO:
        raise typer.BadParameter("only one of --input and --translation can be standard input")
    (folder,) = options.find_runs(run_arguments, run)
    options.check_plain_text(input_file, target_file)
    from transformer_cli.api import Translator
    from transformer_cli.scoring.evaluate import score_files
    from transformer_cli.scoring.losses import perplexity_text

    for each in score_files(Translator(folder, device), input_file, target_file):
        if as_json:
            print(json.dumps(asdict(each), ensure_ascii=False))
        else:
            print(f"{each.log_prob:.4f}\t{each.tokens}\t{perplexity_text(each.ppl, 4)}")
