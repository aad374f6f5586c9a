"""BLEU of short and of long sentences. Lengths are of the source text, so they are the same for every system."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer_cli.config.data import DataConfig
from transformer_cli.evaluation.metrics import CHARACTER_LANGUAGES, bleu_of_text

LIMITS = (10, 15, 20, 30, 50)  # the longest sentence of each group but the last, in words
WITHOUT_SPACES = CHARACTER_LANGUAGES.keys() - {"ko"}  # where a length is counted in characters


@dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences whose source has a length from `shortest` to `longest`."""

    shortest: int
    """in words, which are separated by spaces; in characters for Chinese, Japanese and others without spaces"""
    longest: int | None
    """likewise; None for the group of the longest sentences"""
    sentences: int
    bleu: float


def bleu_by_source_length(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str], data: DataConfig
) -> list[LengthScore]:
    """Returns BLEU for each group of lengths that has sentences, the shortest first: 0–10 words, 11–15, … 51 and more.

    data: the settings with the languages and the case of the text.
    """
    groups = np.searchsorted(LIMITS, [source_length(line, data.source) for line in sources])
    found = []
    for group, (shortest, longest) in enumerate(zip((0, *(n + 1 for n in LIMITS)), (*LIMITS, None), strict=True)):
        rows = np.flatnonzero(groups == group).tolist()
        if rows:
            bleu = bleu_of_text(
                [texts[row] for row in rows],
                [references[row] for row in rows],
                lowercase=data.lowercased,
                language=data.target,
            )
            found.append(LengthScore(shortest, longest, len(rows), bleu))
    return found


def source_length(line: str, language: str) -> int:
    """Returns the number of words of a line; of its characters in a language that is written without spaces."""
    words = line.split()
    return sum(map(len, words)) if language in WITHOUT_SPACES else len(words)
