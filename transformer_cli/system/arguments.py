"""Whether a function of Python was given what it takes: said in one line, before any work. Knows annotations alone.

Where a Path is wanted, a str will do: the function is given the Path.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from transformer_cli.errors import ArgumentError
from transformer_cli.system.terminal import shortened

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WORDS = {str: "a str", int: "a whole number", float: "a number", bool: "True or False", bytes: "bytes"}
NOT_LISTS = (str, bytes, Mapping)
MOST_SHOWN = 60  # characters of a value

_hints = cache(get_type_hints)


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Returns a function that raises ArgumentError for an argument that is not what its annotation says."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:  # the call itself says what is missing
            return function(*args, **kwargs)
        given.arguments.update(check(function, given.arguments))
        return function(*given.args, **given.kwargs)

    return call


def check(owner: Callable[..., object], values: Mapping[str, object], *, first: int = 0) -> dict[str, Path]:
    """Returns the Paths of those of these values that are a str where a Path alone is wanted.

    first: the number of a list's first item. Raises ArgumentError for the first value that is not what a function, or a
    class, says of its name.
    """
    hints, paths = _hints(owner), {}
    for name, value in values.items():
        hint = hints.get(name, Any)
        if isinstance(value, str) and _is_path(hint):
            paths[name] = Path(value)
        elif misfit := _misfit(value, hint, first):
            place, part, wanted = misfit
            where = f"{owner.__qualname__.removesuffix('.__init__')}: {name}{place}"
            raise ArgumentError(f"{where}: {_shown(part)}, where {_words(wanted)} is wanted")
    return paths


def as_list(value: Any) -> list[Any]:
    """Returns one name, or several of them, as a list of names."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _is_path(hint: Any) -> bool:
    """Whether a Path is wanted, for which a str will do."""
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return Path in choices and str not in choices


def _misfit(value: Any, hint: Any, first: int = 0) -> tuple[str, Any, Any] | None:
    """Returns the innermost part of a value that is not of its type: its place there, itself, and its type; or None.

    Numbers may be NumPy's; a list may be any iterable but a str. Where a Sequence is wanted, it needs a length and an
    order, and where an Iterable is, what an iterator yields is not looked at. first: the number of a list's first item.
    """
    origin, inner, whole = get_origin(hint), get_args(hint), ("", value, hint)
    if hint is Any or isinstance(hint, TypeVar):
        return None
    if origin in (Union, UnionType):
        found = [_misfit(value, each, first) for each in inner]
        return None if None in found else next((each for each in found if each and each[0]), whole)
    if origin is Literal:
        return None if value in inner else whole
    items: Iterable[tuple[object, Any]]
    if origin and issubclass(origin, Mapping):
        if not isinstance(value, Mapping) or any(_misfit(key, inner[0]) for key in value):
            return whole
        items, inner = value.items(), inner[1:]
    elif origin and issubclass(origin, Iterable):
        if isinstance(value, NOT_LISTS) or not isinstance(value, Iterable):
            return whole
        if not isinstance(value, Collection):
            return whole if issubclass(origin, Sequence) else None
        if origin is tuple and len(value) != len(inner):  # no function takes tuples of any length
            return whole
        if issubclass(origin, Sequence) and not hasattr(value, "__getitem__"):
            return whole
        items = enumerate(value, first)
    else:
        kind = {int: Integral, float: Real}.get(hint, origin or hint)
        return None if isinstance(value, kind) and (hint is bool or not isinstance(value, bool)) else whole
    for place, item in items:
        if misfit := _misfit(item, inner[0]):
            deeper, part, wanted = misfit
            return f", item {place!r}{deeper}", part, wanted
    return None


def _words(hint: Any) -> str:
    """Returns what is wanted, in words: "a str or a list of str"."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in inner if each is not NoneType))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin and issubclass(origin, Mapping):
        return f"a mapping of {_words(inner[0]).removeprefix('a ')}"
    if origin is tuple:
        return f"a tuple of {len(inner)} {_words(inner[0]).removeprefix('a ')}"
    if origin and issubclass(origin, Iterable):
        return f"a list of {_words(inner[0]).removeprefix('a ')}"
    return WORDS.get(hint, f"a {hint.__name__}")


def _shown(value: object) -> str:
    return shortened(" ".join(repr(value).split()), MOST_SHOWN)
