"""Encodes a corpus: makes the codecs, and writes the ids of every split, by words or by subwords.

By words, the training split is read once, in chunks that this process or worker processes tokenise. Each distinct word
gets a provisional id when it first appears. When all words are counted, the ids on disk are replaced by those of the
vocabulary. Memory holds distinct words, not sentences. By subwords, the training split is read twice: first for a
sample of bounded size, from which the subwords are learned, and then to encode it.
"""

import logging
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.compute.threads import WorkerPool, available_cores
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpus import read_pairs
from transformer_cli.data.dataset import Pair, id_blocks, split_writer
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.system import progress
from transformer_cli.system.workers import worker_processes
from transformer_cli.text.codec import SIDES, Codecs, SubwordCodec, WordCodec
from transformer_cli.text.lines import PairIterator
from transformer_cli.text.normalization import lower, nfc_stripped
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION, train_subwords
from transformer_cli.text.vocabulary import SPECIALS, Vocabulary, import_torchtext
from transformer_cli.text.words import SPACY_VERSION, Detokenizer, TokenizerSettings, learn_detokenizer, open_tokenizers

log = logging.getLogger(__name__)

PAIRS_PER_CHUNK = 1_000  # which a worker tokenises in a tenth of a second
MIN_PAIRS_FOR_WORKERS = 5_000  # for fewer pairs, one process is done before workers would have started
MAX_WORKERS = 16  # the main process collects their results: with two workers, that takes a seventh of its time
LARGE_VOCABULARY = 50_000  # words; a warning recommends subwords for more
DETOKENIZER_SENTENCES = 200_000  # the detokenizer is learned from so many; more would add only rare pairs of words
MAX_SUBWORD_PAIRS = 500_000  # subwords are learned from so many pairs at most,
MAX_SUBWORD_CHARACTERS = 50_000_000  # and from so many characters of both sides together

ChunkTexts = tuple[tuple[str, ...], ...]
"""(source lines, target lines) of a chunk"""


@dataclass(frozen=True)
class TokenizedSide:
    """One side of some sentences, split into words.

    "Ein Hund, ein Mann." and "Ein Hund", in lower case, are

        forms           ein  hund  ,  mann  .
        ids             0  1  2  0  3  4    0  1
        lengths         6                   2
        no_space_after  -  x  -  -  x  x    -  x
    """

    ids: NDArray[np.int32]
    """(tokens,): all sentences end to end; word i is forms[ids[i]]"""
    lengths: NDArray[np.int64]
    """(sentences,): how many tokens each sentence has"""
    forms: list[str]
    """the distinct words, in the order in which they first appear"""
    no_space_after: NDArray[np.bool_]
    """(tokens,): True if no space follows the word in the text, also for the last word"""

    def sentences(self) -> Iterator[list[str]]:
        """Yield the words of each sentence."""
        words = [self.forms[index] for index in self.ids.tolist()]
        start = 0
        for length in self.lengths.tolist():
            yield words[start : start + length]
            start += length


Chunk = tuple[ChunkTexts, list[TokenizedSide]]
"""The lines of some sentence pairs, and their words: [source, target]"""


def encode_by_words(
    folder: Path, data: DataConfig, splits: Mapping[str, int], codecs: Codecs | None = None
) -> tuple[Codecs, dict[str, Any]]:
    """Write the ids of every split. Unless codecs are given, learns them from the training split.

    splits: name → number of pairs; their text is in the folder (`Corpus.write`). Returns the codecs, and the manifest's
    entries on tokenisation.
    """
    processes = min(available_cores(), MAX_WORKERS) if splits["train"] > MIN_PAIRS_FOR_WORKERS else 1
    n_restored, references = 0, (target for _, target in read_pairs(folder, "valid"))
    by_spaces = data.tokens == "spaces"
    tokenizer = {"library": "spacy", "version": SPACY_VERSION, "source": data.source, "target": data.target}
    with tokenizing((data.source, data.target, data.lowercased, by_spaces), processes) as tokenize:
        unwritten = dict(splits)
        if codecs is None:
            import_torchtext()  # while the workers start
            pairs = ((nfc_stripped(one), nfc_stripped(other)) for one, other in read_pairs(folder, "train"))
            source, target = _learn_word_codecs(folder, data, tokenize(pairs), unwritten.pop("train"))
        else:
            source, target = (codec for codec in (codecs.source, codecs.target) if isinstance(codec, WordCodec))
        for name, size in unwritten.items():
            pairs = (
                (source.normalizer.normalize(one).text, target.normalizer.normalize(other).text)
                for one, other in read_pairs(folder, name)
            )
            with split_writer(folder, name, size) as write:
                for texts, sides in tokenize(pairs):
                    ids = [
                        np.array(codec.vocabulary.to_ids(side.forms), np.int32)[side.ids]
                        for codec, side in zip((source, target), sides, strict=True)
                    ]
                    write(ids, [side.lengths for side in sides])
                    if name == "valid":
                        for text, words in zip(texts[1], sides[1].sentences(), strict=True):
                            text = lower(text, target.language) if target.lowercase else text
                            is_nfc = unicodedata.is_normalized("NFC", next(references))
                            n_restored += is_nfc and target.detokenizer.detokenize(words) == " ".join(text.split())
    return Codecs(source, target), {
        **({} if by_spaces else {"tokenizer": tokenizer}),
        "detokenizer": {"valid_restored": n_restored / splits["valid"]},
    }


