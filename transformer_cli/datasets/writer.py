"""Writes the ids and offsets that dataset.py reads, chunk by chunk. Knows no vocabularies.

Never holds the ids of a whole split in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from transformer_cli.system import progress
from transformer_cli.text.codec import SIDES
from transformer_cli.text.vocabulary import UNK

BLOCK = 1 << 20  # ids held in memory while they are counted or renumbered

Add = Callable[[Sequence[NDArray[np.int32]], Sequence[NDArray[np.int64]]], None]
"""Writes a chunk: of each side, its ids (tokens,), all sentences end to end, and lengths (sentences,)"""


@contextmanager
def writing(folder: Path, name: str, size: int) -> Iterator[Add]:
    """Write a split of `size` pairs; its files are whole when the block ends."""
    stems = [f"{folder / name}.{side}" for side in SIDES]
    all_lengths = [[np.zeros(1, np.int64)] for _ in SIDES]
    with ExitStack() as opened:
        id_files = [opened.enter_context(open(f"{stem}.ids.npy", "wb")) for stem in stems]
        bar = opened.enter_context(progress.bar(f"prepare {name}", size, " sentences"))
        for file in id_files:
            _write_header(file, 0)

        def add(ids: Sequence[NDArray[np.int32]], lengths: Sequence[NDArray[np.int64]]) -> None:
            for side in range(len(SIDES)):
                id_files[side].write(ids[side].tobytes())
                all_lengths[side].append(lengths[side])
            bar.update(len(lengths[0]))

        yield add
        for stem, file, found in zip(stems, id_files, all_lengths, strict=True):
            offsets = np.cumsum(np.concatenate(found))
            np.save(f"{stem}.offsets.npy", offsets)
            file.seek(0)
            _write_header(file, int(offsets[-1]))


def _write_header(file: IO[bytes], n_ids: int) -> None:
    """Write the header of the ids. NumPy pads it so that that of a larger number takes the same place."""
    header = {"descr": np.dtype(np.int32).str, "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def blocks(path: Path, mode: Literal["r", "r+"] = "r") -> Iterator[NDArray[np.int32]]:
    """Yield the ids in a file part by part; with mode r+, what is put into a part is written to the file."""
    ids = np.load(path, mmap_mode=mode)
    for start in range(0, len(ids), BLOCK):
        yield ids[start : start + BLOCK]


def renumber(path: Path, final_ids: NDArray[np.int32]) -> None:
    """Replace each id in a file by final_ids[id]."""
    for block in blocks(path, "r+"):
        block[:] = final_ids[block]


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
