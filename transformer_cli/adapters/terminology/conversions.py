"""Keeps the directives of format strings, such as %s and ~A, as gettext's flag of a message defines them.

A program fills the first directive with its first value. A translation with another order needs numbers, as in %2$s;
in languages that have none, directives return to the order of the source. The rules are those of `msgfmt -c` (gettext's
format-*.c). Knows no files.
"""

import re
from collections.abc import Collection, Iterator
from itertools import count
from typing import NamedTuple

from transformer_cli.adapters.terminology.placeholders import PLACEHOLDERS, STAND_IN, STAND_INS

# For linear time, the digits of a width do not begin with 0, which is a flag.
_WIDTH = r"(?:\*(?:\d+\$)?|(?!0)\d+)?(?:\.(?:\*(?:\d+\$)?|\d*))?"
_INDEX, _PARAMETER = r"(?:\[\d+\])", r"(?:[-+]?\d+|'.|[vV#])"  # of Go and Lisp
_RULES = {  # gettext's flags, without -format → directives
    "awk c elisp gfc-internal java-printf javascript librep lua modula2 objc ocaml perl php python ruby tcl": (
        rf"%(?:\d+\$|\([^()]*\))?[-+ #0,(^I']*(?:(?<=')[*_=~])?(?:\*?v)?{_WIDTH}(?:<(?!PRI)[^<>]*>{_WIDTH}(?=\w))?"
        r"(?:hh?|ll?|[LqjztVw]|wf)?(?:[a-zA-Z_@]|<PRI\w+>)|%[-+ #\d.]*%|%\{[^{}]*\}"
    ),
    "boost": rf"%\d+%|%\|[^|\s]*\||%(?:\d+\$)?[-+ #0'_=hl]*{_WIDTH}[hlL]*[a-zA-Z%]",
    "gcc-internal": r"%(?:\d+\$)?[qlwzt+#]*(?:\.(?:\*(?:\d+\$)?|\d+))?[a-zA-Z@%'<>{}]",
    "go d": rf"%[-+ #0]*(?:{_INDEX}?\*|(?!0)\d+)?(?:\.(?:{_INDEX}?\*|\d*))?{_INDEX}?[a-zA-Z%]",
    "object-pascal pascal": r"%(?:(?:\*|\d*):)?-?(?:\*|\d+)?(?:\.(?:\*|\d*))?[a-zA-Z]|%%",
    "lisp scheme": rf"~{_PARAMETER}?(?:,{_PARAMETER}?)*[:@]*(?:/[^/]+/|[a-zA-Z%&|~*?_;^<>(){{}}\[\]!$])",
    "sh": r"\$(?:\w+|\{\w+\})",
    "qt qt-plural kde kde-kuit smalltalk ycp": r"%L?(?:\d{1,2}|n)|%%",
    "python-brace csharp c++-brace rust": (
        r"(?<!\{)\{(?:\w[\w.\[\]]*)?(?:![rsa])?(?:,[^{}:]*)?(?::[^{}]*(?:\{\w*\}[^{}]*)*)?\}(?!\})"
    ),
}
_RULE_OF = {flag: re.compile(rule) for flags, rule in _RULES.items() for flag in flags.split()}
_QUOTED = re.compile(rf"%<(?:[^%]|%[^<>])*%>|%\{{(?:[^%]|%[^{{}}])*%\}}|%r(?:[^%]|%[^rR])*%R|{_RULES['gcc-internal']}")
"""%<code%> of gcc-internal, or a directive"""
_CODE = (  # options of programs (--quiet, -q, --output=FILE), and code of reStructuredText and Markdown
    r"(?<![^\s(\[|'\"„`])(?:--[a-z][\w-]*(?<!-)|-[a-zA-Z])(?![\w-])(?:\[?=[^\s\\,;:)\"'`]*)?"
    r"|``(?:[^`\\]|\\[^n])+``|(?<![\w`]):[a-zA-Z][\w:+.-]*:`[^`<>]+`|(?<![\w`])`(?!\s)[^`<>]+(?<!\s)`_{0,2}(?![\w`])"
    r"|(?<![\w|])\|[a-zA-Z][\w.-]*\|(?![\w|])"
)
_ANY = re.compile(r"%[^\s\w%]*\w+|\{[^{}]*\}|~[^\s\w~]*\w|\$\{?\w+")  # directives of a flag without a rule
_WITHOUT_NUMBERS = ("", "python", "lua", "modula2", "lisp", "scheme", "d")
_UNORDERED = re.compile(  # %1$s, $x, %(x)s, %<x>s, %0:s, %[1]d, %1%, %1, {x}; and %%, %m, %n, ~%, which take no value
    r".*\$.*|%\(.*\).*|%[-+ #\d.]*<(?!PRI).*\w|%\d+:.*|.*\[\d.*|%[^a-zA-Z|]*%|%[mnR'<>}]|%L?\d+|%?\{\w.*|~[%~&|]"
)
_NUMBER = re.compile(r"(?<!\d)\d+\$|(?<=%)\d*:|\[\d+\]|(?<=\{)\d+")


