"""Finds placeholders, which are copied unchanged: {name}, %s, URLs, e-mail addresses. Knows no tokens and no models."""

import html
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from transformer_cli.adapters.terminology.template_code import code_ends
from transformer_cli.errors import ConfigError
from transformer_cli.text.alignment import Span, TakenSpans
from transformer_cli.text.normalization import SENTINEL, is_word

MAX_REMEMBERED_CHARS = 1000
BRANCH_NAME_WINDOW = 40  # characters before a {…} in which the name of its branch is looked for
_BRACKETS = "()[]<>\"\"''``„“„”“”””«»»«‹››‹‚‘‚’‘’’’（）「」『』【】《》〈〉"
BRACKET_PAIRS = {
    *(_BRACKETS[index : index + 2] for index in range(0, len(_BRACKETS), 2)),
    *("« »".replace(" ", 2 * space) for space in " \u00a0\u202f"),
}

STAND_INS = range(0xF0000, 0x10FFFE)  # characters for private use; each may stand for a protected span
STAND_IN = re.compile(f"[{chr(STAND_INS[0])}-{chr(STAND_INS[-1])}]")
_MASK = "\ufdd1"  # a noncharacter, which stands for each character of code and messages while placeholders are found
# For linear time, no two neighbouring parts repeat the same character: the digits after flags do not begin with 0.
FLAGS = r"[-+0#,(']*(?:\*|(?!0)\d+)?(?:\.(?:\*|\d+))?(?:hh?|ll?|z)?"
_BULLET = (  # of a list, a heading, a quote or a paragraph of a law: -, ##, (1), iv), aa), 1.2), [1], § 5
    r"(?:[*+\u2013\u2014-]|>{1,9}|#{1,6}|\[(?:\d{1,3}|[ xX])\]|\((?:\d{1,3}|[ivx]{2,5}|[IVX]{2,5}|[a-zA-Z])\)"
    r"|(?:\d{1,3}(?:\.\d{1,3}){0,5}\.?|[ivx]{2,5}|[IVX]{2,5}|[a-zA-Z]|[a-z]{2})\)|§{1,2}\s?\d{1,4}[a-z]?)"
)
_URL_CHAR = r"[^\s<>\"()“”„«»‹›（）「」『』【】《》〈〉。，、；]"
_URL_BRACKETS = rf"\({_URL_CHAR}*\)"
_ESC = r"(?:\x1b|\\(?:0?33|e|x1[bB]|u001[bB]))"  # the character, or an escape in source code
TERMINAL_CODE = (  # colours and titles: \033[1;31m, \033]0;title\a
    rf"(?:{_ESC}\[|\x9b)[0-?]{{0,50}}[ -/]{{0,9}}[@-~]"
    rf"|{_ESC}\][^\x07\x1b\\]{{0,200}}(?:\x07|\\a|\\0?07|{_ESC}\\{{1,2}})"
)
PLACEHOLDERS = re.compile(
    rf"{TERMINAL_CODE}|"
    rf"{_MASK}+|"
    r"[$%#@]?\{[ \t]{0,9}[^\s{}]{0,100}[ \t]{0,9}\}|\$t\([^()]{0,100}\)"  # {name}, %{x}, @{x}, { $n }, {0:.2f}, $t(key)
    rf"|%\([\w.-]+\){FLAGS}[a-zA-Z]|%\d+\${FLAGS}[tT]?[a-zA-Z@]|%#@\w+@"  # %(n)s, %1$s, %2$,d, %1$tY, %#@n@
    rf"|(?P<conversion>(?<![\d%])(?:(?:%{FLAGS}[sdiufFgGxXeEcrpn@])+(?:[A-Z]{{0,2}}|_\w{{0,50}})(?!\w)"  # %5.2f, %sB
    r"|%s(?=[^\W\d_])))"  # %sam Strand
    r"|(?<![\d%])%L?[1-9]\d?(?![\w$%]|[.,]\d)|(?<![\w%])%\w{1,50}%(?!\w)|(?<!%)%%(?!%)"  # %1, %L1, %name%, %%
    rf"|(?<!\S)(?<!\S\s){_BULLET}(?:\s{{1,9}}{_BULLET})*(?=\s|\Z)"
    rf"|\b(?:[a-zA-Z][a-zA-Z+.-]{{1,20}}://|www\.)(?:{_URL_CHAR}|{_URL_BRACKETS})*"  # URLs, without final punctuation
    rf"(?:(?![.,;:!?…'‘’‚\]}}*`]){_URL_CHAR}|{_URL_BRACKETS})"
    r"|(?:\bmailto:)?(?<![\w.+-])[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+"
    r"|_{3,}|(?<![^\s:])\.{5,}(?!\w)"  # blanks to fill in
    r"|(?<![\w:])(?::[a-z\d_+-]{2,40}:)+(?![\w:`])"  # emoji by name, as :dog_face:
    r"|\{\w{1,9}>|<\w{1,9}\}"  # tags of Phrase, as .mxliff has them: {1>, <b}
    r"|(?<![\w&;])\w{1,20}&amp;\w{1,20}(?!\w)"  # H&amp;M
    r"|&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,31});"  # may be a character reference of HTML
)
# {n, plural, one {…} other {…}} and {d, date, short} of ICU, { $n -> … } and { NUMBER($n) } of Fluent
_MESSAGE = re.compile(
    r"\{\s{0,9}(?:\w{1,50}\s{0,9},\s{0,9}"
    r"(?:plural|select|selectordinal|choice|number|date|time|spellout|ordinal|duration)\b"
    r"|\$[\w-]{1,50}\s{0,9}->|[A-Z]{2,20}\()"
)
_BRANCH = re.compile(  # the name before a {…}, if the text is a part of a message: "one {a dog}", not "any one {a, b}"
    r"(?:=\d{1,9}|(?:\A|(?<=\})|(?<=\}\s))(?:zero|one|two|few|many|other))\s{0,9}\Z"
)


