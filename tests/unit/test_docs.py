"""README and docs/: links exist, the index has every page, and named commands, settings and functions exist."""

import ast
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from transformer_cli.commands.app import COMMANDS, app
from transformer_cli.config.load import load_config
from transformer_cli.config.yaml_text import parse_yaml

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMES_OF_OTHERS = {
    *("MALLOC_TRIM_THRESHOLD_", "MLFLOW_TRACKING_URI", "MarianMTModel.from_pretrained", "XDG_STATE_HOME", "fix_text"),
    *("MarianTokenizer.from_pretrained", "keepalive_timeout", "textContent"),
    *("tfm_reloads_total", "tfm_source_tokens_total"),  # Prometheus' ends of names
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings as on GitHub: "From Python" → from-python."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_docs_links_exist(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [ROOT / "docs/design.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_docs_named_functions_exist(page: Path) -> None:
    for file, function in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        assert re.search(rf"\b(def|class) {function}\b", (ROOT / "transformer_cli" / file).read_text("utf-8")), file


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Yields the names in code, and the words in its strings, but for docstrings."""
    for node in ast.walk(tree):
        found = [getattr(node, key, None) for key in ("id", "attr", "name", "arg", "module")]
        yield from (word for name in found if isinstance(name, str) for word in name.split("."))
        strings = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.Constant)]
        if not isinstance(node, ast.Expr):
            yield from (word for each in strings for word in re.findall(r"\w+", str(each.value)))


def _members(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Returns the names that each class of the package defines or inherits, also its instances' attributes."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found, bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for node in classes:
        found[node.name].update(name for each in node.body for name in _identifiers(each))
        bases[node.name].update(name for each in node.bases for name in _identifiers(each))
    for _ in range(5):  # bases of bases
        for name in bases:
            found[name].update(*(found[base] for base in bases[name] if base in found))
    return dict(found)


def test_docs_and_docstrings_name_what_exists() -> None:
    """In docstrings, comments and docs, `a_name`, `ClassName` and `Class.member` are names in the code."""
    package = sorted((ROOT / "transformer_cli").rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in [*package, *(ROOT / "scripts").rglob("*.py")]]
    known, members, missing = {word for tree in trees for word in _identifiers(tree)}, _members(trees), set()
    known.update(path.stem for path in (ROOT / "tests").rglob("*.py"))
    of_data = {ROOT / f"docs/{page}.md" for page in ("documents", "own-text", "translate")}  # keys, codes of languages
    for path in {*package, *PAGES, ROOT / "CONTRIBUTING.md"} - of_data:
        text = "" if "records" in path.parts else FENCE.sub("", path.read_text(encoding="utf-8"))
        for found in re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`", text):
            owner, _, name = found.rpartition(".")
            names = members.get(owner.rpartition(".")[2], known)
            if re.search(r"[._]|[a-z][A-Z]", found) and name not in names:
                missing.add(found)
    assert missing - NAMES_OF_OTHERS == set()


def test_readme_figures_stand_in_records() -> None:
    """tests/unit/readme_figures.txt: a figure, its record, and words of its line there, with it or its inverse."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Results\n")[2].partition("\n## ")[0]
    figures = re.findall(r"(?<![\w.])\d+\.\d+(?! M parameters)(?!\d)", section)
    assert len(figures) > 10
    lines = Path(__file__).with_name("readme_figures.txt").read_text(encoding="utf-8").splitlines()
    sources = {figure: (record, words) for figure, record, words in (line.split(" ", 2) for line in lines)}
    for figure in figures:
        record, words = sources[figure]
        assert words in (ROOT / f"docs/records/{record}.md").read_text(encoding="utf-8")
        digits, numbers = len(figure.partition(".")[2]), map(float, re.findall(r"\d+\.\d+", words))
        assert any(figure in (f"{each:.{digits}f}", f"{1 / each:.{digits}f}") for each in numbers), figure


def test_docs_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    assert {page for page in PAGES if page.parent == index.parent} - linked <= {index}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_docs_commands_options_and_settings_exist(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "yaml" and re.search("^name:", block, re.MULTILINE):  # a whole config
            load_config(None, parse_yaml(block))
        for line in block.replace("\\\n", " ").split("\n"):
            if match := re.match(r"\s*\$?\s*tfm ([a-z]+)(.*)", line):
                options = {option for each in group.get_command(None, match[1]).params for option in each.opts}
                words = shlex.split(match[2].split("#")[0].split(" | ")[0].split(" > ")[0])
                used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
                assert used <= options | {"--help", "-h"}, line


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_a_page_that_shows_the_command(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).stdout
    (page,) = re.findall(r"docs/[\w-]+\.md", shown.splitlines()[-1])
    assert f"tfm {command}" in (ROOT / page).read_text(encoding="utf-8")


def test_operating_page_shows_the_dockerfile() -> None:
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    assert f"```dockerfile\n{(ROOT / 'Dockerfile').read_text(encoding='utf-8')}```\n" in page


def test_settings_page_equals_tfm_config() -> None:
    """`python scripts/run_docs.py --write docs/settings.md` updates the page."""
    printed = CliRunner().invoke(app, ["config"]).stdout
    assert f"```\n$ tfm config\n{printed}```\n" in (ROOT / "docs/settings.md").read_text(encoding="utf-8")


def test_help_example_is_parsed() -> None:
    group: Any = typer.main.get_command(app)
    for command, (*_, example) in COMMANDS.items():
        assert f"Example: {example}\n" in CliRunner().invoke(app, [command, "--help"]).stdout
        tfm, name, *arguments = shlex.split(example.partition(" > ")[0])
        assert (tfm, name) == ("tfm", command)
        group.get_command(None, command).make_context(command, arguments)  # raises what wrong usage does


def test_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all((tmp_path / "site" / made).is_file() for made in ("index.html", "search/search_index.json"))
