"""Turns a ValidationError of a config into one line for users.

Messages of the schema's own validators are kept. pydantic's messages name Python classes, so `REQUIREMENTS` replaces
them. Reads no config.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from transformer_cli.config.yaml_text import compose, inline_yaml, line_of
from transformer_cli.system.terminal import shorten

MAX_LISTED = 10  # keys of a section
SIDES = ("source", "target")  # the keys of a FilePair
UNION_TAGS = ("[list]", "[text]", "[file]", "[pair]")  # pydantic's tags for the forms of data.files.train; not keys
MAX_VALUE_CHARS = 80  # in a message
REQUIREMENTS = {
    "bool_type": "be true or false",
    "dict_type": "be a section with a key for each split",
    "finite_number": "be a finite number",
    "float_type": "be a number",
    "glossary": "be a mapping of words to their translations",
    "greater_than": "be greater than {gt:,.12g}",
    "greater_than_equal": "be at least {ge:,.12g}",
    "int_type": "be a whole number",
    "less_than": "be less than {lt:,.12g}",
    "less_than_equal": "be at most {le:,.12g}",
    "literal_error": "be {expected}",
    "model_type": "be a section with keys below it, such as {first}",
    "path_type": "be a path",
    "string_too_short": "have at least one character",
    "string_type": "be text",
    "too_short": "be a list with at least one value",
    "too_long": "be a list of {max_length} values",
    "tuple_type": "be a list in brackets",
}

Location = tuple[int | str, ...]
OptionKey = tuple[tuple[str, ...], str]  # the key that an option sets; the option for messages


def first_error_message(
    error: ValidationError,
    keys: Mapping[str, Any],
    *,
    origin: str = "Config",
    text: str = "",
    given: Sequence[OptionKey] = (),
) -> str:
    """Returns the place and the description of the first mistake in a config, and the number of further ones.

    keys: the tree of all settings. Unknown keys come first, since a misspelt key also leaves another one missing. The
    place is an option of `given` (the last one that sets the key), else a line in `text`, the content of `origin`.
    """
    first, *others = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    location = tuple(part for part in first["loc"] if part not in UNION_TAGS)
    mistake = describe_error(first, keys, location) + (f" (and {len(others)} more)" if others else "")
    is_of_several = first["type"] == "value_error"  # values that contradict each other
    if location[-1:] == ("[key]",):  # the name of a split
        location, is_of_several = location[:-1], False
    if is_of_several and (named := re.match(r"[\w.]+(?=: )", str(first["ctx"]["error"]))):
        location += tuple(named[0].split("."))  # "num_heads: 7 does not divide …", of model
    for key, option in reversed(given):
        is_below = key[: len(location)] == location and not is_of_several
        if is_below or location[: len(key)] == key:
            return f"{option}: {mistake}"
    line = line_of(compose(text), location)
    return f"{origin}: line {line}: {mistake}" if line else f"{origin}: {mistake}"


def describe_error(mistake: Mapping[str, Any], keys: Mapping[str, Any], location: Location = ()) -> str:
    """Returns what is wrong with a setting.

    location: its keys in the config; () if the caller names it. keys: the tree of all settings.
    """
    kind, given, context = mistake["type"], mistake["input"], mistake.get("ctx", {})
    if kind in ("extra_forbidden", "invalid_key"):
        return f"{_dotted(location)}: unknown key{_suggestion(location, keys)}"
    if location and location[-1] == "[key]":  # of data.files, the only mapping whose keys the user chooses
        location = location[:-2]
    place = ""
    if location and isinstance(index := location[-1], int):  # of a list
        location, place = location[:-1], f" value {index + 1}"
    subject = f"{_dotted(location)}:{place}" if location else ""
    if kind == "value_error":
        return f"{subject} {context['error']}".strip()
    if kind == "missing":
        return f"{subject} missing"
    first = f"{_dotted(location)}.{_keys_below(location, keys)[0]}"
    must = (
        REQUIREMENTS.get("glossary" if mistake["loc"] == ("glossary",) else kind, "be another kind of value")
        .format(**context, first=first)
        .replace("'", "")
    )
    quotes = "; put quotes around it" if kind in ("string_type", "path_type") and isinstance(given, float | int) else ""
    return f"{subject} must {must}, not {_format_value(given)}{quotes}".strip()


def _format_value(value: Any) -> str:
    """Returns a value as YAML, shortened if it is long, without control characters."""
    return shorten(inline_yaml(value), MAX_VALUE_CHARS)


def _dotted(location: Location) -> str:
    return ".".join(_format_value(part) for part in location)


def _suggestion(location: Location, keys: Mapping[str, Any]) -> str:
    """Returns a hint at the key that was probably meant: one of this name elsewhere, or a similar one."""
    name, known = str(location[-1]), _keys_below(location[:-1], keys)
    if name.lower() in (others := names_of_other_tools()):
        return did_you_mean(others[name.lower()])
    everywhere = (key for key in _all_keys(keys) if not key.startswith("data.held_out."))  # names of splits
    last = {key: key.rpartition(".")[2] for key in everywhere}
    similar = difflib.get_close_matches(name, last.values(), n=1, cutoff=0.75)
    found = (
        [key for key in last if name == last[key]]
        or difflib.get_close_matches(name, known, n=1, cutoff=0.55)
        or [key for key in last if last[key].startswith(f"{name}_") or last[key] in similar]
    )
    if not found and len(known) > MAX_LISTED:
        return "; docs/settings.md has all keys, and docs/changes.md shows how to change the code"
    return did_you_mean(*found) if found else f"; known here: {', '.join(known)}"


@cache
def names_of_other_tools() -> dict[str, str]:
    """Returns keys of fairseq, Hugging Face, Joey NMT, Lightning and OpenNMT → what tfm has (other_tools.txt)."""
    lines = Path(__file__).with_name("other_tools.txt").read_text(encoding="utf-8").splitlines()
    return {name: ours for ours, _, names in (line.partition(": ") for line in lines) for name in names.split()}


def did_you_mean(*found: str) -> str:
    """Returns a hint at what tfm has, or at what it says of something that it does not have; "" for no argument."""
    said = " or ".join(found)
    return f"; {said}" if said.startswith("not in tfm") else f"; did you mean {said}?" if said else ""


def _keys_below(location: Location, keys: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a section."""
    section: Any = keys
    for key in location:
        section = section.get(key) if isinstance(section, Mapping) else None
    return [*(section if isinstance(section, Mapping) else SIDES)]


def _all_keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yields every dotted key, sections included."""
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _all_keys(value, f"{prefix}{key}.")
