"""A config as YAML in which every setting stands with its comment, which the schema has. Prints nothing.

    num_heads: 4              # attention heads [default: 8]

configs/multi30k.yaml is the defaults, written so.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, get_args, get_origin

from transformer_cli.config.schema import Config, Section
from transformer_cli.config.yamltext import as_line

PATTERN = "multi30k.yaml"
WIDTH = 80  # columns: as many as any terminal has
COMMENT = 28  # the column in which comments begin
TIE = "\xa0"  # a space at which no line ends

_KEY = re.compile(r"( *)(\w+):(?: +([^#\s].*?))?(?: +# (.*))?")
_MORE = re.compile(r" +# +(.*)")  # below a key: more of its comment


@dataclass(frozen=True)
class _Line:
    """A key, as it is written in a file."""

    key: str
    """dotted: training.epochs"""
    value: str
    """empty if there are keys below it"""
    comment: str


def as_commented_yaml(config: Config, *, text: str = "", title: str = "") -> str:
    """Returns every setting with its value and its comment, from which `load_config` reads an equal config.

    text: the YAML that the config was read from, whose own comments go before the schema's. title: what stands above
    the settings if the text has no comment there.
    """
    own = {line.key: line.comment for line in _lines(text) if line.comment}
    head = (textwrap.wrap(part, WIDTH - 2) or [""] for part in (_heading(text) or title).split("\n"))
    written = [f"# {line}".rstrip() for part in head for line in part]
    values, defaults = (each.model_dump(mode="json") for each in (config, Config()))
    written += _section(Config, values, defaults, own)
    return "".join(f"{line}\n" for line in written)


def _section(
    section: type[Section], values: dict[str, Any], defaults: dict[str, Any], own: dict[str, str], prefix: str = ""
) -> Iterator[str]:
    """Yield the lines of a section's settings. prefix: its dotted key and a dot."""
    for name, field in section.model_fields.items():
        key, value, default = f"{prefix}{name}", values[name], defaults[name]
        comment = own.get(key) or " ".join((field.description or "").split())
        if key not in own and get_origin(field.annotation) is Literal:
            comment = f"{' | '.join(get_args(field.annotation))}: {comment}"
        if not prefix:
            yield ""
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _written(_Line(key, "", comment))
            yield from _section(field.annotation, value, default, own, f"{key}.")
            continue
        if value != default:
            comment = f"{comment} {f'[default: {_inline(default)}]'.replace(' ', TIE, 1)}".strip()
        if isinstance(value, dict):  # data.files, whose keys are the user's
            yield from _written(_Line(key, "", comment))
            yield from (f"    {_inline(split)}: {_inline(pair)}" for split, pair in value.items())
        else:
            yield from _written(_Line(key, _inline(value), comment))


def summary(text: str) -> str:
    """Returns the first line of the comment above the settings."""
    return _heading(text).partition("\n")[0]


def _heading(text: str) -> str:
    """Returns the comment above the settings: its first line, then its paragraphs with blank lines between them."""
    comment = (line[1:].strip() for line in takewhile(lambda line: line.startswith("#"), text.split("\n")))
    first = next(comment, "")
    paragraphs = "\n".join(comment).split("\n\n")
    return "\n".join([first, "\n\n".join(" ".join(each.split()) for each in paragraphs)]).rstrip()


def _lines(text: str) -> list[_Line]:
    """Returns the keys that stand on lines of their own."""
    found: list[_Line] = []
    parents: list[tuple[int, str]] = []  # the indents and the names of the keys above
    for line in text.split("\n"):
        if (more := _MORE.fullmatch(line)) and found:
            found[-1] = replace(found[-1], comment=f"{found[-1].comment} {more[1]}".strip())
        elif match := _KEY.fullmatch(line):
            indent, name, value, comment = match.groups(default="")
            parents = [*((above, key) for above, key in parents if above < len(indent)), (len(indent), name)]
            found.append(_Line(".".join(key for _, key in parents), value, comment))
    return found


def _written(line: _Line) -> Iterator[str]:
    """Yield the lines of a key: its value, and its comment behind it, or below it where the value is too long."""
    indent = " " * (2 * line.key.count("."))
    setting = f"{indent}{line.key.rpartition('.')[2]}:{' ' * bool(line.value)}{line.value}"
    width = WIDTH - COMMENT - len("# ")
    wrapped = textwrap.wrap(line.comment, width, break_long_words=False, break_on_hyphens=False)
    comments = [each.replace(TIE, " ") for each in wrapped]
    if len(setting) > COMMENT - 2 or not comments:
        yield setting
    else:
        yield f"{setting:{COMMENT}}# {comments.pop(0)}"
    yield from (f"{'':{COMMENT}}# {each}" for each in comments)


def _inline(value: Any) -> str:
    """Returns a value on one line. PyYAML writes 1e-9 as 1.0e-09."""
    return repr(value).replace("e-0", "e-") if isinstance(value, float) else as_line(value)
