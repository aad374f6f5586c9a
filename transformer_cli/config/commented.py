"""A config as YAML in which every setting stands with its comment, which the schema has. Prints nothing.

    num_heads: 4              # attention heads [default: 8]

configs/multi30k.yaml is the defaults, written so.
"""

import textwrap
from collections.abc import Iterator
from functools import reduce
from itertools import takewhile
from typing import Any, Literal, get_args, get_origin

from transformer_cli.config.schema import Config, Section
from transformer_cli.config.yamltext import as_line, compose, line_of, parse

PATTERN = "multi30k.yaml"
WIDTH = 80  # columns: as many as any terminal has
COMMENT = 28  # the column in which comments begin
TIE = "\xa0"  # a space at which no line ends


def as_commented_yaml(config: Config, *, text: str = "", title: str = "") -> str:
    """Returns every setting with its value and its comment, from which `load_config` reads an equal config.

    text: the YAML that the config was read from, whose own comments go before the schema's. title: what stands above
    the settings if the text has no comment there.
    """
    lines, root, written = text.split("\n"), compose(text), parse(text) or {}

    def of_section(
        section: type[Section], values: dict[str, Any], defaults: dict[str, Any], *above: str
    ) -> Iterator[str]:
        in_file: Any = reduce(lambda tree, key: tree.get(key) or {}, above, written)
        for name, field in section.model_fields.items():
            value, indent = values[name], "  " * len(above)
            line = lines[(line_of(root, (*above, name)) or 1) - 1]
            own = line.partition(" # ")[2].strip() if line.lstrip().startswith(f"{name}:") else ""
            choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            comment = f"{' | '.join(choices)}: " * bool(choices) + " ".join((field.description or "").split())
            if not above:
                yield ""
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                yield from _written(f"{indent}{name}:", own or comment)
                yield from of_section(field.annotation, value, defaults[name], *above, name)
                continue
            if own and in_file.get(name) == value:  # else it was said of another value
                comment = own
            if value != defaults[name]:
                comment += f" [default:{TIE}{as_line(defaults[name])}]"
            if isinstance(value, dict):  # data.files, whose keys are the user's
                yield from _written(f"{indent}{name}:", comment)
                for split, text in value.items():
                    several = text if isinstance(text, list) else []
                    yield f"{indent}  {as_line(split)}:" + ("" if several else f" {as_line(text)}")
                    yield from (f"{indent}    - {as_line(each)}" for each in several)
            else:
                yield from _written(f"{indent}{name}: {as_line(value)}", comment)

    settings = of_section(Config, config.model_dump(mode="json"), Config().model_dump(mode="json"))
    return "\n".join([heading(text) or f"# {title}", *settings, ""])


def heading(text: str) -> str:
    """Returns the comment above the settings; its first line says what the config is for."""
    return "\n".join(takewhile(lambda line: line.startswith("#"), text.split("\n")))


def _written(setting: str, comment: str) -> Iterator[str]:
    """Yield the lines of a setting: its value, and its comment behind it, or below it where the value is too long."""
    width = WIDTH - COMMENT - len("# ")
    wrapped = textwrap.wrap(comment, width, break_long_words=False, break_on_hyphens=False)
    comments = [f"# {each}".replace(TIE, " ") for each in wrapped]
    if len(setting) <= COMMENT - 2 and comments:
        setting = f"{setting:{COMMENT}}{comments.pop(0)}"
    yield setting
    yield from (f"{'':{COMMENT}}{each}" for each in comments)
