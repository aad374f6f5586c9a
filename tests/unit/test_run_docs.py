"""scripts/run_docs.py runs all commands in README and docs/ without a reason not to, and the notebook."""

import ast
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kinds import Tfm
from run_docs import NOTEBOOK, PAGES, Block, blocks, difference, environment, run, run_notebook, shown_lines

BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.is_quick()], ids=lambda block: block.place)
def test_run_docs_quick_commands_print_as_documented(block: Block, tmp_path: Path, tfm: Tfm) -> None:
    if "|" in block.text:  # which takes a shell
        assert run(block, tmp_path, environment(tmp_path))[1] == ""
        return
    for command, page in block.commands():
        code, out, err = tfm(*command.split()[1:], cwd=tmp_path)
        assert (code, difference(page, (out + err).splitlines(), 0)) == (0, "")


def test_run_docs_covers_all_commands() -> None:
    assert [block.place for block in BLOCKS if not all(block.notes.values())] == [], "a reason is missing"
    command = re.compile(r"^(tfm|make|pip|python|torchrun) ", re.MULTILINE)
    unmarked = [block.place for block in BLOCKS if not block.commands() and command.search(block.text)]
    assert unmarked == [], "mark the block as sh"
    assert sum(block.is_quick() for block in BLOCKS) >= 4


@pytest.mark.parametrize(
    ("page", "printed", "allowed", "same"),
    [
        ("2 threads: loss 3.592 (PPL 36.30)  46.8 s  best", "1 thread: loss 13.1 (PPL 1e-7) 1,046 s", 0, True),
        ("data/x.de-en-602c731e", "data/x.de-en-4f54f310", 0, True),
        ("loss 0.359, BLEU 34.4", "loss 3.592, BLEU 34.4", 0, False),
        ("p < 0.001, BLEU 34.4", "p 0.0149, BLEU 3.5", 0, True),
        *(("a\n…\nd", "a\nb\nc\nd", 0, True), ("a\n…\ne", "a\nb\nc\nd", 0, False), ("a", "a\nb", 0, False)),
        *(("a dog\nEND", "a cat\nEND", 1, True), ("a dog\na man", "a cat\na boy", 1, False)),
    ],
)
def test_run_docs_allows_other_numbers_but_not_words(page: str, printed: str, allowed: int, same: bool) -> None:
    assert (difference(page.split("\n"), printed.split("\n"), allowed) == "") is same


def test_run_notebook_stores_outputs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    cell = nbformat.v4.new_code_cell("import sys; print(6 * 7); print('!', file=sys.stderr)")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    assert "42" in run_notebook(tmp_path / "a.ipynb", tmp_path, dict(os.environ), is_kept=True)
    assert shown_lines(nbformat.read(tmp_path / "a.ipynb", as_version=4)) == ["42"]


MAX_NOTEBOOK_BYTES = 400_000


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


def test_notebook_has_small_outputs_and_no_error() -> None:
    shown = [[output["output_type"] for output in cell["outputs"]] for cell in cells("code")]
    assert sum(map(bool, shown)) > 30
    assert max(map(len, shown)) < 5
    assert not any("error" in each for each in shown)
    assert not any(output.get("name") == "stderr" for cell in cells("code") for output in cell["outputs"])
    assert NOTEBOOK.stat().st_size < MAX_NOTEBOOK_BYTES
