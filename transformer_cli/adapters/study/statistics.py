"""Tests whether differences between scores are due to chance, and writes the verdicts.

`paired_tests` compares the texts of single systems by sacreBLEU's two paired tests, with the results of its command
line and its seed (12345, or SACREBLEU_SEED). `group_tests` compares groups of runs by Welch's t-test.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean, stdev, variance
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from transformer_cli.scoring.metrics import MAX_INTERVAL_SENTENCES, METRICS, RESAMPLES, Interval, text_metrics

log = logging.getLogger(__name__)

SIGNIFICANCE_LEVEL = 0.05  # the probability of any false positive, over both metrics and all systems
SHUFFLES = 10_000  # of approximate randomisation, as sacreBLEU does it
INTEGRATION_STEPS = 100_000  # of the numerical integral


@dataclass(frozen=True)
class Difference:
    """The difference between a system's score and the first system's."""

    points: float
    """its score minus the first system's"""
    p_bootstrap: float | None
    """by paired bootstrap resampling (Koehn 2004) with 1,000 resamples; None if the scores are equal, since sacreBLEU
    gives p = 0.001 for a system compared with itself"""
    p_randomization: float | None
    """by approximate randomisation (Riezler and Maxwell 2005) with 10,000 shuffles"""

    @property
    def p(self) -> float | None:
        """The larger of the two."""
        return max((p for p in (self.p_bootstrap, self.p_randomization) if p is not None), default=None)


@dataclass(frozen=True)
class PairedScore:
    """A system's score by one metric, from 0 to 100."""

    score: float
    interval: Interval
    difference: Difference | None
    """None for the first system"""

    @property
    def scores(self) -> list[float]:
        """The score as a list, like `GroupScore.scores`."""
        return [self.score]


@dataclass(frozen=True)
class GroupDifference:
    """The difference between the mean score of a group's runs and that of the first group's."""

    points: float
    """its mean minus the first group's"""
    half_width: float | None
    """the 95 % interval is points ± half_width; None if neither group has any spread"""
    p: float | None
    """by Welch's t-test (1947); None if half_width is"""


@dataclass(frozen=True)
class GroupScore:
    """The scores of a group's runs by one metric, from 0 to 100."""

    scores: list[float]
    mean: float
    standard_deviation: float
    difference: GroupDifference | None
    """None for the first group"""


Item = TypeVar("Item")
Score = TypeVar("Score", PairedScore, GroupScore)


@dataclass(frozen=True)
class ByMetric(Generic[Score]):
    """The results of one metric."""

    signatures: list[str]
    """sacreBLEU's; for paired tests, those of the bootstrap and of approximate randomisation"""
    scores: list[Score]
    """one for each system or group"""


class SegmentScores:
    """The mean of given scores of sentences, with the methods of sacreBLEU's metrics that the tests below call."""

    def get_signature(self) -> Any:
        from sacrebleu.metrics.base import Signature

        signature = Signature({"num_refs": None})
        signature.info = {"scores": "given", "version": None}
        return signature

    def _extract_corpus_statistics(self, lines: Sequence[str], references: None) -> list[tuple[float, int]]:
        return [(float(line), 1) for line in lines]

    def _aggregate_and_compute(self, statistics: Sequence[tuple[float, int]]) -> Any:
        return self._compute_score_from_stats(np.sum(statistics, axis=0))

    def _compute_score_from_stats(self, sums: NDArray[np.floating[Any]]) -> Any:
        return SimpleNamespace(name="mean", score=float(sums[0] / sums[1]))


def paired_tests(systems: Sequence[Sequence[str]], metrics: Mapping[str, Any]) -> dict[str, ByMetric[PairedScore]]:
    """Compare the first system with each of the others by both tests. Returns the results of each metric.

    systems: the lines of each system. metrics: from `text_metrics`, with references; or `SegmentScores`, if lines are
    numbers.
    """
    from sacrebleu.significance import PairedTest

    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs each step, and numbers the systems

    n_sentences = len(systems[0])
    if n_sentences > MAX_INTERVAL_SENTENCES:
        log.warning("%d sentences: the tests take about %.1f GB of memory", n_sentences, n_sentences * 1e-4)
    named_systems = [(str(index), lines) for index, lines in enumerate(systems)]
    signatures, results = zip(
        *(
            PairedTest(named_systems, metrics, None, test_type=kind, n_samples=samples)()
            for kind, samples in (("bs", RESAMPLES), ("ar", SHUFFLES))
        ),
        strict=True,
    )
    # n sentences can be exchanged between two systems in 2^n ways. Two of these give the observed difference or its
    # negative, so p is at least 2 / 2^n. sacreBLEU counts larger differences only: with three sentences it may print
    # p = 0.0001 instead of 0.25.
    least_p = 2.0 ** (1 - n_sentences)
    by_metric = {}
    for name, key in zip(metrics, signatures[0], strict=True):  # sacreBLEU's own names: BLEU, chrF2, chrF2++, TER
        baseline, scores = results[0][key][0], []
        for resampled, shuffled in zip(*(each[key] for each in results), strict=True):
            difference = None
            if resampled is not baseline:
                points = resampled.score - baseline.score
                tests = (resampled, shuffled)
                difference = Difference(points, *(max(each.p_value, least_p) if points else None for each in tests))
            interval = Interval(float(resampled.mean), float(resampled.ci))
            scores.append(PairedScore(resampled.score, interval, difference))
        by_metric[name] = ByMetric([str(each[key]) for each in signatures], scores)
    return by_metric


