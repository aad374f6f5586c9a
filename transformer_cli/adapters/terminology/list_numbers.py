"""Finds the numbers of lists, such as 1., IV. and 1.2, at the beginning of lines.

"1. Mai" and "1.2 Liter" begin in the same way, so a number counts only if a line nearby has the number before or after
it. Knows no tokens and no models.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product

from transformer_cli.errors import TfmError

WINDOW = 4  # lines before and after a number, blank ones included: an item may go on in the next line

_NUMBER = re.compile(
    r"[\s#>]*(?:[-*+\u2022\u2013\u2014]\s+)?"
    r"((?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivx]{1,7}|[IVX]{1,7}|[^\W\d_])\.|\d{1,3}(?:\.\d{1,3}){1,5})"
    r"(?=\s|\Z|(?<=\.)[^\W\d_])"
)
_ONES = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_ROMAN = [tens + ones for tens in ("", "X", "XX", "XXX") for ones in _ONES]
_ROMAN_KIND, _LETTER_KIND = -10, -20
_Number = tuple[int, ...]  # (1, 2) for 1.2, (_ROMAN_KIND, 4) for IV.


def with_list_numbers(lines: Iterable[str], must_wait: Callable[[], bool] = lambda: False) -> Iterator[tuple[str, str]]:
    """Yield each line and its list number without white space, such as "3."; "" for a line without one.

    must_wait: whether the next line has not arrived yet; then the lines after a number are not looked at. If reading
    raises a TfmError, the lines before it are yielded first.
    """
    reader, ahead, before = iter(lines), deque[str](), deque[list[_Number]](maxlen=WINDOW)
    failure: TfmError | None = None
    while (line := ahead.popleft() if ahead else next(reader, None)) is not None:
        found = _NUMBER.match(line)
        try:
            while found and len(ahead) < WINDOW and not must_wait() and (after := next(reader, None)) is not None:
                ahead.append(after)
        except TfmError as error:
            failure = error
        here, following = _readings(found), chain.from_iterable(_readings(_NUMBER.match(each)) for each in ahead)
        pairs = chain(product(chain.from_iterable(before), here), product(here, following))
        before.append(here)
        yield line, line[: found.end()].strip() if found and any(_follows(*pair) for pair in pairs) else ""
    if failure:
        raise failure


def _readings(found: re.Match[str] | None) -> list[_Number]:
    """Returns the numbers as which a match may be read: V. is a letter or Roman."""
    label = found[1].removesuffix(".") if found else ""
    if label[:1].isdecimal():
        return [tuple(map(int, label.split(".")))]
    roman: list[_Number] = [(_ROMAN_KIND, _ROMAN.index(label.upper()))] if label and label.upper() in _ROMAN else []
    return [*roman, (_LETTER_KIND, ord(label))] if len(label) == 1 else roman


def _follows(one: _Number, other: _Number) -> bool:
    """Whether a number comes after another one: 1.2.1, 1.3 and 2 come after 1.2."""
    last = len(other) - 1
    return other[:last] == one[:last] and other[last] == (*one, 0)[last] + 1
