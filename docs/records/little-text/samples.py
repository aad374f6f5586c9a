"""Writes nested samples of Multi30k: python samples.py MULTI30K_FOLDER OUT [KYOTO_FOLDER]

OUT/valid.de, OUT/test.de, … are the validation text and test_2016_flickr. For each seed, OUT/s1/2000.de and
OUT/s1/2000.en are the first 2,000 pairs of the training text in a random order, so that smaller samples are part of
larger ones. OUT/s1/rest-2000.de and .en are the first 8,000 lines after them, for back-translation. OUT/both has both
directions of seed 1, with target tokens. OUT/kyoto has random pairs of the Kyoto corpus.
"""

import gzip
import random
import sys
from pathlib import Path

SIZES = [1_000, 2_000, 5_000, 10_000, 29_000]
SEEDS = [1, 2]
REST = 8_000
KYOTO = [5_000, 20_000]


def read(folder: Path, name: str, side: str) -> list[str]:
    return gzip.decompress((folder / f"{name}.{side}.gz").read_bytes()).decode().rstrip("\n").split("\n")


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def captions(multi30k: Path, out: Path) -> None:
    for side in ("de", "en"):
        write(out / f"valid.{side}", read(multi30k, "val", side))
        write(out / f"test.{side}", read(multi30k, "test_2016_flickr", side))
        lines = read(multi30k, "train", side)
        for seed in SEEDS:
            order = random.Random(seed).sample(range(len(lines)), len(lines))
            shuffled = [lines[number] for number in order]
            for size in SIZES:
                write(out / f"s{seed}/{size}.{side}", shuffled[:size])
                write(out / f"s{seed}/rest-{size}.{side}", shuffled[size : size + REST])


def directions(out: Path) -> None:
    for name, path in {"train": "s1/29000", "2000": "s1/2000", "valid": "valid", "test": "test"}.items():
        de, en = ((out / f"{path}.{side}").read_text("utf-8").splitlines() for side in ("de", "en"))
        pairs = {"de_en": ([f"<2en> {line}" for line in de], en), "en_de": ([f"<2de> {line}" for line in en], de)}
        for each, (source, target) in pairs.items():
            write(out / f"both/{name}_{each}.source", source)
            write(out / f"both/{name}_{each}.target", target)
        for side, (one, other) in zip(("source", "target"), zip(*pairs.values(), strict=True), strict=True):
            write(out / f"both/{name}.{side}", one + other)


def japanese(kyoto: Path, out: Path) -> None:
    for name in ("valid", "test"):
        for side in ("ja", "en"):
            write(out / f"kyoto/{name}.{side}", read(kyoto, name, side))
    pairs = list(zip(read(kyoto, "train", "ja"), read(kyoto, "train", "en"), strict=True))
    chosen = [pairs[number] for number in random.Random(1).sample(range(len(pairs)), 30_000)]
    for size in KYOTO:
        for side, lines in zip(("ja", "en"), zip(*chosen[:size], strict=True), strict=True):
            write(out / f"kyoto/{size}.{side}", list(lines))


captions(Path(sys.argv[1]), Path(sys.argv[2]))
directions(Path(sys.argv[2]))
if sys.argv[3:]:
    japanese(Path(sys.argv[3]), Path(sys.argv[2]))