def _learn_word_codecs(
    folder: Path, data: DataConfig, chunks: Iterable[Chunk], size: int
) -> tuple[WordCodec, WordCodec]:
    """Write the ids of the training split, and return the codecs that are learned from it: (source, target)."""
    known: list[dict[str, int]] = [{}, {}]  # for each side: word → provisional id
    if data.joint_vocabulary:
        known[1] = known[0]
    neighbours, n_sentences = [], 0  # of adjacent target tokens: provisional ids, no_space_after
    with split_writer(folder, "train", size) as write:
        for _, sides in chunks:
            ids = [
                np.array([forms.setdefault(form, len(forms)) for form in side.forms], np.int32)[side.ids]
                for forms, side in zip(known, sides, strict=True)
            ]
            write(ids, [side.lengths for side in sides])
            ends = np.cumsum(sides[1].lengths[: DETOKENIZER_SENTENCES - n_sentences])
            if len(ends):
                left = np.delete(np.arange(ends[-1]), ends - 1)  # all tokens but the last of each sentence
                neighbours.append((ids[1][left], ids[1][left + 1], sides[1].no_space_after[left]))
                n_sentences += len(ends)
    left_ids, right_ids, no_space_after = map(np.concatenate, zip(*neighbours, strict=True))
    detokenizer = learn_detokenizer(list(known[1]), left_ids, right_ids, no_space_after)
    paths = [folder / f"train.{side}.ids.npy" for side in SIDES]
    if data.joint_vocabulary:
        source = target = _build_vocabulary("joint", data, known[0], paths)
    else:
        source = _build_vocabulary("source", data, known[0], paths[:1])
        target = _build_vocabulary("target", data, known[1], paths[1:])
    return WordCodec.of(data, "source", source, Detokenizer()), WordCodec.of(data, "target", target, detokenizer)


def _build_vocabulary(name: str, data: DataConfig, forms: Collection[str], paths: Sequence[Path]) -> Vocabulary:
    """Count the provisional ids in some files, make a vocabulary, and replace the provisional ids by its ids.

    forms: the word of each provisional id.
    """
    totals = np.zeros(len(forms), np.int64)
    for path in paths:
        for block in id_blocks(path):
            totals += np.bincount(block, minlength=len(forms))
    counts = dict(zip(forms, totals.tolist(), strict=True))
    vocabulary = Vocabulary.build(counts, min_freq=data.min_freq, max_words=data.max_words)
    n_words = len(vocabulary) - len(SPECIALS)
    if not n_words:
        log.warning("the %s vocabulary is empty: no word occurs %d times; lower data.min_freq", name, data.min_freq)
    if n_words > LARGE_VOCABULARY:
        log.warning(
            "the %s vocabulary has %s words, and the model needs weights for each; set data.max_words to keep the most "
            "frequent ones, or data.tokens: subwords, which needs far fewer",
            name,
            f"{n_words:,}",
        )
    final_ids = np.array(vocabulary.to_ids(forms), np.int32)
    for path in paths:
        for block in id_blocks(path, "r+"):
            block[:] = final_ids[block]
    return vocabulary


@contextmanager
def tokenizing(settings: TokenizerSettings, processes: int) -> Iterator[Callable[[Iterable[Pair]], Iterator[Chunk]]]:
    """Yields a function that tokenises pairs in chunks, in their order.

    If `processes` is 1, this process does the work; otherwise as many worker processes do, which end with the block.
    Raises ConfigError as Tokenizer does (with workers, at the first chunk), and DataError if a worker dies.
    """
    tokenizers: AbstractContextManager[Callable[[Any], Any]] = (
        nullcontext(open_tokenizers(settings))
        if processes == 1
        else worker_processes(open_tokenizers, settings, processes)
    )
    with tokenizers as tokenize, WorkerPool(processes) as threads:  # each thread waits for a worker
        yield lambda pairs: threads.run(lambda texts: (texts, _tokenize_chunk(tokenize, texts)), _text_chunks(pairs))


