"""Whether a difference is more than chance: sacreBLEU's own figures, SciPy's, and what is said of them."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from transformer_cli.adapters.study import statistics
from transformer_cli.adapters.study.statistics import ByMetric, Difference, PairedScore, SegmentScores, paired_tests
from transformer_cli.scoring.metrics import text_metrics

SHUFFLES = 1000


@pytest.fixture(scope="module")
def texts(corpus: Path) -> dict[str, list[str]]:
    """A reference, and three systems that lose more and more of its words."""
    reference = (corpus / "train.en").read_text("utf-8").split("\n")[:60]
    found = {"reference": reference}
    for name, share in (("a", 0.2), ("b", 0.22), ("c", 0.4)):
        chance = random.Random(name)
        found[name] = [" ".join(word for word in line.split() if chance.random() > share) for line in reference]
    return found


@pytest.fixture(scope="module")
def folder(texts: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts as files."""
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tested(texts: dict[str, list[str]]) -> list[ByMetric[PairedScore]]:
    """What our tests find about the three systems, by BLEU and by chrF, with fewer shuffles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "SHUFFLES", SHUFFLES)
        found = paired_tests([texts[name] for name in "abc"], metrics_for(texts["reference"]))
        return list(found.values())


def metrics_for(reference: list[str]) -> dict[str, Any]:
    """BLEU and chrF against one reference, without case."""
    return text_metrics(language="en", lowercase=True, references=[reference])


def sacrebleu(folder: Path, *options: str) -> str:
    """What sacreBLEU's command line prints about the three systems."""
    files = ("reference", "-i", "a", "b", "c", "--lowercase", "--chrf-lowercase", "--quiet", "--no-color")
    command = [sys.executable, "-m", "sacrebleu", *files, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_paired_tests_bootstrap_equals_sacrebleu(tested: list[ByMetric[PairedScore]], folder: Path) -> None:
    # as text, because sacreBLEU 2.6 cannot print its intervals of chrF as JSON
    printed = sacrebleu(folder, "-m", "bleu", "chrf", "--paired-bs", "--paired-bs-n", "1000", "-f", "text", "-w", "9")
    printed_scores = re.findall(r"(\d+\.\d{9}) \((\d+\.\d{9}) ± (\d+\.\d{9})\)", printed)
    p_values = re.findall(r"\(p = (\d\.\d{4})\)", printed)
    ours = [each.scores[system] for system in range(3) for each in tested]
    numbers = [(each.score, each.interval.mean, each.interval.half_width) for each in ours]
    assert [tuple(map(float, each)) for each in printed_scores] == [pytest.approx(each, abs=1e-6) for each in numbers]
    assert p_values == [f"{each.difference.p_bootstrap:.4f}" for each in ours if each.difference]
    assert len(p_values) == 4


def test_paired_tests_randomisation_equals_sacrebleu(tested: list[ByMetric[PairedScore]], folder: Path) -> None:
    options = ("-m", "bleu", "chrf", "--paired-ar", "--paired-ar-n", str(SHUFFLES), "-f", "json")
    printed = json.loads(sacrebleu(folder, *options))
    for ours, name in zip(tested, ("BLEU", "chrF2"), strict=True):
        theirs = [(each[name]["score"], each[name]["p_value"]) for each in printed]
        assert [(each.score, each.difference and each.difference.p_randomization) for each in ours.scores] == theirs
        assert theirs[1][1] > 0.05 > theirs[2][1]


def test_paired_tests_equal_systems_have_no_p(texts: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SHUFFLES", SHUFFLES)
    capitals = [line.upper() for line in texts["a"]]
    few = [lines[:5] for lines in (texts["a"], texts["a"], capitals, texts["reference"])]
    for tests in paired_tests(few[:3], metrics_for(few[3])).values():
        first, *others = tests.scores
        assert first.difference is None
        assert [other.difference for other in others] == [Difference(0.0, None, None)] * 2
    assert Difference(0.0, None, None).p is None
    assert Difference(1.0, 0.01, 0.02).p == Difference(1.0, 0.02, 0.01).p == 0.02
    assert statistics.welch([3.0, 3.0], [1.0, 1.0]) == statistics.GroupDifference(2.0, None, None)


def test_paired_tests_signatures_name_samples_and_seed(
    texts: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(statistics, "MAX_INTERVAL_SENTENCES", 59)
    metrics = text_metrics(language="zh", lowercase=False, references=[texts["reference"]])
    found = paired_tests([texts["a"], texts["b"]], metrics)
    bleu, chrf = found.values()
    assert [signature.split("|")[1] for signature in bleu.signatures] == ["bs:1000", "ar:10000"]
    for signature in (*bleu.signatures, *chrf.signatures):
        assert {"seed:12345", "case:mixed"} <= set(signature.split("|"))
    assert all("tok:zh" in signature for signature in bleu.signatures)
    assert caplog.messages == ["60 sentences: the tests take about 0.0 GB of memory"]


def test_segment_scores_agree_with_tests_written_out() -> None:
    """The same resamples and shuffles as sacreBLEU draws, with means of numbers."""
    chance = random.Random(0)
    first = [chance.gauss(70, 10) for _ in range(50)]
    scores = [first, [each + chance.gauss(1.5, 3) for each in first]]
    lines = [[*map(str, each)] for each in scores]
    found = paired_tests(lines, {"human": SegmentScores()})["human"]
    assert [each.score for each in found.scores] == pytest.approx([mean(each) for each in scores])
    differences = np.array(scores[1]) - np.array(scores[0])
    points = differences.mean()
    rows = np.random.default_rng(12345).choice(50, size=(1000, 50), replace=True)
    resampled = np.abs(differences[rows].mean(axis=1))
    signs = 1 - 2 * np.random.default_rng(12345).integers(2, size=(10_000, 50), dtype=bool)
    shuffled = np.abs((signs * differences).mean(axis=1))
    difference = found.scores[1].difference
    assert difference
    assert difference.points == pytest.approx(points)
    assert difference.p_bootstrap == ((resampled - resampled.mean() > points).sum() + 1) / 1001
    assert difference.p_randomization == ((shuffled > points).sum() + 1) / 10_001
    assert 0.001 < (difference.p or 0) < 0.2
    assert found.signatures == ["scores:given|seed:12345|bs:1000", "scores:given|seed:12345|ar:10000"]
    groups = statistics.group_tests([*lines, *lines], {"human": SegmentScores()}, sizes=(2, 2))["human"]
    assert groups.scores[0].scores == pytest.approx([mean(each) for each in scores])


def test_paired_tests_of_few_sentences_have_no_small_p() -> None:
    found = paired_tests([["1", "2", "3"], ["5", "6", "7"]], {"human": SegmentScores()})["human"].scores[1]
    assert found.difference == Difference(4.0, 0.25, 0.25)


@pytest.mark.parametrize(
    ("scores", "others", "p", "half_width"),  # of scipy.stats.ttest_ind(scores, others, equal_var=False), SciPy 1.17
    [
        ([37.2, 36.6], [35.1, 35.9], 0.11669, 2.3213),
        ([37.2, 36.6, 36.9], [35.1, 35.9, 35.0, 36.2], 0.01294, 0.9048),
        ([30.0, 20.0], [25.1, 25.0, 24.9], 1.0, 63.4952),
        ([50.0, 50.1], [20.0, 20.0], 0.00106, 0.6353),
    ],
)
def test_welch_agrees_with_scipy(scores: list[float], others: list[float], p: float, half_width: float) -> None:
    found = statistics.welch(scores, others)
    assert found.p == pytest.approx(p, abs=1e-4)
    assert found.half_width == pytest.approx(half_width, rel=1e-3)
    assert found.points == pytest.approx(sum(scores) / len(scores) - sum(others) / len(others))


def said(bleu: tuple[float, float | None], chrf: tuple[float, float | None]) -> str:
    """The verdict on B beside A, for points and p of each metric."""
    found = ([Difference(points, p, p)] for points, p in (bleu, chrf))
    (sentence,) = statistics.verdicts(["A", "B"], *found, evidence=["runs"])
    return sentence


@pytest.mark.parametrize(
    ("bleu", "chrf", "expected"),
    [
        ((1.2, 0.003), (0.8, 0.0004), "B is better than A by 1.20 BLEU (p = 0.003) and 0.80 chrF (p < 0.001)"),
        ((-1.2, 0.003), (-0.8, 0.01), "A is better than B by 1.20 BLEU (p = 0.003) and 0.80 chrF (p = 0.010)"),
        ((0.2, 0.34), (-0.1, 0.5), "runs cannot tell B and A apart: +0.20 BLEU (p = 0.340), -0.10 chrF (p = 0.500)"),
        ((1.2, 0.003), (0.1, 0.5),
         "B is better than A by 1.20 BLEU (p = 0.003); runs cannot tell them apart by chrF (p = 0.500)"),
        ((0.1, None), (-0.7, 0.001),
         "A is better than B by 0.70 chrF (p = 0.001); runs cannot tell them apart by BLEU (no p-value)"),
        ((1.2, 0.003), (-0.7, 0.001),
         "the scores disagree: B is better by 1.20 BLEU (p = 0.003), A by 0.70 chrF (p = 0.001)"),
        ((0.0, None), (0.0, None), "B and A have equal scores: runs show no difference at all"),
    ],
)  # fmt: skip
def test_verdicts_name_the_better_or_no_difference(
    bleu: tuple[float, float | None], chrf: tuple[float, float | None], expected: str
) -> None:
    assert said(bleu, chrf) == expected


@pytest.mark.parametrize(
    ("p_values", "sure"),
    [
        ([], []),
        ([0.03, 0.001, None, 0.02], [False, True, False, False]),  # 0.02 is not below 0.05 / 3
        ([0.04, 0.024], [True, True]),
        ([0.04, 0.025], [False, False]),
        ([0.049, None], [False, False]),
        ([0.0124, 0.049, 0.016, 0.024], [True, True, True, True]),
    ],
)
def test_significance_level_is_shared_among_metrics_and_systems(p_values: list[float | None], sure: list[bool]) -> None:
    assert statistics.significant(p_values) == sure


def test_verdicts_need_smaller_p_with_more_systems() -> None:
    close, far = Difference(1.0, 0.02, 0.02), Difference(0.1, 0.5, 0.5)
    (alone,) = statistics.verdicts(["A", "B"], [close], [close], evidence=["runs"])
    first, second = statistics.verdicts(["A", "B", "C"], [close, far], [close, far], evidence=["runs", "runs"])
    assert alone.startswith("B is better than A by 1.00 BLEU")
    assert first.startswith("runs cannot tell B and A apart")
    assert second.startswith("runs cannot tell C and A apart")