def paired_verdict(
    names: Sequence[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    language: str,
    lowercase: bool,
) -> str:
    """Returns one sentence that compares two systems on one text by `paired_tests`; see `verdicts`, `score_text`."""
    results = paired_tests(systems, text_metrics(language=language, lowercase=lowercase, references=references))
    differences = [[each.difference for each in results[by].scores if each.difference] for by in METRICS]
    return verdicts(names, *differences, evidence=[f"{len(systems[0]):,} sentences"])[0]


def group_tests(
    systems: Sequence[Sequence[str]], metrics: Mapping[str, Any], *, sizes: Sequence[int]
) -> dict[str, ByMetric[GroupScore]]:
    """Compare the first group with each of the others. Returns the results of each metric.

    systems: the lines of each run, group after group. metrics: as in `paired_tests`. sizes: the number of runs of each
    group, at least two.
    """
    by_metric = {}
    for name, metric in metrics.items():
        statistics = [metric._extract_corpus_statistics(lines, None) for lines in systems]
        scores = split_by_size([float(metric._aggregate_and_compute(each).score) for each in statistics], sizes)
        differences = (None, *(welch(each, scores[0]) for each in scores[1:]))
        rows = zip(scores, differences, strict=True)
        groups = [GroupScore(each, mean(each), stdev(each), difference) for each, difference in rows]
        by_metric[name] = ByMetric([str(metric.get_signature())], groups)
    return by_metric


def split_by_size(values: Sequence[Item], sizes: Sequence[int]) -> list[list[Item]]:
    """Split values into groups of these sizes. For example, a, b, c with sizes 2 and 1 give [a, b] and [c]."""
    left = iter(values)
    return [[*islice(left, size)] for size in sizes]


def welch(scores: Sequence[float], others: Sequence[float]) -> GroupDifference:
    """Compare the means of scores and others, at least two of each, without assuming equal variances."""
    points = mean(scores) - mean(others)
    parts = [variance(each) / len(each) for each in (scores, others)]
    error = math.sqrt(sum(parts))
    if not error:
        return GroupDifference(points, None, None)
    sizes = (len(scores), len(others))
    degrees_of_freedom = error**4 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    angles, cumulative = _student(degrees_of_freedom)
    scale = error * math.sqrt(degrees_of_freedom)  # points = t · error = scale · tan θ
    half_width = scale * math.tan(angles[np.searchsorted(cumulative, 0.95)])
    p = 1.0 - np.interp(math.atan(abs(points) / scale), angles, cumulative)
    return GroupDifference(points, half_width, float(p))


def _student(degrees_of_freedom: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns angles θ from 0 to π/2, and the probability that Student's |t| is at most √degrees_of_freedom · tan θ.

    With t = √degrees_of_freedom · tan θ, the density of θ is proportional to cos^(degrees_of_freedom-1) θ. For example,
    with one degree of freedom all angles are equally likely: |t| ≤ 1 is θ ≤ π/4, so its probability is 0.5.
    """
    angles = np.linspace(0.0, math.pi / 2, INTEGRATION_STEPS + 1)
    densities = np.concatenate(([0.0], np.cos((angles[1:] + angles[:-1]) / 2) ** (degrees_of_freedom - 1)))
    cumulative = np.cumsum(densities)
    return angles, cumulative / cumulative[-1]


def verdicts(
    names: Sequence[str], *differences: Sequence[Difference | GroupDifference], evidence: Sequence[str]
) -> list[str]:
    """Returns one sentence for each system but the first, comparing it with the first.

    names: of all systems. differences: for each of METRICS, those of all systems but the first; `significant` decides
    on all of them together. evidence: the subject of each sentence, such as "1,000 sentences".
    """
    of_systems = list(zip(*differences, strict=True))
    p_values = [each.p for found in of_systems for each in found]
    first, tested, said = names[0], iter(zip(p_values, significant(p_values), strict=True)), []
    for name, found, source in zip(names[1:], of_systems, evidence, strict=True):
        won, unsure = list[tuple[str, str]](), list[tuple[float, str]]()
        for metric, each in zip(METRICS, found, strict=True):
            p, is_sure = next(tested)
            by = f"{metric} ({'no p-value' if p is None else 'p < 0.001' if p < 0.001 else f'p = {p:.3f}'})"
            if is_sure:
                won.append((name if each.points > 0 else first, f"{abs(each.points):.2f} {by}"))
            else:
                unsure.append((each.points, by))
        if not any(each.points for each in found):
            said.append(f"{name} and {first} have equal scores: {source} show no difference at all")
        elif not won:
            points = ", ".join(f"{points:+.2f} {by}" for points, by in unsure)
            said.append(f"{source} cannot tell {name} and {first} apart: {points}")
        elif len(dict(won)) > 1:
            (winner, by), *others = won
            said.append(f"the scores disagree: {winner} is better by {by}, {', '.join(map(' by '.join, others))}")
        else:
            (winner,), loser = dict(won), first if won[0][0] == name else name
            unknown = "".join(f"; {source} cannot tell them apart by {by}" for _, by in unsure)
            said.append(f"{winner} is better than {loser} by {' and '.join(by for _, by in won)}{unknown}")
    return said


def significant(p_values: Sequence[float | None]) -> list[bool]:
    """Returns which of several differences are significant, by Holm's method (1979).

    The probability of even one false positive is SIGNIFICANCE_LEVEL. The smallest p must be below SIGNIFICANCE_LEVEL
    divided by the number of differences, the next one below SIGNIFICANCE_LEVEL divided by one less, and so on, until
    one is not. For example, of [0.03, 0.001, None, 0.02] only the second is significant: 0.001 is below 0.05 / 4, but
    0.02 is not below 0.05 / 3.
    """
    found = [False] * len(p_values)
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    for rank, (p, index) in enumerate(known):
        if p >= SIGNIFICANCE_LEVEL / (len(p_values) - rank):
            break
        found[index] = True
    return found
