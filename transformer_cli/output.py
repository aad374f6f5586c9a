"""Results → plain dicts, and dicts → JSON; results → tables. Reads no file, computes nothing; imports no torch.

The dicts hold what JSON can hold, for programs; the tables are for people. The commands print either of them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli import terminal

if TYPE_CHECKING:
    from transformer_cli.data.prepare import Prepared
    from transformer_cli.evaluation.evaluate import Result
    from transformer_cli.evaluation.metrics import Interval
    from transformer_cli.evaluation.score import LineScore
    from transformer_cli.inspection import AttentionMap, Inspection, WordAttention
    from transformer_cli.translator import Translation

# Dicts


def results_as_dict(run: Path, results: Sequence["Result"], others: Sequence[Path] = ()) -> dict[str, Any]:
    """Returns the run's folder, and the fields of each split's Result.

    others: the other runs of an ensemble, which has a further key for them.
    """
    ensemble = {"others": [str(other) for other in others]} if others else {}
    return {"run": str(run), **ensemble, "results": [asdict(result) for result in results]}


def translation_as_dict(translation: "Translation") -> dict[str, Any]:
    """Returns source and translation, and what belongs to each; the other ones of the n best under `alternatives`."""
    return {
        "source": translation.source,
        **_written(translation),
        "source_tokens": translation.source_tokens,
        "alternatives": [_written(other) for other in translation.alternatives],
    }


def _written(translation: "Translation") -> dict[str, Any]:
    """Returns what was written: text, the decoder's tokens, log-probability, score, and the alignment.

    The alignment is in Pharaoh format, such as "0-0 2-1": the source token's index, then the decoder's token's.
    """
    return {
        "translation": translation.text,
        "tokens": translation.tokens,
        "log_prob": translation.log_prob,
        "score": translation.score,
        "alignment": " ".join(f"{source}-{target}" for target, source in enumerate(translation.alignment)),
    }


def inspection_as_dict(inspection: "Inspection", maps: Sequence["AttentionMap"]) -> dict[str, Any]:
    """Returns an inspection and its maps: tensors as nested lists; -inf, which JSON does not have, as None."""

    def finite(rows: list[list[float]]) -> list[list[float | None]]:
        return [[None if score == float("-inf") else score for score in row] for row in rows]

    return {
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


def words_as_dict(found: "WordAttention") -> dict[str, Any]:
    """Returns the attention of word vectors, tensors as nested lists."""
    return {
        "words": found.words,
        "without_vector": found.without_vector,
        "queries": _queries(found),
        "scores": found.scores.tolist(),
        "weights": found.weights.tolist(),
        "vectors": found.vectors.tolist(),
        "context_vectors": found.context.tolist(),
    }


# JSON, each result on one line


def prepared_as_json(prepared: "Prepared") -> str:
    """Returns the dataset's manifest, which is a plain dict already."""
    return json.dumps(prepared.manifest, ensure_ascii=False)


def results_as_json(run: Path, results: Sequence["Result"], others: Sequence[Path] = ()) -> str:
    """`results_as_dict` as JSON, escaped to ASCII: a folder's name may hold bytes that no encoding can print."""
    return json.dumps(results_as_dict(run, results, others))


def translation_as_json(translation: "Translation") -> str:
    """`translation_as_dict` as JSON."""
    return json.dumps(translation_as_dict(translation), ensure_ascii=False)


def long_lines_as_text(n_lines: int, first: Sequence[int], on_error: str) -> str:
    """Returns what `tfm translate` says of lines that were too long. first: the numbers of the first of them."""
    became = {"blank": "left blank", "copy": "copied", "truncate": "cut"}[on_error]
    numbers = ", ".join(map(str, first)) + (", …" if len(first) < n_lines else "")
    return f"{n_lines:,} too long, {became}: {'line' if n_lines == 1 else 'lines'} {numbers}"


def line_score_as_json(score: "LineScore") -> str:
    """The fields of a LineScore as JSON."""
    return json.dumps(asdict(score), ensure_ascii=False)


