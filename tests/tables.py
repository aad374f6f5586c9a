"""Tables in text files: what is tried, and below it, indented, what becomes of it.

⏎ is a line feed, ␍ a carriage return, ⇥ a tab, and - nothing. Lines that begin with "# " are comments.
"""

import re
from pathlib import Path

Table = list[tuple[str, str]]


def read_table(path: Path) -> Table:
    """The rows of a file with one table, which has no title."""
    return read_tables(path)[""]


def read_tables(path: Path, **constants: str) -> dict[str, Table]:
    """The tables of a file by their titles, which follow "== ". constants: what stands for {NAME}."""
    text = path.read_text(encoding="utf-8").replace("⏎", "\0").replace("␍", "\r").replace("⇥", "\t")
    for name, value in constants.items():
        text = text.replace(f"{{{name}}}", value.replace("\n", "\0"))
    title, found = "", dict[str, list[str]]()
    for line in text.split("\n"):
        if line.startswith("== "):
            title = line.removeprefix("== ")
        elif line and not line.startswith("# "):
            found.setdefault(title, []).append(line.replace("\0", "\n"))
    return {title: _rows(lines) for title, lines in found.items()}


def read_sections(path: Path) -> dict[str, str]:
    """The texts of a file by their titles, which follow "== "."""
    sections = re.split("^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {title: text.removesuffix("\n") for title, _, text in (each.partition("\n") for each in sections)}


def _rows(lines: list[str]) -> Table:
    rows = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(not tried.startswith(" ") and said.startswith("    ") for tried, said in rows)
    return [(tried, "" if said == "    -" else said[4:]) for tried, said in rows]
