"""Translator: text → ids → search → text, in the order of the sentences. The only way from text to text.

Knows nothing of tables or pictures.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer_cli import progress
from transformer_cli.compute.devices import choose_device
from transformer_cli.compute.threads import SideBySide
from transformer_cli.data.codec import Encoded
from transformer_cli.data.lengths import fits, groups_by_length
from transformer_cli.data.specials import MARKERS
from transformer_cli.decoding.decoder import decode
from transformer_cli.decoding.interface import Hypothesis
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError
from transformer_cli.runs.checkpoints import load_best
from transformer_cli.runs.run import Run, find_run

BATCH_POSITIONS = 2048  # padded source positions decoded together


@dataclass(frozen=True)
class Options:
    """What text goes in and comes out. SearchSettings says how a translation is searched for."""

    keep_unk: bool = False
    """leave `<unk>` in the text, instead of the source word that the decoder attends to most"""
    truncate: bool = False
    """cut sentences that are longer than the model's positions, instead of stopping with an error"""
    keep_attention: bool = False
    """let each translation carry its attention weights"""


@dataclass(frozen=True)
class Translation:
    """A translated sentence."""

    source: str
    """the sentence as it was given"""
    source_tokens: list[str]
    """the tokens that the encoder reads: all of them, or those that are left if the sentence was cut"""
    text: str
    """plain text, unknown words replaced"""
    tokens: list[str]
    """the decoder's own tokens, `<unk>` kept"""
    log_prob: float
    """log-probability of the tokens"""
    source_ids: list[int]
    """the ids of the source tokens, without <sos> and <eos>"""
    ids: list[int]
    """the ids of the decoder's tokens, without <sos> and <eos>"""
    attention: Tensor | None = None
    """(heads, steps, source with <sos> and <eos>): the last layer's attention weights while it read <sos>, then each
    token; None unless `Options.keep_attention` is set and the sentence is not blank"""


class Translator:
    """A trained run, ready to translate."""

    def __init__(self, run: Run, device: torch.device, *, batches_at_a_time: int | None = None) -> None:
        """Loads the checkpoint with the best validation loss. Raises CheckpointError.

        batches_at_a_time: how many batches are decoded side by side (None: on the CPU one for each of torch's threads,
        elsewhere one). The products of a decoding step are small: if one were split between threads, these would mostly
        wait.
        """
        self.run = run
        self.device = device
        self.model = load_best(run, device)
        self.batches_at_a_time = batches_at_a_time or (torch.get_num_threads() if device.type == "cpu" else 1)

    @staticmethod
    def load(run: str | Path | None = None, *, device: str = "auto") -> "Translator":
        """Load a run by its folder or its name under runs/, or (None) the newest run."""
        return Translator(Run.open(find_run(run)), choose_device(device))

    def translate(
        self, sentences: Sequence[str], options: Options = Options(), settings: SearchSettings = SearchSettings()
    ) -> list[str]:
        """Returns the translation of each sentence as plain text; the translation of a blank line is empty."""
        return [translation.text for translation in self.translations(sentences, options, settings)]

    def translations(
        self,
        sentences: Sequence[str],
        options: Options = Options(),
        settings: SearchSettings = SearchSettings(),
        *,
        first_line: int = 1,
    ) -> list[Translation]:
        """Returns the translation of each sentence, with tokens and log-probability.

        Raises DataError for a sentence longer than the model's positions; it names the line, counted from first_line.
        """
        if isinstance(sentences, str):  # a str is a sequence of one-letter sentences
            raise TypeError(f"expected a list of sentences, such as [{sentences!r}], not one str")
        encoded = [self.run.codecs.source.encode(sentence) for sentence in sentences]
        return self.translate_encoded(sentences, encoded, options, settings, first_line=first_line)

    def translate_encoded(
        self,
        sentences: Sequence[str],
        encoded: Sequence[Encoded],
        options: Options = Options(),
        settings: SearchSettings = SearchSettings(),
        *,
        first_line: int = 1,
    ) -> list[Translation]:
        """Like `translations`, for sentences that the run's source codec has encoded already."""
        read = [self._fitted(line, first_line + index, options) for index, line in enumerate(encoded)]
        lengths = np.array([len(line) for line in read], dtype=np.int64)
        wordy = np.flatnonzero(lengths)  # a blank line stays blank
        batches = [wordy[group] for group in groups_by_length(lengths[wordy], BATCH_POSITIONS)]
        batches.reverse()  # the longest first, so that batches decoded side by side end at about the same time
        found: dict[int, Hypothesis] = {}
        with progress.bar("translate", len(read), " sentences") as bar:
            decoded = self._decode_all([[read[row].ids for row in rows] for rows in batches], options, settings)
            for rows, hypotheses in zip(batches, decoded, strict=True):
                found.update(zip(rows.tolist(), [best for best, *_ in hypotheses], strict=True))
                bar.update(len(rows))
        nothing = Hypothesis([], [], 0.0, 0.0)
        return [
            self._translation(sentence, read[index], found.get(index, nothing), options)
            for index, sentence in enumerate(sentences)
        ]

    def stream(
        self,
        lines: Iterable[str],
        options: Options = Options(),
        settings: SearchSettings = SearchSettings(),
        *,
        chunk: int,
    ) -> Iterator[Translation]:
        """Translate lines as they come, `chunk` at a time. Yields one translation per line, in their order."""
        lines = iter(lines)
        first_line = 1
        while waiting := list(islice(lines, chunk)):
            yield from self.translations(waiting, options, settings, first_line=first_line)
            first_line += len(waiting)

    def _fitted(self, line: Encoded, number: int, options: Options) -> Encoded:
        limit = self.run.config.model.max_length
        if limit is None or fits(len(line), limit):
            return line
        if options.truncate:
            return line.first(limit - MARKERS)
        raise DataError(
            f"line {number}: {len(line)} tokens, but the model takes at most {limit - MARKERS} (its {limit} positions "
            "minus <sos> and <eos>); split the sentence, or cut it with --truncate"
        )

    def _decode_all(
        self, batches: Sequence[list[list[int]]], options: Options, settings: SearchSettings
    ) -> Iterator[list[list[Hypothesis]]]:
        """Yield each batch's hypotheses, in order. Several batches are decoded at a time and share torch's threads."""
        decode_one = partial(decode, [self.model], settings=settings, keep_attention=options.keep_attention)
        with SideBySide(min(self.batches_at_a_time, len(batches)) or 1) as workers:
            yield from workers.run(decode_one, batches)

    def _translation(self, sentence: str, read: Encoded, found: Hypothesis, options: Options) -> Translation:
        target = self.run.codecs.target
        attended = (
            None if options.keep_unk else [read.tokens[position - 1] for position in found.attended]
        )  # position 0 is <sos>
        return Translation(
            source=sentence,
            source_tokens=read.tokens,
            text=target.text(found.tokens, instead=attended),
            tokens=target.tokens(found.tokens),
            log_prob=found.log_prob,
            source_ids=read.ids,
            ids=found.tokens,
            attention=found.attention,
        )
