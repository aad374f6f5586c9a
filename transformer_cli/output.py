"""What commands print: results as tables and as JSON. Reads no file, computes nothing; imports no torch."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_cli.data.prepare import Prepared
    from transformer_cli.evaluation.evaluate import Result
    from transformer_cli.inspection import AttentionMap, Inspection, WordAttention
    from transformer_cli.translator import Translation


def prepared_table(prepared: "Prepared") -> str:
    """The dataset's folder, sentences, tokens and unknown words of each split, the vocabularies."""
    manifest = prepared.manifest
    languages = {side: manifest["settings"][side] for side in ("source", "target")}
    rows = [("split", "sentences", "side", "tokens", "unknown", "longest")]
    for name, counts in manifest["splits"].items():
        for side, language in languages.items():
            tokens, unknown, longest = (counts[side][key] for key in ("tokens", "unknown_rate", "longest"))
            rows.append((name, f"{counts['sentences']:,}", language, f"{tokens:,}", f"{unknown:.2%}", str(longest)))
    words = ", ".join(f"{language} {manifest['vocabulary'][side]:,}" for side, language in languages.items())
    return (
        f"{prepared.folder}\n{_table(rows)}\n"
        f"vocabulary (min_freq {manifest['settings']['min_freq']}): {words}\n"
        f"validation references that come back exactly from their tokens: {manifest['joins']['valid_restored']:.1%}"
    )


def results_table(results: Sequence["Result"]) -> str:
    """Losses and scores, a line a split, and the scores' signatures."""
    rows = [["split", "sentences", "loss", "PPL", "loss (batch mean)", "BLEU", "BLEU (tokens)", "chrF", "seconds"]]
    for result in results:
        losses = (result.loss, result.ppl, result.loss_batch_mean)
        scores = (result.bleu, result.bleu_tokens, result.chrf)
        rows.append([result.split, f"{result.sentences:,}", *(f"{loss:.3f}" for loss in losses)])
        rows[-1] += [*(f"{score:.2f}" for score in scores), f"{result.seconds:.1f}"]
    return f"{_table(rows)}\nBLEU {results[0].bleu_signature}\nchrF {results[0].chrf_signature}"


def translation_line(translation: "Translation", tokens: bool, as_json: bool) -> str:
    """Plain text, the decoder's tokens, or a JSON object."""
    if as_json:
        value = {
            "source": translation.source,
            "translation": translation.text,
            "tokens": translation.tokens,
            "log_prob": translation.log_prob,
        }
        return json.dumps(value, ensure_ascii=False)
    return " ".join(translation.tokens) if tokens else translation.text


def inspection_as_json(inspection: "Inspection", maps: Sequence["AttentionMap"]) -> str:
    """Numbers as nested lists; a score of -inf, which JSON does not have, as null."""

    def finite(rows: list[list[float]]) -> list[list[float | None]]:
        return [[None if score == float("-inf") else score for score in row] for row in rows]

    numbers = {
        "source": inspection.sentence,
        "translation": inspection.translation,
        "source_tokens": inspection.source_tokens,
        "source_ids": inspection.source_ids,
        "target_tokens": inspection.target_tokens,
        "target_ids": inspection.target_ids,
        "attention": [
            {
                "kind": each.kind,
                "layer": each.layer,
                "head": each.head,
                "scores": finite(each.scores.tolist()) if each.scores is not None else None,
                "weights": each.weights.tolist(),
            }
            for each in maps
        ],
        "vectors": {
            "without_positions": inspection.without_positions.tolist(),
            "before": inspection.before.tolist(),
            "after": inspection.after.tolist(),
        },
        "repetitions": [asdict(repetition) for repetition in inspection.repetitions()],
    }
    return json.dumps(numbers, ensure_ascii=False, allow_nan=False)


def words_table(found: "WordAttention") -> str:
    """The weights: a line for each word that attends."""
    rows = [
        [word, *(f"{weight:.2f}" for weight in row)] for word, row in zip(_queries(found), found.weights, strict=True)
    ]
    return _table([["", *found.words], *rows])


def words_as_json(found: "WordAttention") -> str:
    """Numbers as nested lists."""
    numbers = {
        "words": found.words,
        "without_vector": found.without_vector,
        "queries": _queries(found),
        "scores": found.scores.tolist(),
        "weights": found.weights.tolist(),
        "vectors": found.vectors.tolist(),
        "context_vectors": found.context.tolist(),
    }
    return json.dumps(numbers, ensure_ascii=False, allow_nan=False)


def _queries(found: "WordAttention") -> list[str]:
    return [found.words[position] for position in found.positions]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell; the first flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[Any]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))
