"""`tfm evaluate`: runs → their losses and scores on splits, or on files."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from transformer_cli.commands import completion, options
from transformer_cli.commands.tables import Column, Form, spread, write_table
from transformer_cli.system.files import STANDARD

if TYPE_CHECKING:
    from transformer_cli.evaluation.evaluate import Result
    from transformer_cli.evaluation.metrics import Interval


def evaluate(
    named: list[str] | None = None,
    split: list[str] | None = None,
    input_file: Path | None = None,
    reference: list[Path] | None = None,
    to: str | None = None,
    run: list[str] | None = None,
    search: list[str] | None = None,
    beam_size: int | None = None,
    glossary: Path | None = None,
    device: str = "auto",
    output: Path | None = None,
    output_tokens: Path | None = None,
    lowercase: bool = False,
    metrics: str = "bleu,chrf",
    details: bool = False,
    form: Form = "text",
    as_json: bool = False,
) -> None:
    """Print loss, perplexity, BLEU and chrF of runs, each by itself. Several --run are judged as an ensemble."""
    if (input_file is None) != (not reference):
        raise typer.BadParameter("--input and --reference need each other")
    if input_file and split:
        raise typer.BadParameter("--split and --input cannot be used together")
    if output == output_tokens == STANDARD:
        raise typer.BadParameter("only one of --output and --output-tokens can go to standard output")
    options.refuse_repeated(input_file, reference or ())
    if meant := set(named or ()) & set(completion.splits()) - set(completion.runs()):
        raise typer.BadParameter(f"there is no run {min(meant)}; did you mean --split {min(meant)}?")
    further = options.further_metrics(metrics)
    options.refuse_unwritable(output, output_tokens, read=[input_file, glossary, *(reference or ())])
    options.check_text(input_file, *(reference or ()))
    folders = options.find_runs(named, run)
    groups = [[folder] for folder in folders] if named else [folders]
    if len(groups) > 1 and (output or output_tokens):
        raise typer.BadParameter("--output and --output-tokens keep the translations of one run; name one")
    from transformer_cli.config.load import translation_settings
    from transformer_cli.documents.glossary import read_glossary
    from transformer_cli.evaluation.evaluate import Judged, evaluate  # imports torch, so only when there are runs
    from transformer_cli.runs.run import Run
    from transformer_cli.system.files import write_text

    by_run: dict[str, list[Judged]] = {}
    for group in groups:
        first, *others = (Run.open(folder).into(to) for folder in group)
        chosen = options.chosen(glossary=read_glossary(glossary, first.config.data), beam_size=beam_size)
        by_run[str(group[0])] = evaluate(
            first,
            others=others,
            splits=split or (),
            files=(input_file, *reference) if input_file and reference else None,
            device=device,
            settings=translation_settings(first.config.decoding, chosen, search or ()),
            lowercase=lowercase,
            metrics=further,
        )
    is_json = as_json or form == "json"
    ensemble = [str(folder) for folder in folders[1:]] if not named else []
    results = {run: [each.result for each in judged] for run, judged in by_run.items()}
    text = results_as_json(results, ensemble) if is_json else results_as_table(results, form, details=details)
    print(text, file=sys.stderr if STANDARD in (output, output_tokens) else sys.stdout)
    translations = [each for judged in by_run.values() for one in judged for each in one.translations]
    for path, lines in (
        (output, [translation.text for translation in translations]),
        (output_tokens, [translation.tokens_on_one_line for translation in translations]),
    ):
        text = "".join(f"{line}\n" for line in lines)
        if path == STANDARD:
            sys.stdout.write(text)
        elif path:
            with options.writing(path):
                write_text(path, text)


def results_as_json(by_run: Mapping[str, Sequence["Result"]], ensemble: Sequence[str] = ()) -> str:
    """Returns each run's folder, those of the other runs of an ensemble, and the fields of each split's Result.

    It is escaped to ASCII: a folder's name may hold bytes that no encoding can print.
    """
    others = {"others": ensemble} if ensemble else {}
    runs = [{"run": run, **others, "results": [*map(asdict, results)]} for run, results in by_run.items()]
    return json.dumps(runs[0] if len(runs) == 1 else {"runs": runs})


def results_as_table(by_run: Mapping[str, Sequence["Result"]], form: Form = "text", *, details: bool = False) -> str:
    """Returns losses and scores, one line per run and split, and the signatures of the scores.

    details: also what BLEU is made of.
    """
    from transformer_cli.evaluation.losses import perplexity_text
    from transformer_cli.evaluation.metrics import FURTHER_METRICS

    found = [(run, each) for run, results in by_run.items() for each in results]
    results = [each for _, each in found]

    def column(head: str, name: str, written: Callable[[Any], str] = str) -> Column:
        return Column(head, [getattr(each, name) for each in results], written)

    def scores(head: str, found: Iterable[tuple[float, "Interval | None"]]) -> Column:
        return Column(head, [(score, interval and interval.half_width) for score, interval in found], spread)

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
    for name in results[0].further:
        found_by = [each.further[name] for each in results]
        columns.append(scores(FURTHER_METRICS[name], ((each.score, each.interval) for each in found_by)))
    if details:
        columns += [column("brevity penalty", "brevity_penalty", "{:.3f}".format)]
        columns += [column("length ratio", "length_ratio", "{:.3f}".format)]
        columns += [column("precisions", "precisions", lambda each: "/".join(f"{value:.1f}" for value in each))]
    differing = _differing([each.bleu_signature for each in results])
    is_mixed = any(differing)
    columns += [*([Column("scored", differing)] if is_mixed else []), column("seconds", "seconds", "{:.1f}".format)]
    notes = ["± half of the 95 % bootstrap interval"] if any(each.bleu_interval for each in results) else []
    notes += [
        f"{each.split}: {each.terms_kept:,} of {each.terms:,} terms of the glossary are in the translations"
        for each in results
        if each.terms
    ]
    notes += ["scored: in what their scores differ; compare only those that are scored alike"] if is_mixed else []
    signatures = [f"BLEU {each.bleu_signature}\nchrF {each.chrf_signature}" for each in results]
    signatures += [f"{FURTHER_METRICS[name]} {of.signature}" for each in results for name, of in each.further.items()]
    return write_table(columns, form, "\n".join([*notes, "", *dict.fromkeys(signatures)]))


def _differing(signatures: Sequence[str]) -> list[str]:
    """Returns the parts of each signature that others lack, such as case:lc; those of intervals change no score."""
    parts = [[part for part in each.split("|") if not part.startswith(("bs:", "seed:"))] for each in signatures]
    return [" ".join(part for part in each if any(part not in other for other in parts)) for each in parts]
