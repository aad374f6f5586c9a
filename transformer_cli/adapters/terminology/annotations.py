"""Finds what a person ought to check in a translation, and lists placeholders and terms as JSON."""

import re
import unicodedata
from collections import Counter
from typing import Any

from transformer_cli.adapters.terminology.placeholders import has_branches
from transformer_cli.pipeline import Translation
from transformer_cli.text.alignment import Span
from transformer_cli.text.languages import TARGET_TOKEN
from transformer_cli.text.normalization import is_spaceless, is_word

NUMBER = re.compile(r"\d+(?:[.,:/'’٫٬-]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")
MAX_PHRASE = 20  # words; longer phrases that repeat are not found
LETTER_LOOP = re.compile(r"([^\W\d_]{1,4}?)\1{4}", re.IGNORECASE)  # "mononicicicicic"


def to_check(translation: Translation) -> list[str]:
    """Returns what a person ought to check in a translation, such as "a number is missing".

    A new kind is another line here, or in `to_check_in_block` of documents/translate.py if only documents have it.
    Warnings (which add "in 3") and reports show it without further changes.
    """
    source = translation.source
    if translation.was_too_long:
        return ["a source that is too long"]
    lengths = {each.unusual_length for each in translation.sentences or [translation]}
    found = {
        "too short": "too short" in lengths,
        "too long": "too long" in lengths,
        "repeats": has_repeats(translation.text) and not has_repeats(source, min_chars=1),
        "a number is missing": missing_numbers(source, translation.text),
        "a term is missing": any(place is None for _, place in translation.terms),
        "a term may stand beside its translation": translation.has_unaligned_term,
        "alternatives are untranslated": any(has_branches(source[slice(*one)]) for one, _ in translation.placeholders),
    }
    return [what for what, is_found in found.items() if is_found]


def annotations(translation: Translation) -> dict[str, list[Any]]:
    """Returns placeholders, terms and missing numbers as JSON; spans are lists [start, end]."""
    placeholders, terms = translation.placeholders, translation.terms
    return {
        "placeholders": [{"source": list(source), "translation": list(place)} for source, place in placeholders],
        "terms": [{"source": list(source), "translation": place and list(place)} for source, place in terms],
        "missing_numbers": list(map(list, missing_numbers(translation.source, translation.text))),
        "check": to_check(translation),
    }


def has_repeats(text: str, min_chars: int = 2) -> bool:
    """Whether a word or phrase stands three times in a row, whatever the punctuation, or letters five times in a word.

    min_chars: of a phrase in a script without spaces, whose characters count as words. Numbers may repeat.
    """
    chars = (" " if not is_word(char) else f" {char} " if is_spaceless(char) else char for char in text.casefold())
    words = "".join(chars).split()
    return LETTER_LOOP.search(text) is not None or any(
        words[i : i + n] == words[i + n : i + 2 * n] == words[i + 2 * n : i + 3 * n]
        and not "".join(words[i : i + n]).isdecimal()
        and (n >= min_chars or not is_spaceless(words[i]))
        for n in range(1, MAX_PHRASE + 1)
        for i in range(len(words) - 3 * n + 1)
    )


def missing_numbers(source: str, text: str) -> list[Span]:
    """Returns the spans of numbers in a source whose digits its translation lacks.

    1.234,5 is the same as 1,234.5, and 24.12. as 12/24. Each number of the translation counts once. Numbers in words
    are not recognised, nor is that of a target token such as <2en>.
    """
    token = TARGET_TOKEN.match(source)
    n_found = Counter(_digits(each[0]) for each in NUMBER.finditer(text))
    text_groups = _digit_groups(text)
    spans: list[Span] = []
    for each in NUMBER.finditer(source, token.end() if token else 0):
        digits, groups = _digits(each[0]), _digit_groups(each[0])
        if n_found[digits]:
            n_found[digits] -= 1
        elif groups.total() < 2 or not groups <= text_groups:
            spans.append(each.span())
    return spans


def _digit_groups(text: str) -> Counter[str]:
    return Counter(map(_digits, re.findall(r"\d+", text)))


def _digits(number: str) -> str:
    return "".join(str(unicodedata.decimal(char)) for char in number if char.isdecimal())
