"""YAML for configs: numbers as in YAML 1.2, no duplicate keys, errors in one line. The one owner of PyYAML."""

import re
from pathlib import Path
from typing import Any

import yaml

from transformer_cli.errors import ConfigError

DEEPEST = 20  # levels: a config has 4
_OLD_NUMBER = re.compile(r"[-+]?(0[0-7_]*[1-7][0-7_]*|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")


class _Loader(yaml.SafeLoader):
    """Reads floats as in YAML 1.2 (PyYAML reads `1e-4` as text), and refuses what a config has no use for.

    That is: duplicate keys; tags, such as `!!int`, whose constructors fail with errors of many kinds; more levels than
    Python's stack may have; and numbers that YAML 1.1 reads in its own way, 010 as 8 and 1:30 as 90.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if tag := getattr(event, "tag", None):
            raise ConfigError(f"line {event.start_mark.line + 1}: {tag}: a config has no tags; take it out")
        self.depth += 1
        if self.depth > DEEPEST:
            raise ConfigError(f"line {event.start_mark.line + 1}: more than {DEEPEST} levels, one inside another")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and _OLD_NUMBER.fullmatch(str(value)):
            raise ConfigError(
                f"line {node.start_mark.line + 1}: {value} is another number for YAML 1.1 than for YAML 1.2; write it "
                "as a plain decimal number, or put quotes around it if it is text"
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"line {key_node.start_mark.line + 1}: a key is a word, not a list or a mapping")
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConfigError(f"line {key_node.start_mark.line + 1}: {key!r} is written twice; keep one")
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Puts quotes around text that _Loader would read as a float, such as the fingerprint 12345e67."""


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
    )


def parse_mapping(text: str, path: Path) -> dict[str, Any]:
    """Returns the mapping in a file's text, {} if it is empty. Raises ConfigError, which names the file and line."""
    try:
        tree = yaml.load(text, Loader=_Loader)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValueError as error:  # 2020-13-45 or 0x_, which PyYAML reads as a date and a number
        raise ConfigError(f"{path}: not YAML: {error}; put quotes around it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise ConfigError(f"{path}:{where} not YAML: {problem}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        what = "a list" if isinstance(tree, list) else "a single value"
        raise ConfigError(f"{path}: a config is keys and values, such as `name: first`, not {what}")
    return tree


def parse_value(text: str) -> Any:
    """Read a value written on one line: a number, a word, a list in brackets. Raises ValueError."""
    try:
        return yaml.load(text, Loader=_Loader)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("line 1: ")) from None
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or str(error).split("\n")[0]) from None


def as_text(tree: Any) -> str:
    """Returns a YAML document, from which `parse_mapping` reads an equal mapping."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def as_line(value: Any) -> str:
    """Returns a value as YAML on one line."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    return " ".join(text.removesuffix("\n").removesuffix("\n...").split())
