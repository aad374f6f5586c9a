"""Scores of text against raw references, which never pass through the vocabulary."""

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import sacrebleu

from transformer_cli.scoring import metrics
from transformer_cli.scoring.metrics import bleu_of_tokens, score_text, warn_about_text

REFERENCE = "The old Bado sleeps at home."


def test_score_text_unknown_words_do_not_match() -> None:
    kept = "the old <unk> sleeps at home."
    bleu, chrf = score_text([kept], [REFERENCE], language="en", lowercase=True).values()
    assert bleu.score == sacrebleu.corpus_bleu([kept], [[REFERENCE]], lowercase=True).score < 60
    assert chrf.score < 90
    found = score_text(["the old bado sleeps at home."], [REFERENCE], language="en", lowercase=True)
    assert [each.score for each in found.values()] == pytest.approx([100, 100])


def test_bleu_of_tokens_does_not_tokenise() -> None:
    tokens, reference = ["the", "old", "<unk>", "sleeps", "."], ["the", "old", "bado", "sleeps", "."]
    expected = sacrebleu.corpus_bleu([" ".join(tokens)], [[" ".join(reference)]], tokenize="none", force=True)
    assert bleu_of_tokens([tokens], [reference]) == pytest.approx(expected.score)
    assert bleu_of_tokens([reference], [reference]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("tokeniser", "languages"),
    [
        ("tok:zh", "zh zho yue yue_Hant lzh wuu nan hak_Latn"),
        ("tok:char", "ja jpn ko th lo lao km khm_Khmr my mya bo bod tib dz dzo_Tibt shn_Mymr"),
        ("tok:13a", "en de ar he kmr"),
    ],
)
def test_score_text_without_spaces_uses_language_tokeniser(tokeniser: str, languages: str) -> None:
    for language in languages.split():
        bleu, _ = score_text(["the"], [REFERENCE], language=language, lowercase=True).values()
        assert tokeniser in bleu.signature.split("|")


@pytest.mark.parametrize(
    ("language", "text", "reference", "score"),
    [
        ("zh-TW", "我喜歡狗", "我喜歡貓", 25.0),
        ("lzh", "吾愛犬", "吾愛貓", 100 / 3),
        ("ja", "犬が好", "猫が好", 100 / 3),
        ("de", "Ein H.", "Ein K.", 50.0),
    ],
)
def test_score_text_ter_without_spaces_counts_characters(
    language: str, text: str, reference: str, score: float
) -> None:
    found = score_text([text], [reference], language=language, lowercase=False, extra_metrics=["ter"])["ter"]
    assert found.score == pytest.approx(score)
    assert ("asian:yes" in found.signature) == (language != "de")


def test_warn_about_text_short_lines_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_about_text(["A dog.", "No."], ["A dog.", "No."], "valid")
    warn_about_text(["A dog.", "No dog here."], ["A dog.", "No."], "valid")
    warn_about_text(["我喜歡狗"], ["我喜歡狗"], "valid", "zh")
    (message,) = caplog.messages
    assert message == "valid: no line has four tokens, so BLEU, which needs 4-grams, is 0; use chrF"


def test_warn_about_text_like_its_sources_warns(caplog: pytest.LogCaptureFixture) -> None:
    sources = [f"Der alte Bado schläft seit {number} Tagen zu Hause." for number in range(10)]
    for texts, n_warned in (([REFERENCE] * 10, 0), (sources, 1), (sources[:9], 0)):
        caplog.clear()
        warn_about_text(texts, [REFERENCE] * len(texts), "valid", sources=sources[: len(texts)])
        said = "valid: the translations look more like the sources than like the references; are these two swapped?"
        assert caplog.messages == [said] * n_warned


def test_score_text_intervals_are_sacrebleus() -> None:
    texts = [f"the {word} bado sleeps at home." for word in ("old", "young", "big", "small")]
    references, scorers = [REFERENCE] * 4, (sacrebleu.BLEU(lowercase=True), sacrebleu.CHRF(lowercase=True))
    found = score_text(texts, references, language="en", lowercase=True)
    for metric, ours in zip(scorers, found.values(), strict=True):
        assert ours.score == metric.corpus_score(texts, [references]).score
        resampled = metric.corpus_score(texts, [references], n_bootstrap=1000)
        assert ours.interval is not None
        assert (ours.interval.mean, ours.interval.half_width) == pytest.approx((resampled._mean, resampled._ci))
        assert ours.interval.half_width > 1
        assert ours.signature == str(metric.get_signature())
        assert {"bs:1000", "seed:12345"} <= set(ours.signature.split("|"))


def test_score_text_of_0_has_an_interval() -> None:
    _, chrf = score_text(["dog", "x"], ["dog", "man"], language="en", lowercase=True).values()
    assert chrf.interval is not None
    assert 0 < chrf.interval.mean < 100
    assert chrf.interval.half_width == 50  # some resamples have only the first sentence, some only the second


def test_score_text_large_text_has_no_interval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics, "MAX_INTERVAL_SENTENCES", 0)
    bleu, chrf = score_text([REFERENCE], [REFERENCE], language="en", lowercase=True).values()
    assert (bleu.interval, chrf.interval) == (None, None)
    assert "bs:" not in bleu.signature
    assert caplog.messages == ["1 sentences: no bootstrap interval for more than 0"]


def test_warn_about_text_unicode_forms_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    texts = ["Ein Hund läuft.", "Ein Hund.", "Größe"]
    references = [unicodedata.normalize("NFD", line) for line in texts]
    for pair in ((texts, references), (references, texts)):
        caplog.clear()
        warn_about_text(*pair, "valid")
        (message,) = caplog.messages
        assert message.startswith("valid: 2 of 3 lines differ from their references in Unicode form")
    caplog.clear()
    warn_about_text(texts, texts, "valid")
    warn_about_text(references, references, "valid")
    assert caplog.messages == []


def test_warn_about_text_tokenised_text_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    texts = ["the old bado sleeps at home ."] * 100
    score_text(texts, [REFERENCE] * 100, language="en", lowercase=True)
    assert caplog.messages == []  # sacreBLEU says nothing by itself
    warn_about_text(texts, [REFERENCE] * 100, "valid")
    (message,) = caplog.messages
    assert message.startswith("valid: 100 lines end in a space and a full stop")


def test_score_text_several_references_equal_sacrebleu(tmp_path: Path) -> None:
    texts = ["A dog runs home .", "Two men sit there.", "A cat."]
    one = ["The dog runs home.", "there two Men sat.", "The cat."]
    other = ["The dog runs to its home.", "two men are sitting there.", "A small cat."]
    for name, lines in (("texts", texts), ("one", one), ("other", other)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = score_text(texts, one, other, language="en", lowercase=False, extra_metrics=["chrf++", "ter"])
    words = [sys.executable, "-m", "sacrebleu", "one", "other", "-i", "texts", "-w", "6", "-m"]
    for names, asked in (
        (("BLEU", "chrF"), ["bleu", "chrf"]),
        (("chrf++", "ter"), ["chrf", "ter", "--chrf-word-order", "2", "--confidence"]),
    ):
        told = subprocess.run([*words, *asked], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        for ours, theirs in zip((found[name] for name in names), json.loads(told), strict=True):
            assert f"{ours.score:.6f}" == f"{theirs['score']:.6f}"
            if "--confidence" in asked:
                assert ours.interval
                interval = theirs["confidence_mean"], theirs["confidence_var"]
                assert (ours.interval.mean, ours.interval.half_width) == pytest.approx(interval, abs=1e-5)
                assert (ours.signature, "nrefs:2" in ours.signature) == (theirs["signature"], True)