def _tokenize_chunk(tokenize: Callable[[ChunkTexts], Any], texts: ChunkTexts) -> list[TokenizedSide]:
    """Returns the words of a chunk. Raises DataError if the worker dies or has died."""
    try:
        sides = tokenize(texts)
    except EOFError as how:
        raise DataError(
            f"a process that tokenised {how}; if memory ran out, run it again on fewer cores, for example with "
            "`taskset --cpu-list 0 tfm prepare`"
        ) from None
    return [
        TokenizedSide(
            np.frombuffer(ids, np.int32),
            np.frombuffer(lengths, np.int64),
            forms,
            np.frombuffer(no_space_after, np.bool_),
        )
        for ids, lengths, forms, no_space_after in sides
    ]


def _text_chunks(pairs: Iterable[Pair]) -> Iterator[ChunkTexts]:
    """Yield the source lines and the target lines of PAIRS_PER_CHUNK pairs at a time."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, PAIRS_PER_CHUNK)):
        yield tuple(zip(*chunk, strict=True))


def encode_by_subwords(
    folder: Path, data: DataConfig, splits: Mapping[str, int], codecs: Codecs | None = None
) -> tuple[Codecs, dict[str, Any]]:
    """Write the ids of every split, as `encode_by_words` does.

    Raises ConfigError if data.subwords.vocab_size is too small for the characters of the text.
    """
    if codecs is None:
        sample = sample_pairs(read_pairs(folder, "train"), data, size=splits["train"])
        codecs = Codecs(*_learn_subword_codecs(sample, data)).for_target(data.to)
    source, target = (codec for codec in (codecs.source, codecs.target) if isinstance(codec, SubwordCodec))
    for name, size in splits.items():
        with split_writer(folder, name, size) as write:
            for texts in _text_chunks(read_pairs(folder, name)):
                sides = [codec.encode_lines(lines) for codec, lines in zip((source, target), texts, strict=True)]
                ids = [np.fromiter(chain.from_iterable(side), np.int32) for side in sides]
                write(ids, [np.array([len(line) for line in side], np.int64) for side in sides])
    tokenizer = {"library": "sentencepiece", "version": SENTENCEPIECE_VERSION, "algorithm": data.subwords.algorithm}
    return Codecs(source, target), {"tokenizer": tokenizer}


def sample_pairs(pairs: PairIterator, data: DataConfig, *, size: int) -> list[Pair]:
    """Returns the pairs, normalised; if there are too many, every second one, every fourth one, …

    size: how many pairs there are.
    """
    kept: list[Pair] = []
    every, n_characters = 1, 0
    with progress.bar("learn subwords", size, " sentences") as bar:
        for number, pair in enumerate(pairs):
            bar.update(1)
            if number % every:
                continue
            source, target = map(nfc_stripped, pair)
            if data.lowercased:
                source, target = lower(source, data.source), lower(target, data.target)
            kept.append((source, target))
            n_characters += len(source) + len(target)
            while len(kept) > MAX_SUBWORD_PAIRS or (n_characters > MAX_SUBWORD_CHARACTERS and len(kept) > 1):
                kept = kept[::2]  # 0, 4, 8, … of 0, 2, 4, 6, 8, …
                every *= 2
                n_characters = sum(len(source) + len(target) for source, target in kept)
    return kept


def _learn_subword_codecs(pairs: list[Pair], data: DataConfig) -> tuple[SubwordCodec, SubwordCodec]:
    """Returns the codecs of the source and of the target; with a joint vocabulary they share a SentencePiece model."""
    languages = [data.source, data.target]
    texts: list[Iterable[str]] = [(source for source, _ in pairs), (target for _, target in pairs)]
    if data.joint_vocabulary:
        languages, texts = [" and ".join(languages)], [chain(*texts)]
    settings, models = data.subwords, []
    if settings.algorithm == "imported":
        raise ConfigError(
            "data.subwords.algorithm: imported subwords cannot be learned; set data.tokenizer_from to a run with them"
        )
    for side, (language, text) in enumerate(zip(languages, texts, strict=True)):
        symbols = () if side else settings.user_defined_symbols
        try:
            model = train_subwords(text, vocab_size=settings.vocab_size, algorithm=settings.algorithm, symbols=symbols)
            models.append(model)
        except ConfigError as error:
            raise ConfigError(f"{error} ({language})") from None
    source, target = (
        SubwordCodec(model, data.lowercased, settings.algorithm, language)
        for model, language in ((models[0], data.source), (models[-1], data.target))
    )
    return source, target
