"""Scores of text against raw references, which never pass through the vocabulary."""

import pytest
import sacrebleu

from transformer_cli.evaluation.metrics import Scores, TokenizedText, bleu_of_text, score

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
