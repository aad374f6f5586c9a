"""How likely a model finds translations that are given: log-probability, tokens and perplexity of each line."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from transformer_cli.datasets.dataset import EncodedSplit, Side
from transformer_cli.errors import ArgumentError, DataError
from transformer_cli.evaluation.evaluate import is_judged, losses_by, say_other_code
from transformer_cli.evaluation.losses import perplexity, perplexity_text
from transformer_cli.system.arguments import check, checked
from transformer_cli.system.terminal import counted
from transformer_cli.text.lines import out_of_step, read_lines, refuse_halves
from transformer_cli.text.vocabulary import MARKERS, UNK
from transformer_cli.translator import AnyRun, Translator

log = logging.getLogger(__name__)

CHUNK = 1000  # lines that are in memory at a time


@dataclass(frozen=True)
class LineScore:
    """A line and its translation under a model. Its fields are the keys of `tfm score --json`."""

    source: str
    target: str
    log_prob: float
    """of the target's tokens and <eos>, given the source, in nats; what translations let pass has no tokens"""
    tokens: int
    """the target's tokens, <eos> included; 0 if both sides are blank, because a blank line is never translated"""
    ppl: float
    """exp(-log_prob / tokens)"""


def score_files(translator: Translator, source: Path, target: Path) -> Iterator[LineScore]:
    """Yield the score of each line of two files, as `score_pairs` does.

    Raises DataError also for files that differ in their number of lines.
    """

    def pairs() -> Iterator[tuple[str, str]]:
        for one, other in zip_longest(read_lines(source), read_lines(target)):
            if one is None or other is None:
                raise out_of_step(source, target)
            yield one, other

    return score_pairs(translator, pairs(), names=(str(source), str(target)))


@checked
def score_pairs(
    run: AnyRun | None, pairs: Iterable[Sequence[str]], *, names: tuple[str, str] = ("source", "target")
) -> Iterator[LineScore]:
    """Yield the score of each sentence and its translation, and log the perplexity of them all.

    run: a run's name or folder, or None for the newest; or what is open already. pairs: (sentence, translation), which
    are read as the scores are. Words that the vocabulary lacks are scored as <unk>; a warning counts them. names: what
    is said of the two sides. Raises DataError for a line that is longer than the model's positions.
    """
    translator = Translator.of(run)
    say_other_code(translator)
    codecs, limit = translator.run.codecs, translator.max_length
    pairs = iter(pairs)
    n_lines = n_tokens = n_words = n_unknown = 0
    total = 0.0
    while chunk := list(islice(pairs, CHUNK)):
        sides = []
        check(score_pairs, {"pairs": chunk}, first=n_lines)
        for number, pair in enumerate(chunk, start=n_lines):
            if len(pair) != 2:
                raise ArgumentError(f"score_pairs: pairs, item {number}: {pair!r}, where two texts are wanted")
        for name, codec, texts in zip(names, (codecs.source, codecs.target), zip(*chunk, strict=True), strict=True):
            for number, text in enumerate(texts, start=n_lines + 1):
                refuse_halves(text, f"{name}: line {number}: ")
            encoded = [translator.wording.encode(text, codec) for text in texts]
            for number, line in enumerate(encoded, start=n_lines + 1):
                if limit is not None and len(line) + MARKERS > limit:
                    raise DataError(
                        f"{name}: line {number}: {len(line)} tokens, but the model takes at most {limit - MARKERS} "
                        f"(its {limit} positions minus <sos> and <eos>); a part of a line would get a false score: "
                        "take the line out"
                    )
            sides.append([line.ids for line in encoded])
        split = EncodedSplit(*map(Side.of, sides))
        rows = np.flatnonzero(is_judged(split))
        losses = losses_by(translator, split, rows)
        log_probs, tokens = np.zeros(len(chunk)), np.zeros(len(chunk), dtype=np.int64)
        log_probs[rows], tokens[rows] = -losses.nll, losses.tokens
        for pair, log_prob, count in zip(chunk, log_probs.tolist(), tokens.tolist(), strict=True):
            total += log_prob
            yield LineScore(pair[0], pair[1], log_prob, count, perplexity(-log_prob / max(count, 1)))
        n_lines += len(chunk)
        n_tokens += int(tokens.sum())
        n_words += len(split.target.ids)
        n_unknown += sum(ids.count(UNK) for ids in sides[1])
    if n_unknown:
        log.warning("%s: %d of %d tokens are unknown: scored as <unk>", names[1], n_unknown, n_words)
    if n_tokens:
        counts = f"{counted(n_lines, 'line')}, {counted(n_tokens, 'token')}"
        log.info("%s: %s, perplexity %s", names[1], counts, perplexity_text(perplexity(-total / n_tokens)))
