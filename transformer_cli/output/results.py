"""Losses and scores of splits and of lines → plain dicts, JSON and tables."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.output.tables import score_with_interval, table

if TYPE_CHECKING:
    from transformer_cli.evaluation.evaluate import Result
    from transformer_cli.evaluation.score import LineScore


def results_as_dict(run: Path, results: Sequence["Result"], others: Sequence[Path] = ()) -> dict[str, Any]:
    """Returns the run's folder, and the fields of each split's Result.

    others: the other runs of an ensemble, which has a further key for them.
    """
    ensemble = {"others": [str(other) for other in others]} if others else {}
    return {"run": str(run), **ensemble, "results": [asdict(result) for result in results]}


def results_as_json(run: Path, results: Sequence["Result"], others: Sequence[Path] = ()) -> str:
    """`results_as_dict` as JSON, escaped to ASCII: a folder's name may hold bytes that no encoding can print."""
    return json.dumps(results_as_dict(run, results, others))


def results_as_table(results: Sequence["Result"]) -> str:
    """Returns losses and scores, one line per split, BLEU by source length, and the signatures of the scores."""
    rows = [["split", "sentences", "loss", "PPL", "loss (batch mean)", "BLEU", "BLEU (tokens)", "chrF", "seconds"]]
    for result in results:
        losses = (result.loss, result.ppl, result.loss_batch_mean)
        bleu, chrf = (
            score_with_interval(result.bleu, result.bleu_interval),
            score_with_interval(result.chrf, result.chrf_interval),
        )
        rows.append([result.split, f"{result.sentences:,}", *(f"{loss:.3f}" for loss in losses)])
        rows[-1] += [bleu, f"{result.bleu_tokens:.2f}", chrf, f"{result.seconds:.1f}"]
    has_interval = any(result.bleu_interval for result in results)
    note = "± half of the 95 % bootstrap interval\n" if has_interval else ""
    return (
        f"{table(rows)}\n{note}\n{_lengths_as_table(results)}\n\n"
        f"BLEU {results[0].bleu_signature}\nchrF {results[0].chrf_signature}"
    )


def _lengths_as_table(results: Sequence["Result"]) -> str:
    """Returns BLEU by source length, one line per split, with the number of sentences in brackets."""
    groups = {(each.shortest, each.longest) for result in results for each in result.bleu_by_source_length}
    ordered = sorted(groups, key=lambda group: group[0])
    names = [f"{shortest}–{longest}" if longest else f"{shortest} and more" for shortest, longest in ordered]
    rows = [["BLEU by source length", *names]]
    for result in results:
        found = {each.shortest: f"{each.bleu:.2f} ({each.sentences:,})" for each in result.bleu_by_source_length}
        rows.append([result.split, *(found.get(shortest, "") for shortest, _ in ordered)])
    return table(rows)


def line_score_as_json(score: "LineScore") -> str:
    """The fields of a LineScore as JSON."""
    return json.dumps(asdict(score), ensure_ascii=False)
