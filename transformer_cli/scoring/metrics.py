"""BLEU, chrF, chrF++ and TER of plain text against raw references, with bootstrap intervals (sacreBLEU)."""

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.errors import ConfigError
from transformer_cli.system.arguments import as_list
from transformer_cli.system.terminal import show_status
from transformer_cli.text.lines import trigrams
from transformer_cli.text.normalization import primary_subtag

log = logging.getLogger(__name__)

METRICS = ("BLEU", "chrF")  # computed always, in this order
EXTRA_METRICS = {"chrf++": "chrF++", "ter": "TER"}  # the name as an argument → in tables; computed on request
RESAMPLES = 1000  # sacreBLEU's default; 1,000 sentences take about 0.3 s for both scores
MAX_NOT_NFC = 0.01  # share of references; for more, a warning
MIN_COMPARED_LINES, MAX_COMPARED_LINES = 10, 1_000  # of translations with sources and references
MAX_SIMILARITY = 1.5  # to the sources, as a multiple of that to the references: 0.5 if all is right, 1.7 if swapped
MIN_TOKENISED_LINES = 100  # lines that end in " ."
MAX_INTERVAL_SENTENCES = 10_000  # sacreBLEU holds all resamples in memory: 0.08 MB for each sentence
CHARACTER_LANGUAGES = {  # sacreBLEU's tokeniser for languages without spaces (ko has some)
    # Chinese characters one by one, other words whole
    **dict.fromkeys(("zh", "yue", "lzh", "wuu", "nan", "hak", "gan", "hsn", "cdo", "cjy", "mnp"), "zh"),
    **dict.fromkeys(("ja", "ko", "th", "lo", "km", "my", "bo", "dz", "shn", "ksw", "mnw", "nod", "khb"), "char"),
}


@dataclass(frozen=True)
class Interval:
    """A 95 % interval, mean ± half_width: the middle 95 % of the scores of random resamples of the sentences."""

    mean: float
    half_width: float


@dataclass(frozen=True)
class TextScore:
    """The score of one metric."""

    score: float
    """from 0 to 100; TER is edits per 100 words of the references, so lower is better"""
    interval: Interval | None
    """sacreBLEU's bootstrap interval; None for more than 10,000 sentences"""
    signature: str


@dataclass(frozen=True)
class BleuScore(TextScore):
    """BLEU: the geometric mean of the precisions, times the brevity penalty."""

    brevity_penalty: float
    """exp(1 - 1 / length_ratio), at most 1"""
    length_ratio: float
    """tokens of the translations per token of the references"""
    precisions: list[float]
    """the percentage of n-grams of 1, 2, 3 and 4 tokens that are in the references"""


def score_text(
    texts: Sequence[str], *references: Sequence[str], language: str, lowercase: bool, extra_metrics: Iterable[str] = ()
) -> dict[str, TextScore]:
    """Returns metric → score, for METRICS and then extra_metrics.

    references: one or several lists with as many lines as texts. language: the language of texts, for sacreBLEU's
    tokeniser. lowercase: ignore case. extra_metrics: names from EXTRA_METRICS.
    """
    show_status("scoring")
    metrics = text_metrics(language=language, lowercase=lowercase, extra_metrics=extra_metrics)
    n_bootstrap = RESAMPLES
    if len(texts) > MAX_INTERVAL_SENTENCES:
        log.warning("%d sentences: no bootstrap interval for more than %d", len(texts), MAX_INTERVAL_SENTENCES)
        n_bootstrap = 1
    # sacreBLEU 2.6 passes chrF's resamples to Python's `statistics`, which cannot mix float (a score of 0) and float32
    # (all others). So this replaces the objects' method by one that always returns float.
    for metric in metrics.values():
        if f_score := getattr(metric, "_compute_f_score", None):
            metric._compute_f_score = lambda statistics, f_score=f_score: float(f_score(statistics))
    found: dict[str, TextScore] = {}
    for name, metric in metrics.items():
        score = metric.corpus_score(texts, references, n_bootstrap=n_bootstrap)
        interval = Interval(float(score._mean), float(score._ci)) if n_bootstrap > 1 else None
        common = float(score.score), interval, str(metric.get_signature())
        is_bleu = name == "BLEU"
        found[name] = BleuScore(*common, score.bp, score.ratio, score.precisions) if is_bleu else TextScore(*common)
    return found


