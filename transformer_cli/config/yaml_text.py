"""YAML for configs: numbers as in YAML 1.2, no duplicate keys, errors in one line. Only this module uses PyYAML."""

import math
import re
from typing import Any

import yaml

from transformer_cli.errors import ConfigError

_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?[0-9]+(_[0-9]+)*",
    "tag:yaml.org,2002:float": r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
}
_TextLoader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml's is faster, if PyYAML was built with it
_NOT_IN_YAML = re.compile("[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
MAX_DEPTH = 20  # levels of sections and lists
MAX_NODES = 100_000  # keys, values, sections and lists, each alias counted as all that it stands for
# tags such as !!int raise many types of errors
_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


class _Constructor(yaml.constructor.SafeConstructor):
    """Reads numbers as in YAML 1.2, and dates as text. PyYAML follows YAML 1.1: 1e-4 is text, 010 is 8, 1:30 is 90."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} occurs twice; keep one", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


class _Loader(_Constructor, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """libyaml's, which is ten times as fast, if PyYAML was built with it."""


class _PlainLoader(_Constructor, yaml.SafeLoader):
    """PyYAML's own, whose errors say more."""


class _Dumper(yaml.SafeDumper):
    """Writes 1e-9 in this form, and quotes text that _Loader would read as a number, such as 12345e67."""

    def represent_number(self, value: float) -> yaml.ScalarNode:
        if not math.isfinite(value):
            return self.represent_float(value)
        return self.represent_scalar("tag:yaml.org,2002:float", repr(value).replace("e-0", "e-"))


_Loader.yaml_implicit_resolvers = _PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] not in ("int", "float", "timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _class in (_Loader, _Dumper):  # _PlainLoader shares _Loader's
    for _tag, _pattern in _NUMBERS.items():
        _class.add_implicit_resolver(_tag, re.compile(rf"({_pattern})\Z"), list("-+0123456789."))
_Constructor.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(str(node.value)))
_Dumper.add_representer(float, _Dumper.represent_number)
_Dumper.add_multi_representer(object, lambda dumper, value: dumper.represent_str(str(value)))  # in error messages


def parse_yaml(text: str, where: str = "") -> Any:
    """Parses YAML. Raises ConfigError, which says what is wrong in which line.

    where: beginning of the error, such as the name of a file.
    """
    try:
        try:
            return _parse(text, _Loader)
        except yaml.YAMLError:
            return _parse(text, _PlainLoader)
    except _ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{where}{line}not YAML: {problem}; correct it") from None


def _parse(text: str, loader: type[_Loader | _PlainLoader]) -> Any:
    _refuse_large(text, loader)
    return yaml.load(text, Loader=loader)


def _refuse_large(text: str, loader: type[_Loader | _PlainLoader]) -> None:
    """Raises ValueError for YAML with more than MAX_DEPTH levels or MAX_NODES nodes, and for an alias inside itself.

    Takes time linear in the text. With `a: &a [1, 2]` and `b: [*a, *a]`, a has 3 nodes, and b has 7.
    """
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # of each open collection, its anchor and nodes so far
    sizes: dict[str | None, int] = {}  # anchor → nodes
    for event in yaml.parse(text, Loader=loader):  # does not recurse, unlike yaml.load
        anchor, size = getattr(event, "anchor", None), 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            size = MAX_NODES + 1 if anchor in dict(open_nodes) else sizes.get(anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = sizes[anchor] = 1
        open_nodes[-1] = open_nodes[-1][0], open_nodes[-1][1] + size
        if (is_deep := len(open_nodes) > MAX_DEPTH + 1) or open_nodes[-1][1] > MAX_NODES:
            line = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            what = f"{MAX_DEPTH} levels" if is_deep else f"{MAX_NODES:,} nodes, with all that its aliases repeat"
            raise ValueError(f"{line}more than {what}")


def scalar_pairs(text: str) -> list[tuple[str, str]]:
    """Returns the keys and values of a mapping as text, in their order; fast for long mappings.

    As in YAML 1.2, lines end at line feeds and returns only, not at U+0085, U+2028 and U+2029. Allows characters that
    YAML forbids, by stand-ins. Raises ValueError for anything but one mapping from text to text.
    """
    unused = (char for char in map(chr, range(0xF0000, 0xFFFFE)) if char not in text)
    stand_ins = dict(zip(sorted(set(_NOT_IN_YAML.findall(text))), unused, strict=False))
    back = str.maketrans({stand_in: char for char, stand_in in stand_ins.items()})
    scalars, n_mappings = list[str](), 0
    try:
        for event in yaml.parse(text.translate(str.maketrans(stand_ins)), Loader=_TextLoader):
            if isinstance(event, yaml.ScalarEvent):
                scalars.append(event.value.translate(back))
            n_mappings += isinstance(event, yaml.MappingStartEvent)
            if n_mappings > 1 or isinstance(event, yaml.SequenceStartEvent | yaml.AliasEvent):
                raise ValueError("it has lists, nested mappings or aliases")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{f'line {mark.line + 1}: ' if mark else ''}not YAML: {str(error).splitlines()[0]}") from None
    if n_mappings != 1:
        raise ValueError("not a YAML mapping")
    return list(zip(scalars[::2], scalars[1::2], strict=True))


def compose(text: str) -> yaml.Node | None:
    """Returns the nodes of a text that `parse_yaml` accepts, for `line_of`."""
    return yaml.compose(text, Loader=_Loader)


def line_of(node: yaml.Node | None, keys: tuple[int | str, ...]) -> int | None:
    """Returns the line of nested keys, or of the innermost one that exists; None if none does."""
    line = None
    for key in keys:
        below = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((name, value) for name, value in below if name.value == str(key)), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def dump_yaml(tree: Any) -> str:
    """Returns a YAML document, from which `parse_yaml` reads an equal mapping."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def inline_yaml(value: Any) -> str:
    """Returns a value as YAML on one line."""
    form: dict[str, Any] = {"Dumper": _Dumper, "default_flow_style": True, "sort_keys": False, "width": math.inf}
    text: str = yaml.dump([value], allow_unicode=True, **form)
    if len(text.splitlines()) > 1:  # a string with line ends: quotes escape them
        text = yaml.dump([value], default_style='"', **form)
    return text.strip()[1:-1]
