"""The lines of a text file, memory-mapped: any of them can be read, and the file's text is never held in memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_cli.errors import DataError

BLOCK = 1 << 24  # bytes that are searched for line ends at a time
LINE_END = ord("\n")


@dataclass(frozen=True)
class MappedLines:
    r"""The lines of a UTF-8 file, each of which ends with "\n". The positions of their ends take 8 bytes a line."""

    path: Path
    content: NDArray[np.uint8]
    ends: NDArray[np.int64]
    """where each line begins, and where the last one ends: line i is content[ends[i]:ends[i + 1] - 1]"""

    @staticmethod
    def open(path: Path) -> "MappedLines":
        """Map a file, and read it once to find its lines. Raises OSError, or ValueError if the file is empty."""
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        found = [np.zeros(1, dtype=np.int64)]
        for start in range(0, len(content), BLOCK):
            found.append(np.flatnonzero(content[start : start + BLOCK] == LINE_END) + start + 1)
        return MappedLines(path, content, np.concatenate(found))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> str:
        r"""A line without its "\n". Raises DataError if it is not UTF-8."""
        line = self.content[self.ends[index] : self.ends[index + 1] - 1].tobytes()
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}: line {index + 1} is damaged: {error}; delete the folder and run `tfm prepare` again"
            ) from None
