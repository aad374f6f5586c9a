"""`tfm evaluate`: a run → its losses and scores on a split, or on two files."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transformer_cli.commands import completion, options
from transformer_cli.system.files import STANDARD
from transformer_cli.system.terminal import table

if TYPE_CHECKING:
    from transformer_cli.evaluation.evaluate import Result


def evaluate(
    named: str | None = None,
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
    as_json: bool = False,
) -> None:
    """Print loss, perplexity, BLEU and chrF of a run. Several runs are judged together, as an ensemble."""
    if (input_file is None) != (not reference):
        raise typer.BadParameter("--input and --reference need each other")
    if input_file and split:
        raise typer.BadParameter("--split and --input cannot be used together")
    if output == output_tokens == STANDARD:
        raise typer.BadParameter("only one of --output and --output-tokens can go to standard output")
    options.refuse_repeated(input_file, reference or ())
    if named in completion.splits() and named not in completion.runs():
        raise typer.BadParameter(f"there is no run {named}; did you mean --split {named}?")
    further = options.further_metrics(metrics)
    options.refuse_unwritable(output, output_tokens, read=[input_file, glossary, *(reference or ())])
    options.check_text(input_file, *(reference or ()))
    folders = options.find_runs(named, run)
    from transformer_cli.config.load import translation_settings
    from transformer_cli.documents.glossary import read_glossary
    from transformer_cli.evaluation.evaluate import evaluate  # imports torch, so only when there are runs
    from transformer_cli.runs.run import Run
    from transformer_cli.system.files import write_text

    first, *others = map(Run.open, folders)
    first = first.into(to)
    chosen = {
        "glossary": read_glossary(glossary, first.config.data),
        **({} if beam_size is None else {"beam_size": beam_size}),
    }
    judged = list(
        evaluate(
            first,
            others=others,
            splits=split or (),
            files=(input_file, *reference) if input_file and reference else None,
            device=device,
            settings=translation_settings(first.config.decoding, chosen, search or ()),
            lowercase=lowercase,
            metrics=further,
        )
    )
    results = [each.result for each in judged]
    text = results_as_json(folders, results) if as_json else results_as_table(results)
    print(text, file=sys.stderr if STANDARD in (output, output_tokens) else sys.stdout)
    translations = [translation for each in judged for translation in each.translations]
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


def results_as_json(folders: Sequence[Path], results: Sequence["Result"]) -> str:
    """Returns the run's folder, those of the other runs of an ensemble, and the fields of each split's Result.

    It is escaped to ASCII: a folder's name may hold bytes that no encoding can print.
    """
    run, *others = map(str, folders)
    ensemble = {"others": others} if others else {}
    return json.dumps({"run": run, **ensemble, "results": [asdict(result) for result in results]})


def results_as_table(results: Sequence["Result"]) -> str:
    """Returns losses and scores, one line per split, and the signatures of the scores."""
    from transformer_cli.evaluation.losses import perplexity_text
    from transformer_cli.evaluation.metrics import FURTHER_METRICS, score_with_interval

    rows = [["split", "sentences", "loss", "PPL", "loss (batch mean)", "BLEU", "BLEU (tokens)", "chrF"]]
    rows[0] += [*(FURTHER_METRICS[name] for name in results[0].further), "seconds"]
    for result in results:
        losses = (f"{result.loss:.3f}", perplexity_text(result.ppl), f"{result.loss_batch_mean:.3f}")
        bleu = score_with_interval(result.bleu, result.bleu_interval)
        chrf = score_with_interval(result.chrf, result.chrf_interval)
        rows.append([result.split, f"{result.sentences:,}", *losses, bleu, f"{result.bleu_tokens:.2f}", chrf])
        rows[-1] += [*(f"{found.score:.2f}" for found in result.further.values()), f"{result.seconds:.1f}"]
    note = "± half of the 95 % bootstrap interval\n" if any(result.bleu_interval for result in results) else ""
    note += "".join(
        f"{each.split}: {each.terms_kept:,} of {each.terms:,} terms of the glossary are in the translations\n"
        for each in results
        if each.terms
    )
    return f"{table(rows)}\n{note}\n{_signatures(results)}"


def _signatures(results: Sequence["Result"]) -> str:
    """Returns the signatures of the scores, with the names of the splits if not all have the same ones."""
    from transformer_cli.evaluation.metrics import FURTHER_METRICS

    of_splits: dict[str, list[str]] = {}
    for each in results:
        signatures = [f"BLEU {each.bleu_signature}", f"chrF {each.chrf_signature}"]
        signatures += [f"{FURTHER_METRICS[name]} {found.signature}" for name, found in each.further.items()]
        of_splits.setdefault("\n".join(signatures), []).append(each.split)
    if len(of_splits) == 1:
        return next(iter(of_splits))
    return "\n\n".join(f"{', '.join(splits)}:\n{text}" for text, splits in of_splits.items())
