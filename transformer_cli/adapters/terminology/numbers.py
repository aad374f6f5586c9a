"""Amounts: the numbers of a text that its translation lacks, however their digits are grouped."""

import re
import unicodedata
from collections import Counter

from transformer_cli.text.alignment import Span

NUMBER = re.compile(r"\d+(?:[.,:/'’٫٬-]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")


def missing_numbers(source: str, text: str) -> list[Span]:
    """Returns where the numbers of a source stand of which a translation lacks the digits.

    1.234,5 is 1,234.5, and 24.12. is 12/24. Each number of the translation counts once; numbers in words do not.
    """
    there = Counter(_digits(each[0]) for each in NUMBER.finditer(text))
    parts = _parts(text)
    found: list[Span] = []
    for each in NUMBER.finditer(source):
        digits, own = _digits(each[0]), _parts(each[0])
        if there[digits]:
            there[digits] -= 1
        elif own.total() < 2 or not own <= parts:
            found.append(each.span())
    return found


def _parts(text: str) -> Counter[str]:
    return Counter(map(_digits, re.findall(r"\d+", text)))


def _digits(number: str) -> str:
    return "".join(str(unicodedata.decimal(char)) for char in number if char.isdecimal())
