"""Placeholders are inserted once, next to their words, between words, with the right white space."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.text.alignment import Link, insert_placeholders, original_spans
from transformer_cli.text.normalization import Placeholder


def linked(source: str, text: str, *pairs: tuple[int, int]) -> list[Link]:
    """Links of words by their numbers, counted from 0."""
    sources, targets = ([match.span() for match in re.finditer(r"\w+|[^\w ]", each)] for each in (source, text))
    return [(sources[one], targets[other]) for one, other in pairs]


@pytest.mark.parametrize(
    ("placeholder", "expected"),
    [
        (Placeholder(4, "X", " ", " "), "a X dog red."),  # before Hund
        (Placeholder(8, "X", " ", ""), "a dog red X."),  # behind rot
        (Placeholder(3, "X", "", " "), "aX dog red."),  # leans on ein
        (Placeholder(0, "X", "", " "), "X a dog red."),
        (Placeholder(16, "X", " ", ""), "a dog red. X"),
        (Placeholder(3, "&nbsp;", "", ""), "a&nbsp;dog red."),  # instead of a space
    ],
)
def test_insert_placeholders_goes_next_to_the_linked_word(placeholder: Placeholder, expected: str) -> None:
    source, text = "ein Hund rot ist", "a dog red."
    placeholder = replace(placeholder, offset={8: 12}.get(placeholder.offset, placeholder.offset))
    assert insert_placeholders(text, source, [placeholder], linked(source, text, (0, 0), (1, 1), (2, 2)))[0] == expected


def test_insert_placeholders_never_splits_a_word() -> None:
    links: list[Link] = [((0, 4), (0, 2)), ((5, 9), (2, 5))]  # pieces of one word of the translation
    placeholders = [Placeholder(5, "X", " ", " ")]
    assert insert_placeholders("tools here", "Werk zeug da", placeholders, links)[0] == "X tools here"


def test_insert_placeholders_stays_before_the_final_mark() -> None:
    links: list[Link] = [((0, 3), (5, 6))]  # the article belongs to the full stop
    assert insert_placeholders("a dog.", "ein Hund.", [Placeholder(4, "X", " ", " ")], links)[0] == "a dog X."
    assert insert_placeholders("a dog.", "Hund ein.", [Placeholder(5, "Inc.", " ", " ")], [])[0] == "a dog Inc."


@pytest.mark.parametrize(
    ("line", "read", "expected"),
    [
        ("  Hu\u00adnd am\u00a0Strand", "Hund am Strand", ["Hu\u00adnd", "am", "Strand"]),
        ("Cafe\u0301 {Bar} ２４ ﬂiegt…", "Café 24 fliegt…", ["Cafe\u0301", "２４", "ﬂiegt…"]),
        ("EIN 😀 HUND", "ein Hund", ["EIN", "HUND"]),
        ("½ Hund{x} da", "1/2 Hund da", ["½", "Hund", "da"]),
        ("", "Hund", [""]),
    ],
)
def test_original_spans_undo_normalisation(line: str, read: str, expected: list[str]) -> None:
    spans = [match.span() for match in re.finditer(r"\S+", read)]
    found = original_spans(line, read, spans, [match.span() for match in re.finditer(r"\{\w+\}", line)])
    assert [line[start:end] for start, end in found] == expected


@given(
    st.lists(st.sampled_from(["Hund", "ein", ",", ".", "(", ")", "läuft", "犬"]), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["", " "]), st.sampled_from(["", " "])), max_size=5),
    st.data(),
)
def test_insert_placeholders_loses_no_text_and_no_placeholder(
    words: list[str], spans: list[tuple[int, str, str]], data: st.DataObject
) -> None:
    source, text = " ".join(words), " ".join(reversed(words))
    marks = "①②③④⑤"
    placeholders = [
        Placeholder(min(place, len(source)), marks[n], one, other) for n, (place, one, other) in enumerate(spans)
    ]
    placeholders.sort(key=lambda each: each.offset)
    number = st.integers(0, len(words) - 1)
    chosen = data.draw(st.lists(st.tuples(number, number), max_size=8))
    spots = [[match.span() for match in re.finditer(r"\S+", each)] for each in (source, text)]
    links = [(spots[0][one], spots[1][other]) for one, other in chosen]
    found, _ = insert_placeholders(text, source, placeholders, links)
    assert sorted(char for char in found if char in marks) == sorted(each.text for each in placeholders)
    assert "".join(char for char in found if char not in marks and char != " ") == text.replace(" ", "")
    assert not re.search(r"  |[a-zä][①-⑤][a-zä]", found)
