"""Writes a config as YAML with a comment on each setting.

num_heads: 4              # attention heads [default: 8]
"""

import os
import textwrap
from collections.abc import Iterator
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from transformer_cli.config.load import map_paths
from transformer_cli.config.schema import INTERNAL_KEYS, Config, Section
from transformer_cli.config.yaml_text import compose, inline_yaml, line_of, parse_yaml

LINE_WIDTH = 80  # characters, as on a narrow terminal
COMMENT_COLUMN = 28  # where comments begin
NBSP = "\xa0"  # a no-break space


def commented_settings(config: Config, *, text: str = "", title: str = "") -> str:
    """Returns the config as YAML with a comment on each setting, from which `load_config` reads an equal config.

    A key in INTERNAL_KEYS is left out if it has its default. text: the YAML that the config was read from; its comments
    replace the schema's, and those that stand above no setting come last. title: first line if the text has no comment
    above its settings.
    """
    lines, root, written = text.split("\n"), compose(text), parse_yaml(text) or {}
    top = header_comment(text).split("\n")

    def render(section: type[Section], values: dict[str, Any], defaults: dict[str, Any], *above: str) -> Iterator[str]:
        in_file: Any = reduce(lambda tree, key: tree.get(key) or {}, above, written)
        for name, field in section.model_fields.items():
            value, indent = values[name], "  " * len(above)
            number = (line_of(root, (*above, name)) or 1) - 1
            line, is_given = lines[number], lines[number].lstrip().startswith(f"{name}:")
            own = line.partition(" # ")[2].strip() if is_given else ""
            lines_above = [*takewhile(_is_own_comment, reversed(lines[len(top) : number]))] if is_given else []
            if ".".join((*above, name)) in INTERNAL_KEYS and value == defaults[name]:
                continue
            values_of = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            choices = [each for each in values_of if each not in INTERNAL_KEYS]
            comment = f"{' | '.join(choices)}: " * bool(choices) + " ".join((field.description or "").split())
            if not above:
                yield ""
            yield from reversed(lines_above)
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                yield from _with_comment(f"{indent}{name}:", own or comment)
                yield from render(field.annotation, value, defaults[name], *above, name)
                continue
            if own and in_file.get(name) == value:  # else the comment is about another value
                comment = own
            if value != defaults[name]:
                comment += f" [default:{NBSP}{inline_yaml(defaults[name])}]"
            if isinstance(value, dict):  # data.files, whose keys the user chooses
                yield from _with_comment(f"{indent}{name}:", comment)
                for split, text in value.items():
                    several = text if isinstance(text, list) else []
                    yield f"{indent}  {inline_yaml(split)}:" + ("" if several else f" {inline_yaml(text)}")
                    yield from (f"{indent}    - {inline_yaml(each)}" for each in several)
            else:
                yield from _with_comment(f"{indent}{name}: {inline_yaml(value)}", comment)

    settings = [*render(Config, config.model_dump(mode="json"), Config().model_dump(mode="json"))]
    others = [line for line in lines[len(top) :] if _is_own_comment(line) and line not in settings]
    return "\n".join([header_comment(text) or f"# {title}", *settings, *others, ""])


def header_comment(text: str) -> str:
    """Returns the comment above the settings, whose first line is the config's title."""
    return "\n".join(takewhile(lambda line: line.startswith("#"), text.split("\n")))


def _is_own_comment(line: str) -> bool:
    """Whether a line is a comment of its own, not the continued comment of the setting above."""
    return line.lstrip().startswith("#") and len(line) - len(line.lstrip()) < COMMENT_COLUMN


def _with_comment(setting: str, comment: str) -> Iterator[str]:
    """Yields the lines of a setting, with its comment to the right, or below if the value is too long."""
    width = LINE_WIDTH - COMMENT_COLUMN - len("# ")
    wrapped = textwrap.wrap(comment, width, break_long_words=False, break_on_hyphens=False)
    comments = [f"# {each}".replace(NBSP, " ") for each in wrapped]
    if len(setting) <= COMMENT_COLUMN - 2 and comments:
        setting = f"{setting:{COMMENT_COLUMN}}{comments.pop(0)}"
    yield setting
    yield from (f"{'':{COMMENT_COLUMN}}{each}" for each in comments)


def with_relative_paths(config: Config, folder: Path) -> Config:
    """Returns a config with its files' paths relative to `folder`, where its YAML file will be."""
    tree = config.model_dump(mode="json")
    files = tree["data"]["files"] or {}
    files.update({split: map_paths(text, lambda path: os.path.relpath(path, folder)) for split, text in files.items()})
    return Config.model_validate(tree)
