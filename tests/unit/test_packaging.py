"""Compares pyproject.toml with the package. Builds nothing."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

import transformer_cli
from transformer_cli.adapters.corpora.corpora import CAPTIONS
from transformer_cli.config.load import SHIPPED
from transformer_cli.runtime import RUNTIME

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

PACKAGE = Path(transformer_cli.__file__).parent
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return dict(_pyproject()["project"])


def test_imported_libraries_equal_declared_ones(project: dict[str, Any]) -> None:
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    libraries = imported - sys.stdlib_module_names - {"transformer_cli"}
    distributions = packages_distributions()
    used = {_normal(distributions[library][0]) for library in libraries}
    extras = project["optional-dependencies"]
    needed = {_name(requirement) for requirement in project["dependencies"]}
    asked_for = (extras[extra] for extra in ("tensorboard", "ctranslate2", "serve"))
    on_request = {_name(requirement) for required in asked_for for requirement in required}
    assert used == needed | on_request


def test_errors_name_the_versions_of_the_extras(project: dict[str, Any]) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    source = re.sub(r'"\n +"', "", source)  # a string may go over two lines
    commands = re.findall(r"run `pip install ((?:'[^']+>=[^']+' ?)+)`", source)
    asked = {requirement for command in commands for requirement in re.findall(r"'([^']+)'", command)}
    extras = project["optional-dependencies"]
    assert asked == {one for extra in ("tensorboard", "ctranslate2") for one in extras[extra]}


def test_runtime_txt_has_the_versions_of_the_metadata(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    declared = {*project["dependencies"], *extras["ctranslate2"], *extras["serve"]}
    lines = RUNTIME.read_text(encoding="utf-8").splitlines()
    listed = {line for line in lines if not line.startswith("#")} - {"-c constraints.txt"}
    assert {*extras["ctranslate2"], *extras["serve"]} <= listed <= declared
    assert RUNTIME.with_name("constraints.txt").samefile(ROOT / "constraints.txt")


def test_files_in_the_metadata_exist(project: dict[str, Any]) -> None:
    assert [name for name in (project["readme"], *project["license-files"]) if not (ROOT / name).is_file()] == []
    shipped = _pyproject()["tool"]["setuptools"]["package-data"][PACKAGE.name]
    assert [pattern for pattern in shipped if not list(PACKAGE.glob(pattern))] == []
    needed = {"py.typed", str(CAPTIONS.relative_to(PACKAGE)), f"{SHIPPED.relative_to(PACKAGE)}/*.yaml"}
    assert {*needed, "runtime.txt", "constraints.txt"} <= {*shipped}
    assert SHIPPED.samefile(ROOT / "configs")  # one copy
    assert not (ROOT / "configs").is_symlink()


def test_changelog_begins_with_this_version(project: dict[str, Any]) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, flags=re.MULTILINE)[0] == project["version"]


def _pyproject() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def _name(requirement: str) -> str:
    return _normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0])


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
