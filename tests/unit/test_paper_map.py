"""docs/paper-map.md: what it names exists, every row has a place in the code and a proof, no module is left out."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
NAMED = sorted({code for code in re.findall(r"`([^`\n]+)`", TEXT) if "::" in code and "/" in code})
ROWS = [line for line in TEXT.split("\n") if line.startswith("| **")]
MODULES = sorted(path for path in (ROOT / "transformer_cli/model").glob("*.py") if path.name != "__init__.py")


@cache
def names_in(path: Path) -> set[str]:
    """The functions and classes of a file, and the methods of its classes as Class.method."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_paper_map_names_existing_code() -> None:
    assert (len(ROWS) >= 20, len([code for code in NAMED if code.startswith("tests/")]) >= 20) == (True, True)
    named = [code.partition("::") for code in NAMED]
    assert [(path, name) for path, _, name in named if name not in names_in(ROOT / path)] == []
    assert [config for config in re.findall(r"`(configs/[^`]+)`", TEXT) if not (ROOT / config).is_file()] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("**")[1])
def test_paper_map_rows_name_code_and_tests(row: str) -> None:
    paper, here, proof, in_a_line = (cell.strip() for cell in row.strip("|").split("|"))
    assert "`transformer_cli/" in here
    assert "`tests/" in proof
    assert paper
    assert in_a_line.endswith(".")


def test_paper_map_covers_every_model_module() -> None:
    assert {path.relative_to(ROOT).as_posix() for path in MODULES} <= {code.partition("::")[0] for code in NAMED}
