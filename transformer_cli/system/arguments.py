"""Arguments that take one value or several."""

from collections.abc import Iterable
from typing import Any

from transformer_cli.errors import ArgumentError
from transformer_cli.system.terminal import shorten

MAX_VALUE_CHARS = 60  # of a value in a message


def refuse_str(name: str, value: object) -> None:
    """Raises ArgumentError if an argument is one str instead of a list, which Python would read letter by letter."""
    if isinstance(value, str | bytes):
        raise ArgumentError(f"{name}: {shorten(repr(value), MAX_VALUE_CHARS)}, where a list of str is wanted")


def as_list(value: Any) -> list[Any]:
    """Returns one value, or an iterable of values, as a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
