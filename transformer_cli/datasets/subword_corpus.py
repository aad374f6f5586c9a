"""Encodes a corpus by subwords: learns the pieces from a sample of the training split, and encodes every split.

The training split is read twice. Memory holds the sample, whose size is bounded.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from transformer_cli.config.schema import DataConfig
from transformer_cli.corpora.corpora import gathered
from transformer_cli.datasets.dataset import Pair, chunks, writing
from transformer_cli.errors import ConfigError
from transformer_cli.system import progress
from transformer_cli.text.codec import Codecs, SubwordCodec
from transformer_cli.text.lines import Pairs
from transformer_cli.text.reading import lower, normalized
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION, learn_pieces

MOST_PAIRS = 500_000  # that pieces are learned from
MOST_CHARACTERS = 50_000_000  # the same, both sides together


def encode_by_subwords(
    folder: Path, data: DataConfig, splits: Mapping[str, int], given: Codecs | None = None
) -> tuple[Codecs, dict[str, Any]]:
    """Learn both codecs from the training split, unless they are given, and write the ids of every split.

    splits: how many pairs each has, whose text `gather` has written into the folder. Returns the codecs, and what the
    manifest keeps of the tokenising. Raises ConfigError if SentencePiece cannot learn
    so many pieces from the text, or so few.
    """
    if given is None:
        source, target = _learn(sample(gathered(folder, "train"), data, size=splits["train"]), data)
    else:
        source, target = (codec for codec in (given.source, given.target) if isinstance(codec, SubwordCodec))
    for name, size in splits.items():
        with writing(folder, name, size) as add:
            for texts in chunks(gathered(folder, name)):
                sides = [codec.encode_all(lines) for codec, lines in zip((source, target), texts, strict=True)]
                ids = [np.fromiter(chain.from_iterable(side), np.int32) for side in sides]
                add(ids, [np.array([len(line) for line in side], np.int64) for side in sides])
    tokenizer = {"library": "sentencepiece", "version": SENTENCEPIECE_VERSION, "algorithm": data.subwords.algorithm}
    return Codecs(source, target), {"tokenizer": tokenizer}


def sample(pairs: Pairs, data: DataConfig, *, size: int) -> list[Pair]:
    """Returns all pairs of a text as they are read, or if these are too many, every second one, every fourth one, …

    size: how many pairs there are.
    """
    kept: list[Pair] = []
    every, n_characters = 1, 0
    with progress.bar("learn subwords", size, " sentences") as bar:
        for number, pair in enumerate(pairs):
            bar.update(1)
            if number % every:
                continue
            source, target = map(normalized, pair)
            if data.lowercased:
                source, target = lower(source, data.source), lower(target, data.target)
            kept.append((source, target))
            n_characters += len(source) + len(target)
            while len(kept) > MOST_PAIRS or (n_characters > MOST_CHARACTERS and len(kept) > 1):
                kept = kept[::2]  # 0, 4, 8, … of 0, 2, 4, 6, 8, …
                every *= 2
                n_characters = sum(len(source) + len(target) for source, target in kept)
    return kept


def _learn(pairs: list[Pair], data: DataConfig) -> tuple[SubwordCodec, SubwordCodec]:
    """Returns the codecs of the source and the target; with a joint vocabulary they have the same model."""
    languages = [data.source, data.target]
    texts: list[Iterable[str]] = [(source for source, _ in pairs), (target for _, target in pairs)]
    if data.joint_vocabulary:
        languages, texts = [" and ".join(languages)], [chain(*texts)]
    settings, models = data.subwords, []
    if settings.algorithm == "imported":
        raise ConfigError(
            "data.subwords.algorithm: imported pieces are not learned; let data.codec name a run with them"
        )
    for side, (language, text) in enumerate(zip(languages, texts, strict=True)):
        symbols = () if side else settings.symbols
        try:
            models.append(learn_pieces(text, size=settings.size, algorithm=settings.algorithm, symbols=symbols))
        except ConfigError as error:
            raise ConfigError(f"{error} ({language})") from None
    source, target = (
        SubwordCodec(model, data.lowercased, settings.algorithm, language)
        for model, language in ((models[0], data.source), (models[-1], data.target))
    )
    return source, target
