"""Whether a function of Python was given what it takes: said in one line, before any work. Knows annotations alone."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from transformer_cli.errors import ArgumentError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WORDS = {str: "a str", int: "a whole number", float: "a number", bool: "True or False"}
NOT_LISTS = (str, bytes, Mapping)
MOST_SHOWN = 60  # characters of a value


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Returns a function that raises ArgumentError for an argument that is not what its annotation says."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself says what is missing
            given = {}
        check(function, given)
        return function(*args, **kwargs)

    return call


def check(owner: Callable[..., object], values: Mapping[str, object]) -> None:
    """Raises ArgumentError for the first of these values that is not what a function, or a class, says of its name."""
    hints = _hints(owner)
    for name, value in values.items():
        hint = hints.get(name, Any)
        if _fits(value, hint):
            continue
        where = f"{owner.__qualname__.removesuffix('.__init__')}: {name}"
        if isinstance(value, Collection) and not isinstance(value, NOT_LISTS) and _fits([], hint):
            place, value = next((place, each) for place, each in enumerate(value) if not _fits([each], hint))
            where += f", item {place}"
        raise ArgumentError(f"{where}: {_shown(value)}, where {_words(hint)} is wanted")


def as_list(value: Any) -> list[Any]:
    """Returns one name, or several of them, as a list of names."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


@cache
def _hints(owner: Callable[..., object]) -> dict[str, Any]:
    return get_type_hints(owner)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type. Numbers may be NumPy's; a list may be any iterable but a str; a str is no Path."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(each, inner[1]) for each in value.values())
    if origin and issubclass(origin, Iterable):
        is_list = isinstance(value, Iterable) and not isinstance(value, NOT_LISTS)
        return is_list and (not isinstance(value, Collection) or all(_fits(each, inner[0]) for each in value))
    kind = {int: Integral, float: Real}.get(hint, origin or hint)
    return isinstance(value, kind) and (hint is bool or not isinstance(value, bool))


def _words(hint: Any) -> str:
    """Returns what is wanted, in words: "a str or a list of str"."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in inner if each is not NoneType))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin and issubclass(origin, Mapping):
        return "a mapping"
    if origin and issubclass(origin, Iterable):
        return f"a list of {_words(inner[0]).removeprefix('a ')}"
    return WORDS.get(hint, f"a {hint.__name__}")


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
