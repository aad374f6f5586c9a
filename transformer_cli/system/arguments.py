"""Arguments that may be one value or several."""

from collections.abc import Iterable
from typing import Any

from transformer_cli.errors import ArgumentError
from transformer_cli.system.terminal import shorten

MAX_VALUE_CHARS = 60  # characters of a value


def refuse_str(name: str, value: object) -> None:
    """Raises ArgumentError for one str where a list of str is wanted: Python would take it letter by letter."""
    if isinstance(value, str | bytes):
        raise ArgumentError(f"{name}: {shorten(repr(value), MAX_VALUE_CHARS)}, where a list of str is wanted")


def as_list(value: Any) -> list[Any]:
    """Returns one name, or several of them, as a list of names."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