def inspection_as_json(inspection: "Inspection", maps: Sequence["AttentionMap"]) -> str:
    """`inspection_as_dict` as JSON."""
    return json.dumps(inspection_as_dict(inspection, maps), ensure_ascii=False, allow_nan=False)


def words_as_json(found: "WordAttention") -> str:
    """`words_as_dict` as JSON."""
    return json.dumps(words_as_dict(found), ensure_ascii=False, allow_nan=False)


# Tables


def prepared_as_table(prepared: "Prepared") -> str:
    """Returns a table of the splits, between the dataset's folder and the sizes of its vocabularies."""
    manifest = prepared.manifest
    languages = {side: manifest["settings"][side] for side in ("source", "target")}
    rows = [("split", "sentences", "side", "tokens", "unknown", "longest")]
    for name, counts in manifest["splits"].items():
        for side, language in languages.items():
            tokens, unknown, longest = (counts[side][key] for key in ("tokens", "unknown_rate", "longest"))
            rows.append((name, f"{counts['sentences']:,}", language, f"{tokens:,}", f"{unknown:.2%}", str(longest)))
    sizes = ", ".join(f"{language} {manifest['vocabulary'][side]:,}" for side, language in languages.items())
    return terminal.fitted("\n".join([str(prepared.folder), table(rows), *_about_tokens(manifest, sizes)]))


def _about_tokens(manifest: dict[str, Any], sizes: str) -> list[str]:
    """Returns what `tfm prepare` says of the vocabularies. sizes: how many tokens each one has."""
    settings = manifest["settings"]
    if settings.get("tokens") == "subwords":
        tokenizer = manifest["tokenizer"]
        which = "one for both languages" if settings["joint_vocabulary"] else "one for each language"
        return [f"subwords ({tokenizer['algorithm']}, SentencePiece {tokenizer['version']}, {which}): {sizes}"]
    return [
        f"vocabulary (min_freq {settings['min_freq']}): {sizes}",
        f"validation references that come back exactly from their tokens: {manifest['joins']['valid_restored']:.1%}",
    ]


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


def score_with_interval(score: float, interval: "Interval | None") -> str:
    """Returns a score with half of its interval's width, if it has one."""
    return f"{score:.2f} ± {interval.half_width:.2f}" if interval else f"{score:.2f}"


def words_as_table(found: "WordAttention") -> str:
    """Returns the weights, one line per word that attends."""
    rows = [
        [word, *(f"{weight:.2f}" for weight in row)] for word, row in zip(_queries(found), found.weights, strict=True)
    ]
    return table([["", *found.words], *rows])


def _queries(found: "WordAttention") -> list[str]:
    """Returns the words that attend: the rows of scores and weights."""
    return [found.words[position] for position in found.positions]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Join rows with columns as wide as their widest cell; the first is flush left, the others are flush right.

    The first row is the head, which is bold on a terminal. Columns that do not fit beside each other there stand below
    each other, each time with the first column before them. Control characters are visible: names may hold line feeds.
    """
    rows = [[terminal.on_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(terminal.width, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str], chosen: Sequence[int]) -> str:
        cells = [f"{row[0]}{' ' * (widths[0] - terminal.width(row[0]))}"]
        cells += [f"{' ' * (widths[column] - terminal.width(row[column]))}{row[column]}" for column in chosen]
        return "  ".join(cells).rstrip()

    blocks = []
    for chosen in _side_by_side(widths):
        head, *body = (line(row, chosen) for row in rows)
        blocks.append("\n".join([terminal.bold(head), *body]))
    return "\n\n".join(blocks)


def _side_by_side(widths: Sequence[int]) -> list[list[int]]:
    """Returns the columns but the first in groups that fit on the terminal beside the first."""
    limit = terminal.columns()
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        wanted = widths[0] + sum(2 + widths[each] for each in (*groups[-1], column))
        if limit is not None and wanted > limit and groups[-1]:
            groups.append([])
        groups[-1].append(column)
    return groups
