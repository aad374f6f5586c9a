"""What every corpus is once it is open. Knows nothing of where its text comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.data.lines import Pairs, unreadable
from transformer_cli.files import sha256


@dataclass(frozen=True)
class Corpus:
    """Parallel text, split by split."""

    sums: dict[str, str]
    """what the text came from → SHA-256: `train.de.gz` (Multi30k), `train.source` (files), `captions`; no folders"""
    splits: Mapping[str, Callable[[], Pairs]]
    """train, valid, then test sets → a fresh pass over its (source, target) lines, without line ends"""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """split → its pairs, those with an empty side too; only where that is known before a split is read"""
    left_out: tuple[str, ...] = ()
    """test sets that exist for this pair of languages, but not in the folder that was named"""


def file_sum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises DataError if it cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise unreadable(path, error) from None