@dataclass(frozen=True)
class PlaceholderFinder:
    """Finds the protected spans of a text."""

    builtin: bool = True
    """whether to find PLACEHOLDERS, and messages of ICU and Fluent"""
    pattern: str = ""
    """a regular expression for further spans"""

    def __post_init__(self) -> None:
        """Raises ConfigError if the pattern is invalid."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's, about syntax that may change
                re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"protect_pattern {self.pattern!r} is not a regular expression: {error}") from None

    def spans(self, text: str) -> list[Span]:
        """Returns the protected spans, without white space around them, from left to right.

        A span includes the brackets or quotes around a placeholder. The spans of short texts are cached, since they are
        asked for several times.
        """
        return _find_again(self, text) if len(text) <= MAX_REMEMBERED_CHARS else self.find(text)

    def find(self, text: str) -> list[Span]:
        """Like `spans`, without the cache."""
        found = list[Span]()
        for each in re.finditer(self.pattern, text) if self.pattern else ():
            if inner := each[0].strip():
                start = each.start() + each[0].index(inner)
                found.append((start, start + len(inner)))
        taken = TakenSpans(text, found)
        matches = PLACEHOLDERS.finditer(_mask_code(text)) if self.builtin else iter(())
        stand_ins = re.finditer(rf"{SENTINEL}|{STAND_IN.pattern}", text)
        for span in [each.span() for each in chain(filter(_is_placeholder, matches), stand_ins)]:
            if free := next(filter(taken.is_free, (_with_brackets(text, *span), span)), None):
                found.append(taken.take(free))
        return sorted(found)


@lru_cache(256)
def _find_again(finder: PlaceholderFinder, text: str) -> list[Span]:
    return finder.find(text)


def message_spans(text: str, code: Mapping[int, int] | None = None) -> Iterator[Span]:
    """Yield the spans of messages of ICU and Fluent that choose among texts or format a value; inner ones first.

    code: the `code_ends` of the text, if they are known.
    """
    open_braces, code = list[int](), code_ends(text) if code is None else code
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif open_braces:
            start, end = open_braces.pop(), brace.end()
            branch = _BRANCH.search(text, max(0, start - BRANCH_NAME_WINDOW), start)
            if branch and not (code.get(start) == end or PLACEHOLDERS.fullmatch(text, start, end)):
                yield branch.start(), end
            elif _MESSAGE.match(text, start):
                yield start, end


def has_branches(message: str) -> bool:
    """Whether a protected span is a message that chooses among texts, which are not translated."""
    messages = (message[start:end] for start, end in message_spans(message))
    return any(each.count("{") > 1 or each[0] != "{" or "->" in each for each in messages)


def _mask_code(text: str) -> str:
    """Returns a text of the same length, in which _MASK stands for template code and messages."""
    code = code_ends(text)
    spans = sorted([*message_spans(text, code), *code.items()], key=lambda span: (span[0], -span[1]))
    if not spans:
        return text
    characters, taken = list(text), TakenSpans(text)
    for start, end in spans:
        if taken.is_free((start, end)):
            characters[slice(*taken.take((start, end)))] = _MASK * (end - start)
    return "".join(characters)


def _is_placeholder(found: re.Match[str]) -> bool:
    """Whether a match of PLACEHOLDERS is a placeholder: &amp; is one; &x; and letters such as &uuml; are not."""
    character = html.unescape(found[0])
    return found[0][0] != "&" or not (is_word(character[:1]) or character == found[0])


def _with_brackets(text: str, start: int, end: int) -> Span:
    """Returns a span with the brackets or quotes around it, if any: the model might not write them."""

    def has_brackets(width: int) -> bool:
        is_closing = width == 2 and is_word(text[start - 3 : start - 2])  # »a« {b} »c«
        return not is_closing and text[max(0, start - width) : start] + text[end : end + width] in BRACKET_PAIRS

    while width := next(filter(has_brackets, (1, 2)), 0):
        start, end = start - width, end + width
    return start, end
