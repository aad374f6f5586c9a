"""The paired tests are sacreBLEU's: the same figures as its own command line finds for the same files."""

import json
import logging
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_cli.evaluation import significance
from transformer_cli.evaluation.metrics import Interval
from transformer_cli.evaluation.significance import Difference, PairedScore, paired_tests


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
def scores(texts: dict[str, list[str]]) -> dict[str, list[PairedScore]]:
    """What our tests find about the three systems."""
    return paired_tests([texts[name] for name in "abc"], texts["reference"], language="en", lowercase=True).scores


def sacrebleu(folder: Path, *options: str) -> str:
    """What sacreBLEU's command line prints about the three systems."""
    files = ("reference", "-i", "a", "b", "c", "--lowercase", "--chrf-lowercase", "--quiet", "--no-color")
    command = [sys.executable, "-m", "sacrebleu", *files, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_bootstrap_equals_sacrebleus_command_line(scores: dict[str, list[PairedScore]], folder: Path) -> None:
    # as text, because sacreBLEU 2.6 cannot print its intervals of chrF as JSON
    printed = sacrebleu(folder, "-m", "bleu", "chrf", "--paired-bs", "--paired-bs-n", "1000", "-f", "text", "-w", "9")
    printed_scores = re.findall(r"(\d+\.\d{9}) \((\d+\.\d{9}) ± (\d+\.\d{9})\)", printed)
    p_values = re.findall(r"\(p = (\d\.\d{4})\)", printed)
    ours = [scores[metric][system] for system in range(3) for metric in ("BLEU", "chrF")]
    numbers = [(each.score, each.interval.mean, each.interval.half_width) for each in ours]
    assert [tuple(map(float, each)) for each in printed_scores] == [pytest.approx(each, abs=1e-6) for each in numbers]
    assert p_values == [f"{each.difference.p_bootstrap:.4f}" for each in ours if each.difference]
    assert len(p_values) == 4


def test_approximate_randomisation_equals_sacrebleus_command_line(
    scores: dict[str, list[PairedScore]], folder: Path
) -> None:
    printed = json.loads(sacrebleu(folder, "-m", "bleu", "chrf", "--paired-ar", "-f", "json"))
    for ours, name in (("BLEU", "BLEU"), ("chrF", "chrF2")):
        theirs = [(each[name]["score"], each[name]["p_value"]) for each in printed]
        assert [(each.score, each.difference and each.difference.p_randomization) for each in scores[ours]] == theirs
        assert theirs[1][1] > 0.05 > theirs[2][1]


def test_the_signatures_say_how_often_text_was_drawn_and_from_which_seed(texts: dict[str, list[str]]) -> None:
    tested = paired_tests([texts["a"], texts["b"]], texts["reference"], language="zh", lowercase=False)
    assert [signature.split("|")[1] for signature in tested.signatures["BLEU"]] == ["bs:1000", "ar:10000"]
    for both in tested.signatures.values():
        assert all({"seed:12345", "case:mixed"} <= set(signature.split("|")) for signature in both)
    assert all("tok:zh" in signature for signature in tested.signatures["BLEU"])


def test_a_system_beside_itself_has_no_p(texts: dict[str, list[str]]) -> None:
    capitals = [line.upper() for line in texts["a"]]
    tested = paired_tests([texts["a"], texts["a"], capitals], texts["reference"], language="en", lowercase=True)
    for first, *others in tested.scores.values():
        assert first.difference is None
        assert [other.difference for other in others] == [Difference(0.0, None, None)] * 2
    assert Difference(0.0, None, None).p is None


def test_the_p_of_a_difference_is_the_larger_one() -> None:
    assert Difference(1.0, 0.01, 0.02).p == Difference(1.0, 0.02, 0.01).p == 0.02


def test_a_large_text_is_said_to_take_memory(
    texts: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(significance, "MOST_FOR_INTERVALS", 59)
    tested = paired_tests([texts["a"], texts["b"]], texts["reference"], language="en", lowercase=True)
    assert caplog.messages == ["60 sentences: the tests take about 0.0 GB of memory"]
    assert isinstance(tested.scores["BLEU"][0], PairedScore)
    assert isinstance(tested.scores["BLEU"][0].interval, Interval)
    assert caplog.records[0].levelno == logging.WARNING
