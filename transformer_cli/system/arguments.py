"""Arguments that take one value or several."""

from collections.abc import Iterable, Mapping
from typing import Any

from transformer_cli.errors import ArgumentError
from transformer_cli.system.terminal import shorten

MAX_VALUE_CHARS = 60  # of a value in a message


def check_list(name: str, value: object, items: str = "str") -> None:
    """Raises ArgumentError for an argument that is a string, bytes, a mapping, or not iterable.

    items: the type of the items, for the message.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ArgumentError(f"{name}: {shorten(repr(value), MAX_VALUE_CHARS)}, where a list of {items} is wanted")


def as_list(value: Any) -> list[Any]:
    """Returns one value, or an iterable of values, as a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
