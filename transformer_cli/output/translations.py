"""Translations → plain dicts and JSON; what is said of lines that were too long."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_cli.translator import Translation


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


def translation_as_json(translation: "Translation") -> str:
    """`translation_as_dict` as JSON."""
    return json.dumps(translation_as_dict(translation), ensure_ascii=False)


def long_lines_as_text(n_lines: int, first: Sequence[int], on_error: str) -> str:
    """Returns what `tfm translate` says of lines that were too long. first: the numbers of the first of them."""
    became = {"blank": "left blank", "copy": "copied", "truncate": "cut"}[on_error]
    numbers = ", ".join(map(str, first)) + (", …" if len(first) < n_lines else "")
    return f"{n_lines:,} too long, {became}: {'line' if n_lines == 1 else 'lines'} {numbers}"
