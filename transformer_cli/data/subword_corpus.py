"""Encodes a corpus by subwords: learns the pieces from a sample of the training split, and encodes every split.

The training split is read twice. Memory holds the sample, whose size is bounded.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from transformer_cli.config.schema import DataConfig
from transformer_cli.data import lines
from transformer_cli.data.codec import Codecs, SubwordCodec
from transformer_cli.data.corpora import Corpus
from transformer_cli.data.lines import Pairs
from transformer_cli.data.subwords import SENTENCEPIECE_VERSION, learn_pieces
from transformer_cli.data.workers import Pair, available_cores, segmenting
from transformer_cli.data.writer import EncodedCorpus, SplitWriter
from transformer_cli.errors import ConfigError
from transformer_cli.system import progress

log = logging.getLogger(__name__)

FEW = 20_000  # one process has encoded this many pairs before workers would have started
MOST_WORKERS = 4  # one process reads and writes what they encode
MOST_PAIRS = 500_000  # that pieces are learned from
MOST_CHARACTERS = 50_000_000  # the same, both sides together


def encode_by_subwords(folder: Path, data: DataConfig, corpus: Corpus, given: Codecs | None = None) -> EncodedCorpus:
    """Learn both codecs from the training split, unless they are given, and write every split of the corpus.

    Raises ConfigError if SentencePiece cannot learn so many pieces from the text, or so few.
    """
    pairs = corpus.splits["train"]()
    if given is None:
        codecs = _learn(pairs, corpus.sizes.get("train"), data)
        pairs = _again(corpus.splits["train"]())
    else:
        codecs = [codec for codec in (given.source, given.target) if isinstance(codec, SubwordCodec)]
    first = list(islice(pairs, FEW + 1))
    processes = min(available_cores(), MOST_WORKERS) if len(first) > FEW else 1
    source, target = codecs
    splits = {}
    with segmenting(source.model, target.model, lowercase=data.lowercased, processes=processes) as cut:
        for name in corpus.splits:
            with SplitWriter(folder, name, corpus.sizes.get(name)) as split:
                for chunk in cut(chain(first, pairs) if name == "train" else corpus.splits[name]()):
                    split.add(chunk, [side.ids for side in chunk.sides])
            splits[name] = split.counts()
    tokenizer = {"library": "sentencepiece", "version": SENTENCEPIECE_VERSION, "algorithm": data.subwords.algorithm}
    return EncodedCorpus(Codecs(source, target), splits, tokenizer, {})


class TrainingSample:
    """Every pair of a text, or if these are too many, every second one, every fourth one, and so on."""

    def __init__(self, *, lowercase: bool) -> None:
        self._lowercase = lowercase
        self._pairs: list[Pair] = []
        self._seen = self._characters = 0
        self._every = 1

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, pair: Pair) -> None:
        """Take a pair into the sample if it is its turn."""
        is_its_turn = self._seen % self._every == 0
        self._seen += 1
        if not is_its_turn:
            return
        source, target = (line.lower() if self._lowercase else line for line in pair)
        self._pairs.append((source, target))
        self._characters += len(source) + len(target)
        while len(self._pairs) > MOST_PAIRS or (self._characters > MOST_CHARACTERS and len(self._pairs) > 1):
            self._pairs = self._pairs[::2]  # 0, 4, 8, … of 0, 2, 4, 6, 8, …
            self._every *= 2
            self._characters = sum(len(source) + len(target) for source, target in self._pairs)

    def lines(self, side: int) -> Iterator[str]:
        """Yield the lines of one side (0: source, 1: target)."""
        return (pair[side] for pair in self._pairs)


def _learn(pairs: Pairs, size: int | None, data: DataConfig) -> list[SubwordCodec]:
    """Returns the codecs learned from some text, [source, target]; with a joint vocabulary they have the same model.

    size: about how many pairs there are, if that is known.
    """
    sample = TrainingSample(lowercase=data.lowercased)
    with progress.bar("learn subwords", size, " sentences") as bar:
        for pair in pairs:
            sample.add(pair)
            bar.update(1)
    texts: list[tuple[str, Iterable[str]]] = [(data.source, sample.lines(0)), (data.target, sample.lines(1))]
    if data.joint_vocabulary:
        texts = [(f"{data.source} and {data.target}", chain(sample.lines(0), sample.lines(1)))]
    settings = data.subwords
    models = []
    for languages, text in texts:
        try:
            models.append(learn_pieces(text, size=settings.size, algorithm=settings.algorithm))
        except ConfigError as error:
            raise ConfigError(f"{error} ({languages})") from None
    return [
        SubwordCodec(data.lowercased, model, settings.algorithm, settings.dropout) for model in (models[0], models[-1])
    ]


def _again(pairs: Pairs) -> Pairs:
    """A second pass over some text: what there is to say of it was said in the first."""
    lines.log.disabled = True
    try:
        yield from pairs
    finally:
        lines.log.disabled = False
