"""How likely a model finds translations that are given: log-probability, tokens and perplexity of each line."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from transformer_cli.data.codec import Encoded
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.data.lengths import fits
from transformer_cli.data.lines import out_of_step, read_lines
from transformer_cli.data.vocabulary import MARKERS, UNK
from transformer_cli.errors import DataError
from transformer_cli.evaluation.evaluate import is_judged, losses_by
from transformer_cli.evaluation.losses import perplexity
from transformer_cli.system.terminal import counted
from transformer_cli.translator import Translator

log = logging.getLogger(__name__)

CHUNK = 1000  # lines that are in memory at a time


@dataclass(frozen=True)
class LineScore:
    """A line and its translation under a model. Its fields are the keys of `tfm score --json`."""

    source: str
    target: str
    log_prob: float
    """of the target's tokens and <eos>, given the source, in nats"""
    tokens: int
    """the target's tokens, <eos> included; 0 if both sides are blank, because a blank line is never translated"""
    ppl: float
    """exp(-log_prob / tokens)"""


def score_files(translator: Translator, source: Path, target: Path) -> Iterator[LineScore]:
    """Yield the score of each line of two files, in their order, and log the perplexity of them all.

    Words that the vocabulary lacks are scored as <unk>; a warning counts them. Raises DataError for files that differ
    in their number of lines, and for a line that is longer than the model's positions.
    """
    n_lines = n_tokens = 0
    log_prob = 0.0
    for each in score_pairs(translator, _pairs(source, target), names=(str(source), str(target))):
        n_lines, n_tokens, log_prob = n_lines + 1, n_tokens + each.tokens, log_prob + each.log_prob
        yield each
    if n_tokens:
        ppl = perplexity(-log_prob / n_tokens)
        counts = f"{counted(n_lines, 'line')}, {counted(n_tokens, 'token')}"
        log.info("%s: %s, perplexity %.3f", target, counts, ppl)


def score_pairs(
    translator: Translator, pairs: Iterable[tuple[str, str]], *, names: tuple[str, str] = ("source", "target")
) -> Iterator[LineScore]:
    """Yield the score of each sentence and its translation. names: what errors call the two sides."""
    pairs = iter(pairs)
    n_tokens = n_unknown = first = 0
    while chunk := list(islice(pairs, CHUNK)):
        codecs = translator.run.codecs
        sources = [codecs.source.encode(source) for source, _ in chunk]
        targets = [codecs.target.encode(target) for _, target in chunk]
        for side, lines in zip(names, (sources, targets), strict=True):
            _check_lengths(lines, translator.max_length, side, first)
        yield from _score(translator, chunk, sources, targets)
        first += len(chunk)
        n_tokens += sum(map(len, targets))
        n_unknown += sum(line.ids.count(UNK) for line in targets)
    if n_unknown:
        log.warning("%s: %d of %d tokens are unknown: scored as <unk>", names[1], n_unknown, n_tokens)


def _score(
    translator: Translator, chunk: Sequence[tuple[str, str]], sources: Sequence[Encoded], targets: Sequence[Encoded]
) -> list[LineScore]:
    split = EncodedSplit(Side.of([line.ids for line in sources]), Side.of([line.ids for line in targets]))
    rows = np.flatnonzero(is_judged(split))
    log_probs, tokens = np.zeros(len(chunk)), np.zeros(len(chunk), dtype=np.int64)
    if len(rows):
        losses = losses_by(translator, split, rows)
        log_probs[rows], tokens[rows] = -losses.nll, losses.tokens
    return [
        LineScore(source, target, log_prob, n_tokens, perplexity(-log_prob / max(n_tokens, 1)))
        for (source, target), log_prob, n_tokens in zip(chunk, log_probs.tolist(), tokens.tolist(), strict=True)
    ]


def _check_lengths(lines: Sequence[Encoded], limit: int | None, side: str, first: int) -> None:
    for number, line in enumerate(lines, start=first + 1):
        if limit is not None and not fits(len(line), limit):
            raise DataError(
                f"{side}: line {number}: {len(line)} tokens, but the model takes at most {limit - MARKERS} (its "
                f"{limit} positions minus <sos> and <eos>); a part of a line would get a false score: take the line out"
            )


def _pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    for one, other in zip_longest(read_lines(source), read_lines(target)):
        if one is None or other is None:
            raise out_of_step(source, target)
        yield one, other
