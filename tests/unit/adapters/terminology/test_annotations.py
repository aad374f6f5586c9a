"""What a translation lacks is listed."""

from dataclasses import replace

import pytest

from transformer_cli import Translator
from transformer_cli.adapters.terminology.annotations import has_repeats, missing_numbers, to_check
from transformer_cli.search.protocols import Hypothesis


def test_to_check_names_numbers_and_terms(translator: Translator) -> None:
    (found,) = translator.translate_detailed(["Der Hund {name} singt."])
    assert to_check(found) == []
    incomplete = replace(found, source="3 Hunde", terms=[((2, 7), None)])
    assert to_check(incomplete) == ["a number is missing", "a term is missing"]
    sentences = [replace(found, unusual_length=each) for each in ("", "too short")]
    looping = replace(found, text="on and on and on and", sentences=sentences)
    assert to_check(looping) == ["too short", "repeats"]
    assert to_check(replace(looping, source="weiter, Weiter, weiter")) == ["too short"]
    (found,) = translator.translate_detailed(["{n, plural, one {Hund} other {Hunde}} {d, date, short}"])
    assert to_check(found) == ["alternatives are untranslated"]


@pytest.mark.parametrize(
    ("alignment", "text", "is_named"), [((0, 1), "the Hund", False), ((0, 0), "the dog Hund", True)]
)
def test_to_check_names_terms_without_aligned_words(
    translator: Translator, alignment: tuple[int, ...], text: str, is_named: bool
) -> None:
    with_term = translator.with_options(glossary={"Hund": ""}).pipeline
    sentence = with_term.prepare(with_term.encode_line("Ein Hund"), 0)
    words = with_term.codecs.target.encode_raw("the dog").ids
    found = with_term.decode(sentence, [Hypothesis(words, list(alignment), 0.0, 0.0)])
    assert (found.text, to_check(found)) == (text, ["a term may stand beside its translation"] * is_named)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("1.234,50 €", "1,234.50", []),
        ("1 000 und 24.12.", "1000 on 12/24", []),
        ("12 und 12", "12 and twelve", ["12"]),
        ("am 3.5.2024 um 7", "on 3.5.2023", ["3.5.2024", "7"]),
        ("٣ H2O", "3 H2O", []),
        ("<2en> zwei 2", "two 2", []),
    ],
)
def test_missing_numbers_compares_digits(source: str, text: str, expected: list[str]) -> None:
    assert [source[slice(*span)] for span in missing_numbers(source, text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a dog, Dog, dog", True),
        ("in the park in the park in the park", True),
        ("in the park and in the park and in the dark", False),
        *(("a dog and a dog", False), ("1 000 000 000 ... !!! 。。。。。。", False), ("犬が犬が犬が走る", True)),
        *(("のののののの", True), ("ハハハ", False), ("สวัสดีสวัสดีสวัสดี", True), ("정말 정말, 정말", True)),
        *(("दादी दूद किकिकि", False), ("mononicicicicic", True), ("Schifffahrt hahaha", False), ("", False)),
    ],
)
def test_has_repeats_finds_three_in_a_row(text: str, expected: bool) -> None:
    assert has_repeats(text) is expected
