"""BLEU and chrF of plain text against raw references, with their signatures and bootstrap intervals, by sacreBLEU.

References are scored as they were written: they never pass through a vocabulary.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.system.terminal import note

log = logging.getLogger(__name__)

RESAMPLES = 1000  # sacreBLEU's default; 1,000 sentences take about 0.3 s for both scores
MOST_FOR_INTERVALS = 10_000  # sacreBLEU holds all resamples in memory: 0.08 MB for each sentence
CHARACTER_LANGUAGES = {  # sacreBLEU's tokeniser where words have no spaces between them (ko has some)
    **dict.fromkeys(("zh", "yue"), "zh"),  # Chinese characters one by one, other words whole
    **dict.fromkeys(("ja", "ko", "th", "lo", "km", "my", "bo", "dz"), "char"),
}


@dataclass(frozen=True)
class Interval:
    """A 95 % interval, mean ± half_width: the middle 95 % of the scores of random resamples of the sentences."""

    mean: float
    """mean score of the resamples"""
    half_width: float
    """half of the distance between the interval's ends"""


@dataclass(frozen=True)
class Scores:
    """How good translations are, from 0 to 100."""

    bleu: float
    """BLEU of plain text against raw references"""
    bleu_interval: Interval | None
    """sacreBLEU's bootstrap interval; None for more than 10,000 sentences"""
    bleu_signature: str
    bleu_tokens: float
    """BLEU of tokens against tokenised references, as tutorials report it. The tokens are the decoder's own words,
    `<unk>` kept, or where it writes subwords, spaCy's tokens of its text"""
    chrf: float
    """chrF of plain text against raw references"""
    chrf_interval: Interval | None
    """like bleu_interval"""
    chrf_signature: str


@dataclass(frozen=True)
class TokenizedText:
    """Lines of text, and the tokens of each."""

    lines: Sequence[str]
    tokens: Sequence[Sequence[str]]


def score(hypotheses: TokenizedText, references: TokenizedText, *, language: str, lowercase: bool) -> Scores:
    """Score hypotheses against references, line by line. `bleu_tokens` compares tokens, the other scores compare text.

    language: the language of the text, for sacreBLEU's tokeniser. lowercase: whether scores of text ignore case.
    """
    from sacrebleu.metrics.bleu import BLEU

    note("scoring")
    metrics = text_metrics(language=language, lowercase=lowercase)
    _resample_in_floats(metrics["chrF"])
    n_bootstrap = RESAMPLES
    if len(references.lines) > MOST_FOR_INTERVALS:
        log.warning("%d sentences: no bootstrap interval for more than %d", len(references.lines), MOST_FOR_INTERVALS)
        n_bootstrap = 1
    bleu, chrf = (
        metric.corpus_score(hypotheses.lines, [references.lines], n_bootstrap=n_bootstrap)
        for metric in metrics.values()
    )
    own_tokens, reference_tokens = ([" ".join(line) for line in each.tokens] for each in (hypotheses, references))
    return Scores(
        bleu=bleu.score,
        bleu_interval=_interval(bleu, n_bootstrap),
        bleu_signature=str(metrics["BLEU"].get_signature()),
        bleu_tokens=BLEU(tokenize="none", force=True).corpus_score(own_tokens, [reference_tokens]).score,
        chrf=chrf.score,
        chrf_interval=_interval(chrf, n_bootstrap),
        chrf_signature=str(metrics["chrF"].get_signature()),
    )


def bleu_of_text(texts: Sequence[str], references: Sequence[str], *, lowercase: bool, language: str = "en") -> float:
    """Returns only the BLEU of plain text."""
    return float(text_metrics(language=language, lowercase=lowercase)["BLEU"].corpus_score(texts, [references]).score)


def text_metrics(*, language: str, lowercase: bool, references: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns sacreBLEU's metrics of plain text under their names, BLEU and chrF.

    references: those that every system will be scored against, if they are known already; read only once.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    known = [references] if references is not None else None
    tokenizer = CHARACTER_LANGUAGES.get(language, "13a")
    return {
        "BLEU": BLEU(lowercase=lowercase, tokenize=tokenizer, references=known),
        "chrF": CHRF(lowercase=lowercase, references=known),
    }


def sentence_chrf(texts: Sequence[str], references: Sequence[str], *, lowercase: bool) -> list[float]:
    """Returns the chrF of each sentence by itself; unlike BLEU, it is not 0 for lack of four equal words in a row."""
    metric = text_metrics(language="en", lowercase=lowercase)["chrF"]
    return [
        float(metric.sentence_score(*pair).score) for pair in zip(texts, ([each] for each in references), strict=True)
    ]


def _resample_in_floats(chrf: Any) -> None:
    """sacreBLEU 2.6 takes the mean of chrF's resamples, but those that score 0 are float and the others are float32,
    which Python's `statistics` does not mix."""
    compute = chrf._compute_f_score
    chrf._compute_f_score = lambda statistics: float(compute(statistics))


def _interval(score: Any, n_bootstrap: int) -> Interval | None:
    return Interval(float(score._mean), float(score._ci)) if n_bootstrap > 1 else None
