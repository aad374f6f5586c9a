"""What was looked at inside a model, and the attention of word vectors → plain dicts, JSON and a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from transformer_cli.output.tables import table

if TYPE_CHECKING:
    from transformer_cli.inspection.numbers import AttentionMap, Inspection, WordAttention


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


def inspection_as_json(inspection: "Inspection", maps: Sequence["AttentionMap"]) -> str:
    """`inspection_as_dict` as JSON."""
    return json.dumps(inspection_as_dict(inspection, maps), ensure_ascii=False, allow_nan=False)


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


def words_as_json(found: "WordAttention") -> str:
    """`words_as_dict` as JSON."""
    return json.dumps(words_as_dict(found), ensure_ascii=False, allow_nan=False)


def words_as_table(found: "WordAttention") -> str:
    """Returns the weights, one line per word that attends."""
    rows = [
        [word, *(f"{weight:.2f}" for weight in row)] for word, row in zip(_queries(found), found.weights, strict=True)
    ]
    return table([["", *found.words], *rows])


def _queries(found: "WordAttention") -> list[str]:
    """Returns the words that attend: the rows of scores and weights."""
    return [found.words[position] for position in found.positions]
