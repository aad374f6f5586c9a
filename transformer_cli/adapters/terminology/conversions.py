"""Keeps the conversions of printf, such as %s and %d, in an order that programs understand. Knows no files.

A program fills the first conversion with its first value. A translation with another order needs numbers, as in %2$s;
in languages that have none, conversions return to the order of the source.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from transformer_cli.adapters.terminology.placeholders import FLAGS, PLACEHOLDERS, STAND_IN, STAND_INS

_NUMBERED = ("c", "objc", "php", "perl", "java-printf", "awk", "tcl", "ruby", "elisp", "boost", "javascript")
_PRINTF = re.compile(
    r"(?P<conversion>%[%mn]|%\([^()%\s]{1,99}\)[-+0#.\d]*[a-zA-Z]"
    rf"|%(?:\d+\$)?{FLAGS}[jtLq]?(?:[diouxXeEfFgGaAcCsSpqbBhHr@]|[tT][a-zA-Z]|<PRI\w{{1,9}}>))"
)
_OTHERS = {
    "sh": re.compile(r"(?P<conversion>\$(?:\w+|\{\w+\}))"),
    "scheme": re.compile(r"(?P<conversion>~[a-zA-Z%~])"),
}
_FORMATS = (*_NUMBERED, "python", "lua", *_OTHERS)  # of gettext's flags, such as c-format


class _Conversion(NamedTuple):
    text: str
    group: int
    """those of one message that are filled in order; any other conversion is a group of its own"""
    number: int
    """in its group"""
    may_have_number: bool


class Conversions:
    """The conversions of all messages of a file; stand-ins, which are protected spans, replace them in translations."""

    def __init__(self) -> None:
        self._found: list[_Conversion] = []
        self.is_enabled = True  # not for a text that has such characters
        self._format, self._group, self._n_in_group = "", 0, 0

    def start_message(self, flags: Iterable[str] = ()) -> None:
        """Start a message. flags: those of gettext, such as c-format."""
        formats = (flag.removesuffix("-format") for flag in flags)
        self._format = next(filter(_FORMATS.__contains__, formats), "")
        self._group, self._n_in_group = len(self._found), 0

    def replace(self, text: str) -> str:
        """Returns a part of the message with stand-ins."""

        def stand_in(found: re.Match[str]) -> str:
            if not found["conversion"] or len(self._found) >= len(STAND_INS):
                return found[0]
            is_named = found[0].startswith("%(") or "$" in found[0]  # %(name)s, %1$s, $name
            has_order = not is_named and found[0] not in ("%%", "%m", "%n", "~%", "~~")
            self._n_in_group += has_order
            group = self._group if has_order else ~len(self._found)
            may_have_number = self._format in _NUMBERED and "*" not in found[0]
            self._found.append(_Conversion(found[0], group, self._n_in_group, may_have_number))
            return chr(STAND_INS[len(self._found) - 1])

        pattern = _OTHERS.get(self._format, _PRINTF if self._format else PLACEHOLDERS)
        return pattern.sub(stand_in, text) if self.is_enabled else text

    def restore(self, text: str) -> str:
        """Returns a text with the conversions; those of a message are numbered if they have another order."""
        written: dict[int, str] = {}
        for order in self._orders(text):
            has_numbers = order != sorted(order) and not self._loses(order)
            for index, source_index in zip(order, order if has_numbers else sorted(order), strict=True):
                original, _, number, _ = self._found[source_index]
                written[index] = f"%{number}${original[1:]}" if has_numbers else original
        return STAND_IN.sub(lambda found: written.get(STAND_INS.index(ord(found[0])), found[0]), text)

    def loses_order(self, text: str) -> bool:
        """Whether conversions have another order in a translation, but `restore` cannot number them."""
        return any(map(self._loses, self._orders(text)))

    def _loses(self, order: list[int]) -> bool:
        return order != sorted(order) and not all(self._found[index].may_have_number for index in order)

    def _orders(self, text: str) -> Iterator[list[int]]:
        """Yield the indices of each group's conversions, in the order of a text."""
        found: dict[int, list[int]] = {}
        for index in map(STAND_INS.index, map(ord, STAND_IN.findall(text))):
            if index < len(self._found):
                found.setdefault(self._found[index].group, []).append(index)
        yield from found.values()
