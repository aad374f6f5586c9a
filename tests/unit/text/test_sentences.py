"""The spans of sentences are right, and nothing is lost between them."""

import random
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_corpus import pairs
from transformer_cli.text.sentences import join_translations, mask_spans, sentence_spans, split_long_sentence

Paragraph = tuple[str, list[str]]
"""A language and sentences"""

OWN = Path(__file__).with_name("sentences.txt")
ENDS = OWN.with_name("sentence_ends.txt").read_text(encoding="utf-8").splitlines()
UNSPACED = ("zh", "ja")


def own() -> Iterator[Paragraph]:
    """The paragraphs of our own sentences."""
    for block in OWN.read_text(encoding="utf-8").split("\n\n"):
        first, *lines = block.strip().split("\n")
        yield first.removeprefix("# "), lines


def ends(text: str, parts: Iterable[str]) -> set[int]:
    """Returns where the parts of a text end in it, except for the last one."""
    found, place = set(), 0
    for part in filter(None, map(str.strip, parts)):
        if (at := text.find(part, place)) >= 0:
            place = at + len(part)
            found.add(place)
    return found - {len(text)}


def judge(paragraphs: Iterable[Paragraph]) -> tuple[int, list[str], list[str]]:
    """Returns how many ends there are, which of them are missed, and what is found but is none, each as a line."""
    n_ends, missed, false = 0, list[str](), list[str]()
    for language, lines in paragraphs:
        text = ("" if language in UNSPACED else " ").join(lines)
        right, found = ends(text, lines), ends(text, cut(text, language))
        n_ends += len(right)
        for wrong, places in ((missed, right - found), (false, found - right)):
            wrong += [f"{language}: {text[max(0, at - 30) : at]} | {text[at : at + 15]}" for at in places]
    return n_ends, missed, false


