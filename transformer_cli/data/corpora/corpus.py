"""What all corpora look like once they are open. Knows nothing of where the text comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.data.lines import Pairs, unreadable
from transformer_cli.system.files import sha256


@dataclass(frozen=True)
class Corpus:
    """Parallel text, split by split."""

    sums: dict[str, str]
    """origin of the text → SHA-256: `train.de.gz` (Multi30k), `train.source` (files), `captions`; never a folder"""
    splits: Mapping[str, Callable[[], Pairs]]
    """train, valid, then test sets → a function that starts a new pass over the (source, target) lines, without line
    ends"""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """split → number of pairs, those with an empty side included; only if it is known before the split is read"""
    left_out: tuple[str, ...] = ()
    """test sets that exist for this pair of languages, but not in the folder that was named"""


def file_sum(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal. Raises DataError if the file cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise unreadable(path, error) from None
