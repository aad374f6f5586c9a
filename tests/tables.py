"""Tables in text files: what is tried, and below it, indented, what tfm says of it."""

from pathlib import Path


def read_table(path: Path) -> list[tuple[str, str]]:
    """The rows of a table, without its comments and blank lines."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    rows = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(not tried.startswith(" ") and said.startswith("    ") for tried, said in rows)
    return [(tried, said.strip()) for tried, said in rows]
