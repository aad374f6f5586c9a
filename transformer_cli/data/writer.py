"""Writes the files that dataset.py reads: raw text, ids and offsets, chunk by chunk. Knows no vocabularies.

Never holds the text or the ids of a whole split in memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.codec import SIDES
from transformer_cli.data.vocabulary import UNK
from transformer_cli.data.workers import Texts
from transformer_cli.system import progress

BLOCK = 1 << 20  # ids held in memory while they are counted or renumbered


class SplitWriter:
    """Writes both sides of a split; see `writing`."""

    def __init__(self, sides: Sequence["_SideWriter"], bar: progress.Bar) -> None:
        self._sides = sides
        self._bar = bar

    def add(self, texts: Texts, ids: Sequence[NDArray[np.int32]], lengths: Sequence[NDArray[np.int64]]) -> None:
        """Write a chunk. Of each side: ids (tokens,), all sentences end to end; lengths (sentences,)."""
        for writer, text, side_ids, side_lengths in zip(self._sides, texts, ids, lengths, strict=True):
            writer.add(text, side_ids, side_lengths)
        self._bar.update(len(texts[0]))


@contextmanager
def writing(folder: Path, name: str, size: int | None) -> Iterator[SplitWriter]:
    """Write a split; its files are whole when the block ends. size: about how many pairs there will be, if known."""
    with ExitStack() as opened:
        sides = [opened.enter_context(_writing_side(f"{folder / name}.{side}")) for side in SIDES]
        bar = progress.bar(f"prepare {name}", size, " sentences")
        opened.enter_context(closing(bar))
        yield SplitWriter(sides, bar)


@contextmanager
def _writing_side(stem: str) -> Iterator["_SideWriter"]:
    """Write one side of a split. Both files are closed whatever fails, even if one cannot write what is left."""
    with open(f"{stem}.txt", "wb") as text, open(f"{stem}.ids.npy", "wb") as ids:
        _write_header(ids, 0)
        writer = _SideWriter(text, ids)
        yield writer
        offsets = np.cumsum(np.concatenate(writer.lengths))
        np.save(f"{stem}.offsets.npy", offsets)
        ids.seek(0)
        _write_header(ids, int(offsets[-1]))


class _SideWriter:
    """Writes one side of a split to its open files."""

    def __init__(self, text: IO[bytes], ids: IO[bytes]) -> None:
        self._text = text
        self._ids = ids
        self.lengths = [np.zeros(1, np.int64)]

    def add(self, texts: Sequence[str], ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        self._text.write("".join(f"{text}\n" for text in texts).encode())
        self._ids.write(ids.tobytes())
        self.lengths.append(lengths)


def _write_header(file: IO[bytes], n_ids: int) -> None:
    """Write the header of the ids. NumPy pads it so that that of a larger number takes the same place."""
    header = {"descr": np.dtype(np.int32).str, "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def blocks(path: Path) -> Iterator[NDArray[np.int32]]:
    """Yield the ids in a file part by part."""
    ids = np.load(path, mmap_mode="r")
    for start in range(0, len(ids), BLOCK):
        yield ids[start : start + BLOCK]


def renumber(path: Path, final_ids: NDArray[np.int32]) -> None:
    """Replace each id in a file by final_ids[id]."""
    with path.open("r+b") as file:
        file.seek(np.load(path, mmap_mode="r").offset)  # after the header
        for block in blocks(path):
            file.write(final_ids[block].tobytes())


def count(folder: Path, name: str) -> dict[str, Any]:
    """Returns the counts of a split that was written, as the manifest keeps them."""
    counts: dict[str, Any] = {}
    for side in SIDES:
        offsets = np.load(folder / f"{name}.{side}.offsets.npy")
        n_unknown = sum(int(np.count_nonzero(block == UNK)) for block in blocks(folder / f"{name}.{side}.ids.npy"))
        tokens, longest = int(offsets[-1]), int(np.diff(offsets).max())
        counts["sentences"] = len(offsets) - 1
        counts[side] = {"tokens": tokens, "unknown_rate": n_unknown / tokens, "longest": longest}
    return counts
