"""Whether the texts of two systems differ in quality by more than chance: sacreBLEU's two paired tests.

Each system is compared with the first. The figures are those of sacreBLEU's own command line, with its seed (12345, or
SACREBLEU_SEED). Knows texts, not where they come from.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.evaluation.metrics import MOST_FOR_INTERVALS, Interval, text_metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Difference:
    """How a system's score differs from the first system's."""

    points: float
    """its score minus the first system's"""
    p_bootstrap: float | None
    """how often chance alone makes such a difference, by paired bootstrap resampling (Koehn 2004), 1,000 resamples;
    None if the scores are equal: sacreBLEU finds p = 0.001 for a system beside itself"""
    p_randomization: float | None
    """the same by approximate randomisation (Riezler and Maxwell 2005), 10,000 shuffles"""

    @property
    def p(self) -> float | None:
        """The larger of the two."""
        if self.p_bootstrap is None or self.p_randomization is None:
            return None
        return max(self.p_bootstrap, self.p_randomization)


@dataclass(frozen=True)
class PairedScore:
    """A system's score by one metric, from 0 to 100."""

    score: float
    interval: Interval
    difference: Difference | None
    """None for the first system"""


@dataclass(frozen=True)
class PairedTests:
    """What the tests found, for each metric: BLEU and chrF."""

    signatures: dict[str, list[str]]
    """sacreBLEU's signatures of the paired bootstrap and of approximate randomisation"""
    scores: dict[str, list[PairedScore]]
    """one for each system"""


def paired_tests(
    systems: Sequence[Sequence[str]], references: Sequence[str], *, language: str, lowercase: bool
) -> PairedTests:
    """Compare the first system's text with each other's, by both tests.

    systems: for each system its lines, as many as there are references. language, lowercase: as in `score`.
    """
    from sacrebleu.significance import PairedTest

    if len(references) > MOST_FOR_INTERVALS:
        log.warning("%d sentences: the tests take about %.1f GB of memory", len(references), len(references) * 1e-4)
    named = [(str(index), lines) for index, lines in enumerate(systems)]
    signatures: dict[str, list[str]] = {}
    scores: dict[str, list[PairedScore]] = {}
    for name, metric in text_metrics(language=language, lowercase=lowercase, references=references).items():
        found = []
        for kind in ("bs", "ar"):
            by_metric, columns = PairedTest(named, {name: metric}, None, test_type=kind)()
            ((own_name, signature),) = by_metric.items()  # sacreBLEU calls chrF chrF2
            signatures.setdefault(name, []).append(str(signature))
            found.append(columns[own_name])
        scores[name] = [_tested(resampled, shuffled, found[0][0]) for resampled, shuffled in zip(*found, strict=True)]
    return PairedTests(signatures, scores)


def _tested(resampled: Any, shuffled: Any, baseline: Any) -> PairedScore:
    """resampled, shuffled: sacreBLEU's results of a system in each test. baseline: the first system's, resampled."""
    interval = Interval(float(resampled.mean), float(resampled.ci))
    if resampled is baseline:
        return PairedScore(resampled.score, interval, None)
    points = resampled.score - baseline.score
    p_values = (resampled.p_value, shuffled.p_value) if points else (None, None)
    return PairedScore(resampled.score, interval, Difference(points, *p_values))