def parse_metrics(names: str | Iterable[str]) -> list[str]:
    """Returns those of EXTRA_METRICS that are named, each once. "BLEU" and "chrF" are accepted, too.

    names: in upper or lower case; a str is one name. Raises ConfigError for an unknown name.
    """
    known = [*map(str.lower, METRICS), *EXTRA_METRICS]
    wanted = {str(name).lower(): name for name in as_list(names)}
    if unknown := [name for lower, name in wanted.items() if lower not in known]:
        raise ConfigError(f"no metric {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in wanted if name in EXTRA_METRICS]


def warn_about_text(
    texts: Sequence[str], references: Sequence[str], name: str, language: str = "en", sources: Sequence[str] = ()
) -> None:
    """Warn of text whose scores mean little: sources that seem to be the references, accents encoded in two ways, …

    name: the text's name in messages. sources: of the texts, if known.
    """
    written, *sides = (trigrams(lines[:MAX_COMPARED_LINES]) for lines in (texts, sources, references))
    of_sources, of_references = (len(written & side) for side in sides)
    if len(texts) >= MIN_COMPARED_LINES and of_sources > MAX_SIMILARITY * of_references:
        what = "%s: the translations look more like the sources than like the references; are these two swapped?"
        log.warning(what, name)
    tokenized = text_metrics(language=language, lowercase=False)["BLEU"].tokenizer
    if not any(len(tokenized(line).split()) > 3 for line in texts):
        log.warning("%s: no line has four tokens, so BLEU, which needs 4-grams, is 0; use chrF", name)
    are_nfc = ([unicodedata.is_normalized("NFC", line) for line in lines] for lines in (texts, references))
    if differing := [n for n, (one, other) in enumerate(zip(*are_nfc, strict=True), start=1) if one != other]:
        what = (
            "%s: %d of %d lines differ from their references in Unicode form (NFC or not), first in line %d, so that "
            "accents count as mistakes; convert both to NFC, for example with `uconv -x any-nfc`"
        )
        log.warning(what, name, len(differing), len(references), differing[0])
    n_cut = sum(line.endswith(" .") for line in texts)
    if n_cut >= MIN_TOKENISED_LINES:
        what = "%s: %d lines end in a space and a full stop, like tokenised text; detokenise it first"
        log.warning(what, name, n_cut)


def warn_if_not_nfc(references: Iterable[str], name: str) -> None:
    """Warn of references that models cannot write exactly, since they are trained on NFC. name: that of the text."""
    are_nfc = [unicodedata.is_normalized("NFC", line) for line in references]
    if (n := are_nfc.count(False)) > MAX_NOT_NFC * len(are_nfc):
        what = (
            "%s: %d of %d references are not in NFC, the Unicode form that models write; evaluate, which scores raw "
            "text, counts that as mistakes (training brings both sides to NFC); convert them with `uconv -x any-nfc`"
        )
        log.warning(what, name, n, len(are_nfc))


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
    """Returns sacreBLEU's metrics by name: METRICS and the requested EXTRA_METRICS.

    references: of all systems, if known already, so that they are processed only once. TER always ignores case, as
    sacreBLEU's command line does; for Chinese and Japanese it counts characters instead of words.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    tokenizer = CHARACTER_LANGUAGES.get(primary_subtag(language), "13a")
    # force: no warning of tokenised text, since `warn_about_text` has its own
    bleu = BLEU(lowercase=lowercase, tokenize=tokenizer, references=references, force=True)
    metrics = dict(zip(METRICS, (bleu, CHRF(lowercase=lowercase, references=references)), strict=True))
    for name in parse_metrics(extra_metrics):
        if name == "ter":
            is_asian = tokenizer == "zh" or primary_subtag(language) == "ja"  # sacreBLEU splits it into characters
            metrics[name] = TER(normalized=is_asian, asian_support=is_asian, references=references)
        else:
            metrics[name] = CHRF(word_order=2, lowercase=lowercase, references=references)
    return metrics


def nonblank_rows(*columns: Sequence[str]) -> list[int]:
    """Returns the indices of rows with text in any column; rows without would widen the intervals."""
    return [row for row, each in enumerate(zip(*columns, strict=True)) if "".join(each).strip()]
