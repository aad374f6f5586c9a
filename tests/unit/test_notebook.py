"""docs/attention.ipynb: its code parses, its imports exist, and what it printed is in it. `make docs-run` runs it."""

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs/attention.ipynb"
MOST_BYTES = 400_000


def cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]


def test_notebook_imports_exist() -> None:
    lines = [line for cell in cells("code") for line in ("".join(cell["source"]) + "\n").splitlines()]
    tree = ast.parse("\n".join(line for line in lines if not line.startswith("%")))  # %: of IPython
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imported if str(node.module).startswith("transformer_cli")]
    assert len(ours) > 5
    for node in ours:
        for name in node.names:
            assert hasattr(import_module(str(node.module)), name.name), f"{node.module}.{name.name}"


def test_notebook_keeps_few_small_outputs_and_no_error() -> None:
    shown = [[output["output_type"] for output in cell["outputs"]] for cell in cells("code")]
    assert sum(map(bool, shown)) > 30
    assert max(map(len, shown)) < 5
    assert not any("error" in each for each in shown)
    assert not any(output.get("name") == "stderr" for cell in cells("code") for output in cell["outputs"])
    assert NOTEBOOK.stat().st_size < MOST_BYTES
