"""Numbers of lists are recognised by their neighbours, and copied into translations."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables import read_tables
from transformer_cli import Translator
from transformer_cli.adapters.terminology.list_numbers import with_list_numbers
from transformer_cli.errors import DataError


@pytest.mark.parametrize(("lines", "expected"), read_tables(Path(__file__).with_name("terms.txt"))["list numbers"])
def test_list_number_counts_beside_the_number_before_or_after(lines: str, expected: str) -> None:
    assert "\n".join(number for _, number in with_list_numbers(lines.split("\n"))) == expected


def test_list_numbers_yield_the_lines_before_an_error() -> None:
    def lines() -> Iterator[str]:
        yield from ("1. a", "2. b")
        raise DataError("line 3")

    found = with_list_numbers(lines())
    assert [next(found), next(found)] == [("1. a", "1."), ("2. b", "2.")]
    with pytest.raises(DataError, match="line 3"):
        next(found)


def test_list_numbers_do_not_wait_for_the_next_line() -> None:
    read = iter(["1. a", "2. b", "3. c"])
    found = with_list_numbers(read, must_wait=lambda: True)
    assert (next(found), next(read)) == (("1. a", ""), "2. b")
    assert [*found] == [("3. c", "")]


@pytest.mark.parametrize("split", [False, True])
def test_translate_copies_list_numbers(translator: Translator, split: bool) -> None:
    dog, cat = "Der alte Hund singt im Park.", "Die junge Katze schläft zu Hause."
    translator = translator.with_options(split_sentences=split)
    one, other = translator.translate([dog, cat])
    listed = ["1. " + dog, "(a) " + dog, "2. (b) " + cat, "§ 5 " + cat]
    expected = ["1. " + one, "(a) " + one, "2. (b) " + other, "§ 5 " + other]
    assert translator.translate(listed) == expected
    assert [each.text for each in translator.stream(listed, chunk=1)] == expected
    assert translator.translate(["\r\n".join(listed)]) == ["\r\n".join(expected)]
    assert translator.translate_html(f"<p>IV. {dog}<p>V. {cat}") == f"<p>IV. {one}<p>V. {other}"
    assert translator.with_options(protect=False).translate(listed) != expected
