"""Scores of text against raw references, which never pass through the vocabulary."""

import pytest
import sacrebleu

from transformer_cli.evaluation import metrics
from transformer_cli.evaluation.metrics import Scores, TokenizedText, bleu_of_text, score, sentence_chrf

REFERENCE = "The old Bado sleeps at home."
RIGHT = ["the", "old", "bado", "sleeps", "at", "home", "."]
WITH_UNKNOWN = ["the", "old", "<unk>", "sleeps", "at", "home", "."]


def scored(text: str, tokens: list[str], *, lowercase: bool = True, language: str = "en") -> Scores:
    """One line against REFERENCE."""
    return score(
        TokenizedText([text], [tokens]), TokenizedText([REFERENCE], [RIGHT]), language=language, lowercase=lowercase
    )


def test_an_unknown_word_is_no_hit_for_an_unknown_word() -> None:
    kept = "the old <unk> sleeps at home."
    found = scored(kept, WITH_UNKNOWN)
    assert found.bleu == sacrebleu.corpus_bleu([kept], [[REFERENCE]], lowercase=True).score < 60
    assert found.chrf < 90
    assert found.bleu_tokens < 60
    found = scored("the old bado sleeps at home.", RIGHT)
    assert [found.bleu, found.bleu_tokens, found.chrf] == pytest.approx([100, 100, 100])


def test_token_bleu_is_of_the_decoders_own_tokens_text_bleu_is_not() -> None:
    found = scored("the old bado sleeps at home.", WITH_UNKNOWN)
    assert found.bleu == pytest.approx(100)
    expected = sacrebleu.corpus_bleu([" ".join(WITH_UNKNOWN)], [[" ".join(RIGHT)]], tokenize="none", force=True)
    assert found.bleu_tokens == pytest.approx(expected.score)
    assert found.bleu_tokens < 60


@pytest.mark.parametrize(("lowercase", "case", "bleu_is_full"), [(True, "case:lc", True), (False, "case:mixed", False)])
def test_scores_look_at_case_where_they_are_told_to(lowercase: bool, case: str, bleu_is_full: bool) -> None:
    found = scored(REFERENCE.lower(), RIGHT, lowercase=lowercase)
    for signature in (found.bleu_signature, found.chrf_signature):
        assert case in signature.split("|")
    assert "tok:13a" in found.bleu_signature.split("|")
    assert (found.bleu > 99.9, found.chrf > 99.9) == (bleu_is_full, bleu_is_full)


@pytest.mark.parametrize(
    ("language", "tokeniser"),
    [
        *(("zh", "tok:zh"), ("yue", "tok:zh"), ("ja", "tok:char"), ("ko", "tok:char"), ("th", "tok:char")),
        *(("lo", "tok:char"), ("km", "tok:char"), ("my", "tok:char"), ("bo", "tok:char"), ("dz", "tok:char")),
        *(("de", "tok:13a"), ("ar", "tok:13a"), ("he", "tok:13a")),
    ],
)
def test_languages_without_spaces_have_a_tokeniser_of_their_own(language: str, tokeniser: str) -> None:
    assert tokeniser in scored("the", ["the"], language=language).bleu_signature.split("|")


def test_one_wrong_word_in_a_thai_sentence_leaves_most_of_its_bleu() -> None:
    wrong, right = "แมวสองตัวเล่นอยู่ในหิมะ", "สุนัขสองตัวเล่นอยู่ในหิมะ"
    hypothesis, reference = TokenizedText([wrong], [["แมว"]]), TokenizedText([right], [["สุนัข"]])
    by_language = {
        language: score(hypothesis, reference, language=language, lowercase=True).bleu for language in ("en", "th")
    }
    assert by_language["en"] == 0
    assert by_language["th"] > 70


def test_bleu_of_text_alone() -> None:
    text = "the old Bado sleeps at the beach."
    expected = sacrebleu.corpus_bleu([text], [[REFERENCE]], lowercase=True).score
    assert bleu_of_text([text], [REFERENCE], lowercase=True) == expected > 0


def test_intervals_are_sacrebleus_and_leave_the_score_as_it_is() -> None:
    texts = [f"the {word} bado sleeps at home." for word in ("old", "young", "big", "small")]
    lines = [each.split() for each in texts]
    found = score(
        TokenizedText(texts, lines), TokenizedText([REFERENCE] * 4, [RIGHT] * 4), language="en", lowercase=True
    )
    for metric, value, interval, signature in (
        (sacrebleu.BLEU(lowercase=True), found.bleu, found.bleu_interval, found.bleu_signature),
        (sacrebleu.CHRF(lowercase=True), found.chrf, found.chrf_interval, found.chrf_signature),
    ):
        assert value == metric.corpus_score(texts, [[REFERENCE] * 4]).score
        resampled = metric.corpus_score(texts, [[REFERENCE] * 4], n_bootstrap=1000)
        assert interval is not None
        assert (interval.mean, interval.half_width) == pytest.approx((resampled._mean, resampled._ci))
        assert interval.half_width > 1
        assert signature == str(metric.get_signature())
        assert {"bs:1000", "seed:12345"} <= set(signature.split("|"))


def test_resamples_without_one_right_character_have_an_interval() -> None:
    found = score(
        TokenizedText(["dog", "x"], [["dog"], ["x"]]), TokenizedText(["dog", "man"], [["dog"], ["man"]]),
        language="en", lowercase=True,
    )  # fmt: skip
    assert found.chrf_interval is not None
    assert 0 < found.chrf_interval.mean < 100
    assert found.chrf_interval.half_width == 50  # some resamples have only the first sentence, some only the second


def test_a_very_large_text_has_no_interval(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(metrics, "MOST_FOR_INTERVALS", 0)
    found = scored(REFERENCE, RIGHT)
    assert (found.bleu_interval, found.chrf_interval) == (None, None)
    assert "bs:" not in found.bleu_signature
    assert caplog.messages == ["1 sentences: no bootstrap interval for more than 0"]


def test_chrf_of_single_sentences() -> None:
    texts = ["the old bado sleeps.", REFERENCE]
    expected = [sacrebleu.CHRF(lowercase=True).corpus_score([text], [[REFERENCE]]).score for text in texts]
    assert sentence_chrf(texts, [REFERENCE] * 2, lowercase=True) == expected
    assert sentence_chrf([REFERENCE.upper()], [REFERENCE], lowercase=False)[0] < expected[1] == pytest.approx(100)