class _Conversion(NamedTuple):
    text: str
    group: int
    """those of one message that are filled in order; any other conversion is a group of its own"""
    number: int
    """in its group: that of its first value"""
    format: str
    """gettext's flag, without -format"""

    @property
    def numbered(self) -> str:
        """The conversion with numbers, such as %2$s."""
        numbers = count(self.number)

        def add_number(found: re.Match[str]) -> str:
            if _UNORDERED.fullmatch(text := found[0]):
                return text
            if "pascal" in self.format or text[0] == "{":
                return f"{text[0]}{next(numbers) - 1}{':' * (text[0] == '%')}{text[1:]}"
            at = len(text) - 1 if self.format == "go" else 1 + text.startswith("%|")
            return f"{text[:at]}{f'[{next(numbers)}]' if self.format == 'go' else f'{next(numbers)}$'}{text[at:]}"

        return _RULE_OF[self.format].sub(add_number, self.text)


class Conversions:
    """The directives of all messages of a file. While a message is translated, a protected stand-in replaces each."""

    def __init__(self) -> None:
        self._found: list[_Conversion] = []
        self.is_enabled = True  # not for a text that has such characters
        self.keeps_code = False  # whether to keep options of programs, and code in backticks
        self._format, self._group, self._n_in_group = "", 0, 0

    def start_message(self, flags: Collection[str] = ()) -> None:
        """Start a message. flags: those of gettext, such as c-format."""
        self._format = next((each for each in _RULE_OF if f"{each}-format" in flags), "")
        self._group, self._n_in_group = len(self._found), 0

    def hold(self, text: str, group: int | None = None, number: int = 1) -> str:
        """Returns a stand-in for a text that stays as it is; "" if there is none left."""
        if not self.is_enabled or len(self._found) >= len(STAND_INS):
            return ""
        self._found.append(_Conversion(text, ~len(self._found) if group is None else group, number, self._format))
        return chr(STAND_INS[len(self._found) - 1])

    def replace(self, text: str) -> str:
        """Returns a part of the message with stand-ins."""
        rule = _RULE_OF.get(self._format, PLACEHOLDERS)

        def stand_in(found: re.Match[str]) -> str:
            is_percentage = found[0][1:2] == " " and text[found.end() : found.end() + 1].isalpha()  # 20 % der Hunde
            is_other = not (self._format or found["conversion"] or found[0][0] in "-:`|")
            if is_percentage or is_other:
                return found[0]
            values = (each[0] for each in rule.finditer(found[0]) if self._format or each["conversion"])
            n_values = sum(not _UNORDERED.fullmatch(each) for each in values)
            number, self._n_in_group = self._n_in_group + 1, self._n_in_group + n_values
            return self.hold(found[0], self._group if n_values else None, number) or found[0]

        kept = _QUOTED if self._format == "gcc-internal" else rule
        kept = re.compile(f"{_CODE}|{kept.pattern}") if self.keeps_code else kept  # re caches it
        return kept.sub(stand_in, text) if self.is_enabled else text

    def restore(self, text: str) -> str:
        """Returns a text with the conversions; those of a message are numbered if they have another order."""
        written: dict[int, str] = {}
        for order in self._orders(text):
            has_numbers = order != sorted(order) and not self._loses(order)
            for index, source_index in zip(order, order if has_numbers else sorted(order), strict=True):
                original = self._found[source_index]
                written[index] = original.numbered if has_numbers else original.text
        return STAND_IN.sub(lambda found: written.get(STAND_INS.index(ord(found[0])), found[0]), text)

    def loses_order(self, text: str) -> bool:
        """Whether conversions have another order in a translation, but `restore` cannot number them."""
        return any(map(self._loses, self._orders(text)))

    def _loses(self, order: list[int]) -> bool:
        found = [self._found[index] for index in order]
        have_none = any(each.format in _WITHOUT_NUMBERS or re.search(r"(?<!')\*", each.text) for each in found)
        return order != sorted(order) and have_none

    def _orders(self, text: str) -> Iterator[list[int]]:
        """Yield the indices of each group's conversions, in the order of a text."""
        found: dict[int, list[int]] = {}
        for index in map(STAND_INS.index, map(ord, STAND_IN.findall(text))):
            if index < len(self._found):
                found.setdefault(self._found[index].group, []).append(index)
        yield from found.values()


def has_other_directives(source: str, target: str, flags: Collection[str]) -> bool:
    """Whether a translation has other directives than its source, by gettext's flags, such as c-format."""
    for flag in flags:
        if re.fullmatch(r"(?!no-|possible-).*-format", flag):
            rule = _RULE_OF.get(flag.removesuffix("-format"), _ANY)
            one, other = ([_NUMBER.sub("", found[0]) for found in rule.finditer(text)] for text in (source, target))
            if sorted(one) != sorted(other) or (one != other and any(each[1:2] == " " for each in one)):  # 20 % der
                return True
    return False
