"""BLEU and chrF of plain text against raw references, with their signatures and bootstrap intervals, by sacreBLEU.

References are scored as they were written: they never pass through a vocabulary.
"""

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.errors import ConfigError
from transformer_cli.system.arguments import as_list
from transformer_cli.system.terminal import show_status
from transformer_cli.text.normalization import primary_subtag

log = logging.getLogger(__name__)

METRICS = ("BLEU", "chrF")  # of plain text, in the order in which scores are returned
EXTRA_METRICS = {"chrf++": "chrF++", "ter": "TER"}  # by their names as arguments; found only where asked for
RESAMPLES = 1000  # sacreBLEU's default; 1,000 sentences take about 0.3 s for both scores
MIN_TOKENISED_LINES = 100  # lines that end in " ."
MAX_INTERVAL_SENTENCES = 10_000  # sacreBLEU holds all resamples in memory: 0.08 MB for each sentence
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
class TextScore:
    """What one metric finds of plain text against raw references."""

    score: float
    """from 0 to 100; TER in edits per 100 words of the references, so that less is better"""
    interval: Interval | None
    """sacreBLEU's bootstrap interval; None for more than 10,000 sentences"""
    signature: str


@dataclass(frozen=True)
class BleuScore(TextScore):
    """BLEU, and what it is made of: the geometric mean of the precisions, times the brevity penalty."""

    brevity_penalty: float
    """exp(1 - 1 / length_ratio), or 1 if translations are not shorter than references"""
    length_ratio: float
    """how many tokens translations have for each one of the references"""
    precisions: list[float]
    """how many of 100 n-grams of 1, 2, 3 and 4 tokens are in the references"""


def score_text(
    texts: Sequence[str], *references: Sequence[str], language: str, lowercase: bool, extra_metrics: Iterable[str] = ()
) -> dict[str, TextScore]:
    """Returns what each of METRICS finds of plain text against raw references, line by line, by its name.

    references: one or several, each with a line for each text. language: that of the text, for sacreBLEU's tokeniser.
    lowercase: whether scores ignore case. extra_metrics: names of EXTRA_METRICS, whose scores follow.
    """
    show_status("scoring")
    metrics = text_metrics(language=language, lowercase=lowercase, extra_metrics=extra_metrics)
    n_bootstrap = RESAMPLES
    if len(texts) > MAX_INTERVAL_SENTENCES:
        log.warning("%d sentences: no bootstrap interval for more than %d", len(texts), MAX_INTERVAL_SENTENCES)
        n_bootstrap = 1
    # sacreBLEU 2.6 takes the mean of chrF's resamples, but those that score 0 are float and the others are float32,
    # which Python's `statistics` does not mix. It has no argument for this, so the method of these objects changes.
    for metric in metrics.values():
        if f_score := getattr(metric, "_compute_f_score", None):
            metric._compute_f_score = lambda statistics, f_score=f_score: float(f_score(statistics))
    found: dict[str, TextScore] = {}
    for name, metric in metrics.items():
        score = metric.corpus_score(texts, references, n_bootstrap=n_bootstrap)
        interval = Interval(float(score._mean), float(score._ci)) if n_bootstrap > 1 else None
        same = float(score.score), interval, str(metric.get_signature())
        is_bleu = name == "BLEU"
        found[name] = BleuScore(*same, score.bp, score.ratio, score.precisions) if is_bleu else TextScore(*same)
    return found


def parse_metrics(names: str | Iterable[str]) -> list[str]:
    """Returns which of EXTRA_METRICS are named, each once. BLEU and chrF, which are always found, may be named, too.

    names: in upper or lower case; a str is one name. Raises ConfigError for a name that no metric has.
    """
    known = [*map(str.lower, METRICS), *EXTRA_METRICS]
    wanted = {str(name).lower(): name for name in as_list(names)}
    if unknown := [name for lower, name in wanted.items() if lower not in known]:
        raise ConfigError(f"no metric {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in wanted if name in EXTRA_METRICS]


def warn_about_text(texts: Sequence[str], references: Sequence[str], name: str, language: str = "en") -> None:
    """Warn of what makes scores mean less: accents written in two ways, text that was cut into tokens, short lines.

    texts: what is scored, line by line; name: what it is called; language: that of the text.
    """
    tokenized = text_metrics(language=language, lowercase=False)["BLEU"].tokenizer
    if not any(len(tokenized(line).split()) > 3 for line in texts):
        log.warning("%s: no line has four tokens, so BLEU, which counts four in a row, is 0; look at chrF", name)
    differing = [
        number
        for number, pair in enumerate(zip(texts, references, strict=True), start=1)
        if len({unicodedata.is_normalized("NFC", line) for line in pair}) > 1
    ]
    if differing:
        what = (
            "%s: %d of %d lines are in Unicode's composed form (NFC), and their references are not, or the other way "
            "round, the first in line %d: an accent then counts as a mistake; bring both into one form, for example "
            "with `uconv -x any-nfc`"
        )
        log.warning(what, name, len(differing), len(references), differing[0])
    n_cut = sum(line.endswith(" .") for line in texts)
    if n_cut >= MIN_TOKENISED_LINES:
        what = "%s: %d lines end in a full stop after a space: BLEU is for plain text; put its tokens together first"
        log.warning(what, name, n_cut)


def bleu_of_tokens(
    lines: Sequence[Sequence[str]], *references: Sequence[Sequence[str]], lowercase: bool = False
) -> float:
    """Returns BLEU of tokens against tokenised references, as tutorials report it."""
    from sacrebleu.metrics.bleu import BLEU

    texts, *wanted = (list(map(" ".join, each)) for each in (lines, *references))
    return float(BLEU(lowercase=lowercase, tokenize="none", force=True).corpus_score(texts, wanted).score)


def text_metrics(
    *,
    language: str,
    lowercase: bool,
    references: Sequence[Sequence[str]] | None = None,
    extra_metrics: Iterable[str] = (),
) -> dict[str, Any]:
    """Returns sacreBLEU's metrics of plain text by name: METRICS, and those of EXTRA_METRICS that are asked for.

    references: those that every system will be scored against, if they are known already; read only once. TER ignores
    case by itself, as sacreBLEU's command line does; of Chinese and Japanese it counts characters, not words.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    tokenizer = CHARACTER_LANGUAGES.get(primary_subtag(language), "13a")
    bleu = BLEU(lowercase=lowercase, tokenize=tokenizer, references=references, force=True)  # `warn_about_text` warns
    metrics = dict(zip(METRICS, (bleu, CHRF(lowercase=lowercase, references=references)), strict=True))
    for name in parse_metrics(extra_metrics):
        if name == "ter":
            is_asian = primary_subtag(language) in ("zh", "yue", "ja")  # of which sacreBLEU knows the characters
            metrics[name] = TER(normalized=is_asian, asian_support=is_asian, references=references)
        else:
            metrics[name] = CHRF(word_order=2, lowercase=lowercase, references=references)
    return metrics


def nonblank_rows(*columns: Sequence[str]) -> list[int]:
    """Returns the rows in which a text or its translation says anything; a blank pair would widen the intervals."""
    return [row for row, each in enumerate(zip(*columns, strict=True)) if "".join(each).strip()]


def sentence_chrf(texts: Sequence[str], *references: Sequence[str], lowercase: bool) -> list[float]:
    """Returns the chrF of each sentence by itself; unlike BLEU, it is not 0 for lack of four equal words in a row."""
    metric = text_metrics(language="en", lowercase=lowercase)["chrF"]
    rows = zip(texts, *references, strict=True)
    return [float(metric.sentence_score(text, own).score) for text, *own in rows]
