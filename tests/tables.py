"""Tables in text files: what is tried, and below it, indented, what tfm says of it."""

import re
from functools import cache
from pathlib import Path

import transformer_cli


def read_table(path: Path) -> list[tuple[str, str]]:
    """The rows of a table, without its comments and blank lines."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    rows = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(not tried.startswith(" ") and said.startswith("    ") for tried, said in rows)
    return [(tried, said.strip()) for tried, said in rows]


@cache
def class_names() -> frozenset[str]:
    """The names of all classes of the package, and what libraries call types in their messages."""
    package = Path(transformer_cli.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    ours = {name for text in texts for name in re.findall(r"^class (\w+)", text, re.M)}
    return frozenset(
        ours | {"NoneType", "dict", "dictionary", "float", "instance", "int", "str", "tuple", "validation"}
    )


def classes_named_in(message: str) -> set[str]:
    """The words of a message that name a class, or look as if they did."""
    return set(re.findall(r"\w+", message)) & class_names() | set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", message))
