"""A made-up corpus, German to English, that a tiny model learns in seconds, and the configs for it."""

import random
from itertools import product
from pathlib import Path

NOUNS = {"der Hund": "dog", "der Mann": "man", "die Frau": "woman", "die Katze": "cat", "das Kind": "child"}
ADJECTIVES = {"kleine": "small", "große": "big", "junge": "young", "alte": "old"}
VERBS = {"läuft": "runs", "schläft": "sleeps", "singt": "sings", "wartet": "waits", "springt": "jumps"}
PLACES = {"im Park": "in the park", "am Strand": "at the beach", "zu Hause": "at home"}
NAMES = [
    f"{first}{second}"
    for first in ("Ba", "Do", "Ki", "Lu", "Mo", "Ra", "Se")
    for second in ("bo", "di", "lax", "no", "ru")
]
SIZES = {"train": 200, "valid": 40, "test": 30}
TINY = """\
name: tiny
data:
  corpus: files
  files:
    train: {source: train.de, target: train.en}
    valid: {source: valid.de, target: valid.en}
    test: {source: test.de, target: test.en}
model: {d_model: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 64, max_length: 16}
training: {epochs: 6, batch_size: 16, learning_rate: 1e-2, precision: float32, device: cpu, shards: 1, num_threads: 1}
"""
SUBWORDS = TINY.replace(
    "  corpus: files\n", "  corpus: files\n  tokens: subwords\n  subwords: {vocab_size: 400}\n"
).replace("max_length: 16", "max_length: 48")


def write_corpus(folder: Path) -> None:
    """Write {train,valid,test}.{de,en}, tiny.yaml and subwords.yaml."""
    sentences = iter(pairs())
    for split, size in SIZES.items():
        chosen = [next(sentences) for _ in range(size)]
        for language, lines in zip(("de", "en"), zip(*chosen, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "tiny.yaml").write_text(TINY, encoding="utf-8")
    (folder / "subwords.yaml").write_text(SUBWORDS, encoding="utf-8")


def pairs() -> list[tuple[str, str]]:
    """All sentences that the words above make, in a fixed random order; some are about a name seen only once."""
    chance = random.Random(0)
    combined = list(product(NOUNS.items(), ADJECTIVES.items(), VERBS.items(), PLACES.items()))
    chance.shuffle(combined)
    found = []
    for index, ((noun, thing), adjective, verb, place) in enumerate(combined):
        article, german = noun.split()
        if index % 8 == 0:
            german = thing = NAMES[index // 8 % len(NAMES)]
        source = f"{article} {adjective[0]} {german} {verb[0]} {place[0]}."
        target = f"the {adjective[1]} {thing} {verb[1]} {place[1]}."
        found.append((source.capitalize(), target.capitalize()))
    return found
