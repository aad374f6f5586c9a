"""A made-up corpus of any size whose words are as unequal as real ones; writing it takes little memory."""

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

FORMS = 1_000_000
MEAN_LENGTH = 12
CHUNK = 10_000  # sentences held in memory
SYLLABLES = [first + second for first, second in product("bdfgklmnprstvz", "aeiou")]
YAML = """\
name: large
data:
  corpus: files
  min_freq: 100   # from 2,000,000 pairs, some tens of thousands of words: few enough to train a model
  files: {train: {source: train.de, target: train.en}, valid: {source: valid.de, target: valid.en}}
"""


def large_corpus(folder: Path, pairs: int, *, seed: int = 0) -> Path:
    """Write made-up train and valid files and a config for them, unless they exist; returns the config's path.

    There are a million words, and the word of rank r has a probability proportional to 1/r (Zipf).
    """
    path = folder / "large.yaml"
    if path.exists():
        return path
    chance = np.random.default_rng(seed)
    ends = np.array(["".join(end) for end in product(SYLLABLES, repeat=2)])
    for name, size in (("train", pairs), ("valid", min(1000, pairs))):
        for language in ("de", "en"):
            with open(folder / f"{name}.{language}", "w", encoding="utf-8", newline="\n") as file:
                for start in range(0, size, CHUNK):
                    file.writelines(_sentences(chance, ends, min(CHUNK, size - start)))
    path.write_text(YAML, encoding="utf-8")
    return path


def _sentences(chance: np.random.Generator, ends: "np.ndarray[Any, np.dtype[np.str_]]", count: int) -> Iterator[str]:
    lengths = chance.poisson(MEAN_LENGTH - 1, count) + 1
    ranks = np.exp(chance.random(lengths.sum()) * math.log(FORMS)).astype(np.int64)  # density 1/r on [1, FORMS)
    words = np.char.add(ends[ranks // len(ends)], ends[ranks % len(ends)])  # 70⁴ forms, more than enough
    for sentence in np.split(words, np.cumsum(lengths)[:-1]):
        yield f"{' '.join(sentence)}.\n"
