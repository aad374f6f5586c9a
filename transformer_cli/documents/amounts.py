"""Amounts: the numbers of a text that its translation lacks, however their digits are grouped."""

import re
import unicodedata

from transformer_cli.documents.held import Span

NUMBER = re.compile(r"\d+(?:[.,:/'’٫٬-]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")


def missing_numbers(source: str, text: str) -> list[Span]:
    """Returns where the numbers of a source stand of which a translation lacks the digits.

    1.234,5 is 1,234.5, and 24.12. is 12/24. Each number of the translation counts once; numbers in words do not.
    """
    there = [_digits(each[0]) for each in NUMBER.finditer(text)]
    parts = [part for each in NUMBER.finditer(text) for part in _parts(each[0])]
    found: list[Span] = []
    for each in NUMBER.finditer(source):
        digits, own = _digits(each[0]), _parts(each[0])
        if digits in there:
            there.remove(digits)
        elif len(own) < 2 or any(own.count(part) > parts.count(part) for part in own):
            found.append(each.span())
    return found


def _parts(number: str) -> list[str]:
    return [_digits(part) for part in re.findall(r"\d+", number)]


def _digits(number: str) -> str:
    return "".join(str(unicodedata.decimal(char)) for char in number if char.isdecimal())
