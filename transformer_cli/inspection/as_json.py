"""What was looked at inside a model → JSON, for `tfm inspect --json` and the server."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from transformer_cli.inspection.numbers import AttentionMap, Inspection


def inspection_as_json(inspection: Inspection, maps: Sequence[AttentionMap]) -> str:
    """Returns an inspection and its maps: tensors as nested lists; -inf, which JSON does not have, as null."""

    def finite(rows: list[list[float]]) -> list[list[float | None]]:
        return [[None if score == float("-inf") else score for score in row] for row in rows]

    found = {
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
    return json.dumps(found, ensure_ascii=False, allow_nan=False)
