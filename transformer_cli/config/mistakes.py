"""Says what is wrong with a setting, in one sentence and in a user's words. Knows the schema; reads no file.

The schema's own sentences, for values that do not fit together, pass through. The library that checks types has
sentences too, but they name its classes and ours; so each kind of mistake that the schema can have gets a sentence
here.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import ValidationError

from transformer_cli.config.schema import Config, Section
from transformer_cli.config.yamltext import as_line

MOST_SHOWN = 80  # characters of a value

Location = tuple[int | str, ...]


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a setting."""

    key: str
    """the dotted key that it is about, as far as it is about one"""
    sentence: str
    is_of_section: bool
    """whether it is about how the values of a section fit together"""

    def is_about(self, key: str) -> bool:
        """Whether it is about a key, or about something below or above it: training: 5 is about training.epochs."""
        return f"{self.key}.".startswith(f"{key}.") or (not self.is_of_section and f"{key}.".startswith(f"{self.key}."))


def first_mistake(error: ValidationError) -> Mistake:
    """Returns the first mistake of what does not fit the schema; its sentence has the number of the others.

    Unknown keys come before the keys that are missing for them.
    """
    first, *others = sorted(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
    sentence = _sentence(first) + (f" (and {len(others)} more)" if others else "")
    key = _dotted(tuple(part for part in first["loc"] if isinstance(part, str)))
    if first["type"] != "value_error":
        return Mistake(key, sentence, is_of_section=False)
    named = re.match(r"[\w.]+(?=: )", str(first["ctx"]["error"]))  # "num_heads: 7 does not divide …", of model
    return Mistake(".".join(filter(None, (key, named and named[0]))), sentence, is_of_section=True)


def shown(value: Any) -> str:
    """Returns a value as YAML, or the beginning of a long one; without the characters that would steer a terminal."""
    line = as_line(value)
    return line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"


def _sentence(mistake: Mapping[str, Any]) -> str:
    kind, location, given = mistake["type"], mistake["loc"], mistake["input"]
    if kind in ("extra_forbidden", "invalid_key"):
        return f"{_dotted(location)}: unknown key{_nearest(location)}"
    if kind == "value_error":
        where = f"{_dotted(location)}: " if location else ""
        return f"{where}{mistake['ctx']['error']}"
    if location[-1] == "[key]":  # of data.files, the only mapping whose keys the user chooses
        return f"{_dotted(location[:-2])}: {shown(location[-2])} cannot name a split; put quotes around it"
    *parents, last = location
    annotation = _annotation(tuple(parents))
    if isinstance(last, int) and kind == "missing":
        return f"{_dotted(tuple(parents))}: must be a list of {len(get_args(annotation))} values, not {shown(given)}"
    if kind == "missing":
        return f"{_dotted(location)}: missing"
    subject = f"{_dotted(location)}:" if isinstance(last, str) else f"{_dotted(tuple(parents))}: value {last + 1}"
    return f"{subject} must {_requirement(mistake)}, not {shown(given)}{_advice(kind, given)}"


def _requirement(mistake: Mapping[str, Any]) -> str:
    """What a value must be, after the word "must"."""
    kind, context = mistake["type"], mistake.get("ctx", {})
    for bound, words in (("ge", "at least"), ("le", "at most"), ("gt", "greater than"), ("lt", "less than")):
        if bound in context:
            return f"be {words} {_number(context[bound])}"
    if kind == "model_type":
        first = next(iter(_section(mistake["loc"]).model_fields))
        return f"be a section with keys below it, such as {_dotted(mistake['loc'])}.{first}"
    if kind == "literal_error":
        return f"be {context['expected']}".replace("'", "")
    if kind == "too_long":
        return f"be a list of {context['max_length']} values"
    return {
        "int_type": "be a whole number",
        "float_type": "be a number",
        "finite_number": "be a finite number",
        "bool_type": "be true or false",
        "string_type": "be text",
        "path_type": "be a path",
        "string_too_short": "have at least one character",
        "string_too_long": f"have at most {context.get('max_length')} characters",
        "tuple_type": "be a list in brackets",
        "dict_type": "be a section with a key for each split",
    }.get(kind, "be another kind of value")


def _advice(kind: str, given: Any) -> str:
    """What to do, where a value is nearly right."""
    if kind in ("string_type", "path_type") and isinstance(given, int | float | date):  # bool is an int
        return "; put quotes around it"
    is_quoted = isinstance(given, str) and re.fullmatch(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*|true|false", given)
    if kind in ("int_type", "float_type", "bool_type") and is_quoted:
        return "; take the quotes off"
    return ""


def _number(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def _dotted(location: Location) -> str:
    return ".".join(shown(part) for part in location)


def _nearest(location: Location) -> str:
    """The key that was meant: one of this name elsewhere, a similar one here, or one that it begins or resembles."""
    key, here = str(location[-1]), _section(location[:-1]).model_fields
    everywhere = dict(_keys(Config))
    named = [dotted for dotted, name in everywhere.items() if name == key]
    named = named or difflib.get_close_matches(key, here, n=1, cutoff=0.55)
    named = named or [dotted for dotted, name in everywhere.items() if name.startswith(f"{key}_")]
    near = difflib.get_close_matches(key, everywhere.values(), n=1, cutoff=0.75)
    named = named or [dotted for dotted, name in everywhere.items() if name in near]
    return f"; did you mean {' or '.join(named)}?" if named else f"; known here: {', '.join(here)}"


def _keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted name and the last part of every key below a section: training.epochs, epochs."""
    for name, field in section.model_fields.items():
        yield f"{prefix}{name}", name
        for inner in _sections_in(field.annotation):
            if inner is field.annotation:  # data.files has keys of the user's
                yield from _keys(inner, f"{prefix}{name}.")


def _section(location: Location) -> type[Section]:
    """The section at a place of the config, such as ("data", "files", "train")."""
    found = _sections_in(_annotation(location))
    return next(iter(found), Config)


def _annotation(location: Location) -> Any:
    """The type at a place of the config; of a mapping's or a list's items, the mapping's or the list's own type."""
    annotation: Any = Config
    for part in location:
        if _is_section(annotation):
            if part not in annotation.model_fields:
                break
            annotation = annotation.model_fields[str(part)].annotation
    return annotation


def _sections_in(annotation: Any) -> list[type[Section]]:
    """The section that a type is, or that it holds: dict[str, FilePair] | None holds FilePair."""
    if _is_section(annotation):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections_in(inner)]


def _is_section(annotation: Any) -> TypeGuard[type[Section]]:
    return get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Section)
