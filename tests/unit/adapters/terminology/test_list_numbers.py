"""Numbers of lists are recognised by their neighbours, and copied into translations."""

from collections.abc import Iterator

import pytest

from transformer_cli import Translator
from transformer_cli.adapters.terminology.list_numbers import with_list_numbers
from transformer_cli.errors import DataError


def numbers(*lines: str) -> list[str]:
    return [number for _, number in with_list_numbers(lines)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["1. Ein Hund", "2. Eine Katze", "10. Ein Rad"], ["1.", "2.", ""]),
        (["IV. Hund", "", "- V. Katze", "vi. Rad"], ["IV.", "", "- V.", "vi."]),
        (["a. Hund", "b. Katze", "x.y", "ж. A", "з. B"], ["a.", "b.", "", "ж.", "з."]),
        (["1. Hund", "1.1 Pfote", " 1.2. Ohr", "## 2. Katze"], ["1.", "1.1", "1.2.", "## 2."]),
        (["1.Hund", "am Strand", "2.", "Katze"], ["1.", "", "2.", ""]),
        (["1. Mai", "1. FC Köln", "1.2 Liter", "2 Hunde", "3 Hunde", "01.02.2020", "02.02.2020"], [""] * 7),
        (["I am", "II. Krieg", "z. B.", "1. Hund", *["x"] * 4, "2. Katze"], [""] * 9),
    ],
)
def test_list_number_counts_beside_the_number_before_or_after(lines: list[str], expected: list[str]) -> None:
    assert numbers(*lines) == expected


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
