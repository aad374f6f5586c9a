"""Translator: sentences → tokens → ids → search → text, in the order they came. The one road from text to text."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from transformer_cli import progress
from transformer_cli.compute.devices import choose_device
from transformer_cli.data.batching import pad_ids
from transformer_cli.data.vocabulary import EOS, PAD, SOS, UNK
from transformer_cli.data.words import Tokenizer
from transformer_cli.decoding.greedy import Hypothesis, Step, greedy
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.run import Run, find_run

BATCH_POSITIONS = 2048  # padded source positions decoded together


@dataclass(frozen=True)
class Options:
    """How to translate."""

    max_tokens: int | None = None
    """longest translation in tokens (None: 2 × source + 10, or the model's last position)"""
    keep_unk: bool = False
    """leave `<unk>` in the text, instead of the source word that the decoder looks at most"""
    truncate: bool = False
    """cut sentences that are longer than the model's positions, instead of stopping with an error"""


@dataclass(frozen=True)
class Translation:
    """A translated sentence."""

    source: str
    """the sentence as it was given"""
    source_tokens: list[str]
    """what the encoder reads of it: all its tokens, or those that were left when it was cut"""
    text: str
    """plain text, unknown words replaced"""
    tokens: list[str]
    """the decoder's own tokens, `<unk>` kept"""
    log_prob: float
    """log-probability of the tokens"""


class Translator:
    """A trained run, ready to translate."""

    def __init__(self, run: Run, device: torch.device) -> None:
        """Loads the checkpoint of the best validation loss. Raises CheckpointError."""
        self.run = run
        self.device = device
        self.model = run.load_best(device)
        self.tokenizer = Tokenizer(run.config.data.source, lowercase=run.config.data.lowercase)

    @staticmethod
    def load(run: str | Path | None = None, *, device: str = "auto") -> "Translator":
        """By a run's folder, its name under runs/, or (None) the newest run."""
        return Translator(Run.open(find_run(run)), choose_device(device))

    def translate(self, sentences: Sequence[str], options: Options = Options()) -> list[str]:
        """Plain text for plain text; a blank line for a blank line."""
        return [translation.text for translation in self.translations(sentences, options)]

    def translations(
        self, sentences: Sequence[str], options: Options = Options(), *, first_line: int = 1
    ) -> list[Translation]:
        """Translate, with tokens and log-probabilities.

        Raises DataError, its line counted from first_line, at a sentence longer than the model's positions.
        """
        if isinstance(sentences, str):  # a str is a sequence of one-letter sentences
            raise TypeError(f"a list of sentences is wanted, such as [{sentences!r}], not one str")
        words = [self.tokenizer.tokens(sentence) for sentence in sentences]
        words = [self._fitted(tokens, first_line + index, options) for index, tokens in enumerate(words)]
        found: dict[int, Hypothesis] = {}
        with progress.bar("translate", len(words), " sentences") as bar:
            batches = _batches_by_length([len(tokens) for tokens in words])
            decoded = self._decode_all([[words[row] for row in rows] for rows in batches], options)
            for rows, hypotheses in zip(batches, decoded, strict=True):
                found.update(zip(rows, hypotheses, strict=True))
                bar.update(len(rows))
        nothing = Hypothesis([], [], 0.0)
        return [
            self._translation(sentence, words[index], found.get(index, nothing), options)
            for index, sentence in enumerate(sentences)
        ]

    def stream(self, lines: Iterable[str], options: Options = Options(), *, chunk: int) -> Iterator[Translation]:
        """Translate lines as they come, `chunk` at a time: one out for each in, in their order."""
        lines = iter(lines)
        first_line = 1
        while waiting := list(islice(lines, chunk)):
            yield from self.translations(waiting, options, first_line=first_line)
            first_line += len(waiting)

    def _fitted(self, tokens: list[str], line: int, options: Options) -> list[str]:
        limit = self.run.config.model.max_length
        if limit is None or len(tokens) + 2 <= limit:
            return tokens
        if options.truncate:
            return tokens[: limit - 2]
        raise DataError(
            f"line {line}: {len(tokens)} tokens, but the model takes at most {limit - 2} (its {limit} positions less "
            "<sos> and <eos>); split the sentence, or cut it with --truncate"
        )

    def _decode_all(self, batches: Sequence[list[list[str]]], options: Options) -> Iterator[list[Hypothesis]]:
        """Each batch's hypotheses, in order; on the CPU some batches at a time, which share torch's threads.

        The products of a decoding step are small: cut between threads, they would mostly wait for each other.
        """
        threads = torch.get_num_threads()
        workers = min(threads, len(batches)) if self.device.type == "cpu" else 1
        if workers < 2:
            yield from (self._decode(batch, options) for batch in batches)
            return
        try:
            with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
                yield from pool.map(partial(self._decode, options=options), batches)
        finally:
            torch.set_num_threads(threads)  # what the workers set for themselves would be the next new thread's too

    def _decode(self, words: list[list[str]], options: Options) -> list[Hypothesis]:
        source = pad_ids([self.run.source_vocabulary.encode(tokens) for tokens in words]).to(self.device)
        lengths = [options.max_tokens or 2 * len(tokens) + 10 for tokens in words]
        last = self.run.config.model.max_length
        limits = torch.tensor([length if last is None else min(length, last - 2) for length in lengths])
        never = torch.tensor([PAD, SOS], device=self.device)
        with torch.inference_mode():
            return greedy(_Decoding(self.model, source), limits.to(self.device), sos=SOS, eos=EOS, never=never)

    def _translation(self, sentence: str, words: list[str], found: Hypothesis, options: Options) -> Translation:
        tokens = self.run.target_vocabulary.decode(found.tokens)
        written = tokens
        if not options.keep_unk:
            written = [
                words[position - 1] if index == UNK else token  # position 0 is <sos>
                for index, token, position in zip(found.tokens, tokens, found.attended, strict=True)
            ]
        return Translation(sentence, words, self.run.joins.join(written), tokens, found.log_prob)


class _Decoding:
    """A batch being decoded by the Transformer: what search.Decoder asks for."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        self._model = model
        self._cache = model.start(source)
        self._is_word = (source != PAD) & (source != SOS) & (source != EOS)  # (rows, source)

    def step(self, tokens: Tensor) -> Step:
        record: list[Tensor] = []
        logits = self._model.step(tokens, self._cache, record)
        weights = record[0].mean(dim=1)[:, -1]  # all heads of the last layer together: (rows, source)
        return Step(logits, weights.masked_fill(~self._is_word, -1.0).argmax(dim=1))

    def select(self, rows: Tensor) -> None:
        self._cache.select(rows)
        self._is_word = self._is_word[rows]


def _batches_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of the sentences that are not blank, similar lengths together, by a budget of padded positions.

    The longest come first: threads that work on a batch each end at about the same time.
    """
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: lengths[index])
    batches: list[list[int]] = []
    for index in order:  # the newest is the longest: it says how wide the batch is
        if not batches or (len(batches[-1]) + 1) * (lengths[index] + 2) > BATCH_POSITIONS:
            batches.append([])
        batches[-1].append(index)
    return batches[::-1]
