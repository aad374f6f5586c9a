"""Writes the files that dataset.py reads: raw text, ids and offsets, chunk by chunk. Knows no tokens or vocabularies.

Never holds a whole file in memory.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.codec import SIDES, Codecs
from transformer_cli.data.vocabulary import UNK
from transformer_cli.data.workers import Chunk, CutSide
from transformer_cli.system import progress

RENUMBER_CHUNK = 1 << 20  # ids held in memory while they are renumbered


@dataclass(frozen=True)
class EncodedCorpus:
    """What encoding a corpus gives; the splits themselves are on disk."""

    codecs: Codecs
    splits: dict[str, dict[str, Any]]
    """split → its counts, as the manifest keeps them"""
    tokenizer: dict[str, Any]
    """what cut the text into tokens, as the manifest keeps it"""
    facts: dict[str, Any]
    """what else the manifest keeps"""


class SplitWriter:
    """Writes both sides of a split. Used in a `with` block, which ends when everything has been added."""

    def __init__(self, folder: Path, name: str, size: int | None) -> None:
        """size: about how many pairs there will be, or None if that is unknown."""
        with ExitStack() as opened:
            self._sides = [opened.enter_context(closing(_SideWriter(folder / f"{name}.{side}"))) for side in SIDES]
            self._bar = opened.enter_context(closing(progress.bar(f"prepare {name}", size, " sentences")))
            self._opened = opened.pop_all()  # closes all of them, even if one cannot write what is left
        self._sentences = 0

    def add(self, chunk: Chunk[CutSide], ids: Sequence[NDArray[np.int32]]) -> None:
        """Write a chunk. ids: [source, target], each in the order of CutSide.ids."""
        for writer, texts, side, side_ids in zip(self._sides, chunk.texts, chunk.sides, ids, strict=True):
            writer.add(texts, side_ids, side.lengths)
        self._sentences += len(chunk)
        self._bar.update(len(chunk))

    def renumber(self, side: int, final_ids: NDArray[np.int32]) -> None:
        """Turn the provisional ids of a side (0: source, 1: target) into final ones, on disk."""
        self._sides[side].renumber(final_ids)

    def counts(self) -> dict[str, Any]:
        """Returns the counts of the split for the manifest."""
        sides = {side: writer.counts() for side, writer in zip(SIDES, self._sides, strict=True)}
        return {"sentences": self._sentences, **sides}

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class _SideWriter:
    """Writes one side of a split: raw text, ids and offsets."""

    def __init__(self, stem: Path) -> None:
        with ExitStack() as opened:
            self._text = opened.enter_context(open(f"{stem}.txt", "wb"))
            self._ids = opened.enter_context(closing(_ArrayWriter(Path(f"{stem}.ids.npy"), np.dtype(np.int32))))
            self._offsets = opened.enter_context(closing(_ArrayWriter(Path(f"{stem}.offsets.npy"), np.dtype(np.int64))))
            self._opened = opened.pop_all()
        self._offsets.extend(np.zeros(1))
        self._unknown = self._longest = 0

    def add(self, texts: Sequence[str], ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        """Write a chunk of this side: texts and lengths (sentences,), ids (tokens,)."""
        self._text.write("".join(f"{text}\n" for text in texts).encode())
        self._offsets.extend(self._ids.length + np.cumsum(lengths))
        self._ids.extend(ids)
        self._unknown += int(np.count_nonzero(ids == UNK))
        self._longest = max(self._longest, int(lengths.max()))

    def renumber(self, final_ids: NDArray[np.int32]) -> None:
        """Turn provisional ids into final ones."""
        self._unknown = self._ids.renumber(final_ids)

    def counts(self) -> dict[str, Any]:
        tokens = self._ids.length
        return {"tokens": tokens, "unknown_rate": self._unknown / max(1, tokens), "longest": self._longest}

    def close(self) -> None:
        self._opened.close()


class _ArrayWriter:
    """Writes a one-dimensional .npy file that grows. NumPy pads the header so that a greater length still fits."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.length = 0
        self._path = path
        self._dtype = dtype
        self._file = open(path, "wb")
        self._write_header()
        self._start = self._file.tell()

    def extend(self, values: NDArray[Any]) -> None:
        self._file.write(values.astype(self._dtype).tobytes())
        self.length += len(values)

    def renumber(self, table: NDArray[np.int32]) -> int:
        """Replace each id by table[id] after the file was closed; returns how many of the new ids are UNK."""
        n_unknown = 0
        with self._path.open("r+b") as file:
            file.seek(self._start)
            while block := file.read(RENUMBER_CHUNK * self._dtype.itemsize):
                ids = table[np.frombuffer(block, self._dtype)]
                file.seek(-len(block), os.SEEK_CUR)
                file.write(ids.tobytes())
                n_unknown += int(np.count_nonzero(ids == UNK))
        return n_unknown

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
