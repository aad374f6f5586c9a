"""How much of the held-out text stands in the training text too. Knows the lines of a dataset, and no tokens.

Lines are equal if they have the same bytes, but for blanks at their ends. Memory holds a hash for each held-out source
sentence, and no text.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from transformer_cli.data.codec import SIDES
from transformer_cli.data.lines import byte_lines

BY_CHANCE = 0.01  # short sentences recur with another translation: up to this share of a split's is no warning

log = logging.getLogger(__name__)


def count_overlap(folder: Path, splits: Iterable[str]) -> dict[str, dict[str, int]]:
    """Count, for each split but train, how many of its pairs and source sentences occur in the training split.

    folder: a dataset's, with the raw text of `splits`. Returns split → {"pairs": …, "sources": …}; `sources` also
    counts those that training has with another translation.
    """
    held_out = [split for split in splits if split != "train"]
    wanted = {hash(source) for split in held_out for source, _ in _pairs(folder, split)}
    sources, pairs = set(), set()
    for pair in _pairs(folder, "train"):
        if hash(pair[0]) in wanted:
            sources.add(hash(pair[0]))
            pairs.add(hash(pair))
    return {
        split: {
            "pairs": sum(hash(pair) in pairs for pair in _pairs(folder, split)),
            "sources": sum(hash(source) in sources for source, _ in _pairs(folder, split)),
        }
        for split in held_out
    }


def warn_of_overlap(manifest: dict[str, Any]) -> None:
    """Warn, in one line, of splits of which whole pairs or many source sentences are in the training text.

    manifest: a dataset's; those from before overlaps were counted have none.
    """
    found = []
    for split, overlap in manifest.get("overlap", {}).items():
        sentences = manifest["splits"][split]["sentences"]
        if overlap["pairs"] or overlap["sources"] > BY_CHANCE * sentences:
            found.append(f"{split} {overlap['pairs']:,} of {sentences:,} pairs ({overlap['sources']:,} sources)")
    if found:
        what = (
            "also in the training text: %s; a model can learn them by heart, so scores there say less about new text; "
            "leave them out of the training text, and prepare again"
        )
        log.warning(what, ", ".join(found))


def _pairs(folder: Path, split: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a split's raw lines, without the blanks at their ends."""
    source, target = (byte_lines(folder / f"{split}.{side}.txt") for side in SIDES)
    with closing(source), closing(target):
        for pair in zip(source, target, strict=True):
            yield pair[0].strip(), pair[1].strip()