def cut(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


def test_sentence_spans_of_own_examples() -> None:
    paragraphs = list(own())
    assert sum(len(lines) for _, lines in paragraphs) == 200
    n_ends, missed, false = judge(paragraphs)
    assert len(missed) <= 0.03 * n_ends, missed
    assert len(false) <= 0.04 * n_ends, false


def test_sentence_spans_of_joined_sentences() -> None:
    chance = random.Random(1)
    sides = dict(zip(("de", "en"), zip(*pairs(), strict=True), strict=True))
    paragraphs = [(side, chance.sample(sides[side], chance.randint(1, 6))) for side in sides for _ in range(150)]
    n_ends, missed, _ = judge(paragraphs)
    assert (n_ends > 500, missed) == (True, [])


@pytest.mark.parametrize("case", [line for line in ENDS if not line.startswith("#")])
def test_sentence_spans_end_at_marks_but_not_at_abbreviations(case: str) -> None:
    language, text = case.replace(r"\u00a0", "\u00a0").split(": ", 1)
    sep = "" if language in UNSPACED or text.startswith("Halt!|") else " "
    assert cut(text.replace("|", sep), language) == text.split("|")


LANGUAGES = "bg ca cs da de el es et fi fr hr hsb hu is it lb lt lv nb nl nn pl pt ro ru sk sl sr sv tr uk"
SYMBOLS = "🐕 👍🏽 ❤️ ² * † ® ‎ ​ ­ ﻿ [3] :) .. ?!"


@pytest.mark.parametrize("language", LANGUAGES.split())
def test_sentence_spans_end_before_a_number_and_after_symbols(language: str) -> None:
    assert cut("Anna para. 12 Leute. 3 Leute.", language) == ["Anna para.", "12 Leute.", "3 Leute."]
    for symbol in SYMBOLS.split():
        assert cut(f"Bello bellt.{symbol} Anna kommt.", language) == [f"Bello bellt.{symbol}", "Anna kommt."]


def test_mask_spans_of_placeholders_keep_the_ends_around_them() -> None:
    def masked(text: str) -> list[str]:
        protected = [match.span() for match in re.finditer(r"\{[^}]*\}|%s", text)]
        return cut(mask_spans(text, protected), "de")

    assert [len(each) for each in masked("Es hält.{name} Wir.")] == [14, 4]
    assert [len(each) for each in masked("Es hält.%s Wir. {n} Hunde. Bild {n}. Wir.")] == [10, 4, 10, 9, 4]
    assert [len(each) for each in masked("Es hält.{br}Wir. Z.B.{x}Ja v1.{n}Ja")] == [12, 4, 18]
    assert len(masked("Siehe Kap. {n} und {a. B}")) == len(masked("{n}. Platz")) == 1


def test_sentence_spans_of_a_heading_and_of_a_blank_line() -> None:
    assert cut("  Chapter 1  ") == ["Chapter 1"]
    assert cut("") == cut(" \t\u2028 ") == []


@given(
    st.text(st.sampled_from("aB1é।。！？؟…“”\"'().!?;, \t\u2028\u00a0🐕"), max_size=60),
    st.sampled_from(["de", "zh", "ar"]),
)
def test_sentence_spans_leave_out_only_white_space(line: str, language: str) -> None:
    spans = sentence_spans(line, language)
    place, rest = 0, ""
    for start, end in spans:
        assert place <= start < end
        assert line[start:end] == line[start:end].strip()
        rest += line[place:start]
        place = end
    assert not (rest + line[place:]).strip()
    joined = join_translations(line, spans, [line[start:end] for start, end in spans])
    assert "".join(joined.split()) == "".join(line.split())
    if all(one[1] < other[0] for one, other in pairwise(spans)):
        assert joined == line


def test_join_translations_keeps_white_space() -> None:
    line = "  Eins.  Zwei.\t"
    assert join_translations(line, sentence_spans(line, "de"), ["One.", "Two."]) == "  One.  Two.\t"
    assert join_translations("两只狗。一个人！", [(0, 4), (4, 8)], ["Two dogs.", "A man!"]) == "Two dogs. A man!"
    assert join_translations("两只狗。一个人！", [(0, 4), (4, 8)], ["犬二匹。", "人！"]) == "犬二匹。人！"
    assert join_translations(" ", [], []) == " "


def test_sentence_spans_do_not_depend_on_windows() -> None:
    piece = 'Am 3. Oktober kam Dr. Meier an. "Komm her!", rief sie. Zwei Frauen (mit Hut) kochen. '
    assert cut(piece * 300, "de") == cut(piece, "de") * 300
    long = (".", "«", "🐕", "\u200b", "(a. [", "Ein ", ".)")
    for text in (*(each * (100_000 // len(each)) for each in long), "Ein Hund." + '"' * 100_000, "A.[" + "1" * 100_000):
        text = text.rstrip()
        assert cut(text) == [text]
    line = "狗。" * 5_000
    spans = [(place, place + 2) for place in range(0, len(line), 2)]
    assert sentence_spans(line, "zh") == spans
    assert join_translations(line, spans, ["A dog."] * 5_000) == " ".join(["A dog."] * 5_000)
    assert join_translations(line, spans, ["犬。"] * 5_000) == "犬。" * 5_000


@pytest.mark.parametrize("language", ["de", "fr", "ja", "kk", "xx"])
def test_sentence_spans_any_white_space_before_a_full_stop(language: str) -> None:
    for space in "\u0085\u00a0\u2003\u2028\u202f\u3000":
        assert cut(f"Vitamin C{space}. Vitamin D.", language)[-1].endswith("D.")
        assert cut(f"A{space}{space}.{space}.", language)


def test_split_long_sentence_at_a_mark_or_else_at_a_space() -> None:
    def parts(text: str, most: int) -> list[str]:
        return [
            text[start:end]
            for start, end in split_long_sentence(text, (0, len(text)), lambda start, end: end - start <= most)
        ]

    assert parts("one, two; three four", 20) == ["one, two; three four"]
    assert parts("one, two; three four", 12) == ["one, two;", "three four"]
    assert parts("one, two; three four", 9) == ["one, two;", "three", "four"]
    assert parts("1,000  seven", 7) == ["1,000", "seven"]  # that comma is in a number
    assert parts("one,  abcdefghij k", 6) == ["one,", "abcdefghij k"]  # which has no place to be cut at
