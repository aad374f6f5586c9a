"""Writes nested samples of Multi30k: python samples.py MULTI30K_FOLDER OUT

OUT/valid.de, OUT/test.de, … are the validation text and test_2016_flickr. For each seed, OUT/s1/2000.de and
OUT/s1/2000.en are the first 2,000 pairs of the training text in a random order, so that smaller samples are part of
larger ones. OUT/s1/rest-2000.de and .en are the first 8,000 lines after them, for back-translation.
"""

import gzip
import random
import sys
from pathlib import Path

SIZES = [1_000, 2_000, 5_000, 10_000, 29_000]
SEEDS = [1, 2]
REST = 8_000


def main(multi30k: Path, out: Path) -> None:
    def read(name: str, side: str) -> list[str]:
        return gzip.decompress((multi30k / f"{name}.{side}.gz").read_bytes()).decode().rstrip("\n").split("\n")

    def write(path: Path, lines: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    for side in ("de", "en"):
        write(out / f"valid.{side}", read("val", side))
        write(out / f"test.{side}", read("test_2016_flickr", side))
        lines = read("train", side)
        for seed in SEEDS:
            order = random.Random(seed).sample(range(len(lines)), len(lines))
            shuffled = [lines[number] for number in order]
            for size in SIZES:
                write(out / f"s{seed}/{size}.{side}", shuffled[:size])
                write(out / f"s{seed}/rest-{size}.{side}", shuffled[size : size + REST])


main(Path(sys.argv[1]), Path(sys.argv[2]))
