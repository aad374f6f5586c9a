"""Finds code of templates in text: {{ x }}, {% if x %}, {# x #}, <%= x %>, <?= x ?>, ${x}, #{x}. Takes linear time."""

import re

from transformer_cli.text.normalization import is_word

_OPENING = re.compile(r"\{[{%#]|<[%?]|[$#]\{")
_PAIRS = {"{": "}", "{%": "%}", "{#": "#}", "<%": "%>", "<?": "?>"}


def code_ends(text: str, boundary: str = "(?!)") -> dict[int, int]:
    """Returns start → end of each piece of code in a text, also of those inside another one.

    Brackets of one kind may be nested, and brackets in quoted strings do not count: {{ {"a": "}}"} }} is one piece.
    Code that is not closed is text. boundary: a regular expression for what no code contains, such as <p>.
    """
    found: dict[int, int] = {}
    if not _OPENING.search(text):
        return found
    for opening in filter(text.__contains__, _PAIRS):
        ends = bracket_ends(text, opening, boundary)
        if opening == "{":
            own = {start: end for start, end in ends.items() if ends.get(start + 1) == end - 1}
            ends = own | {start - 1: end for start, end in ends.items() if text[start - 1 : start] in ("$", "#")}
        found |= ends
    return found


def bracket_ends(text: str, opening: str, boundary: str = "(?!)") -> dict[int, int]:
    """Returns start → end of each pair of brackets; if it would be unclosed otherwise, also of those in strings."""
    brackets = f"{re.escape(opening)}|{re.escape(_PAIRS[opening])}"
    marks = [*re.finditer(rf"(?P<boundary>{boundary})|\\[\\\"'`]|{brackets}|[\"'`]", text)]
    ends: dict[int, int] = {}
    for has_strings in (False, True):
        closing = [-1] * (len(marks) + 1)  # from each mark on, the first closing bracket that has no opening one
        next_quote: dict[str, int] = {}
        for index in reversed(range(len(marks))):
            start, mark, following = marks[index].start(), marks[index][0], index + 1
            if marks[index]["boundary"]:
                next_quote = {}
                continue
            if mark == _PAIRS[opening]:
                closing[index] = index
                continue
            if mark == opening and closing[following] >= 0:
                ends[start] = marks[closing[following]].end()
                following = closing[following] + 1
            elif has_strings and mark in "\"'`":
                is_apostrophe = mark == "'" and is_word(text[start - 1 : start])
                following = following if is_apostrophe else next_quote.get(mark, index) + 1
                next_quote[mark] = index
            closing[index] = closing[following]
    return ends
