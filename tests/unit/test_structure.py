"""The package's shape: who may import whom, who owns which library, and what importing costs."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import transformer_cli

PACKAGE = Path(transformer_cli.__file__).parent
GROUPS = (
    {"errors"},
    {"system"},
    {"config"},
    {"compute"},
    {"text"},
    {"corpora"},
    {"datasets", "model"},
    {"documents"},
    {"decoding"},
    {"runs", "translation", "translator"},
    {"evaluation", "inspection"},
    {"training", "serve", "importing"},
    {"commands"},
    {"__init__", "__main__"},
)
OWNERS = {  # each library has one; typer the two that make the command line, sacreBLEU one for scores, one for tests
    "ctranslate2": ("decoding.ctranslate2", "runs.export"),  # one runs models, one writes them
    "fastapi": "serve",
    "gensim": "text.vectors",
    "matplotlib": "inspection",
    "platformdirs": "corpora.multi30k",
    "prometheus_client": "serve.gate",
    "py3langid": ("corpora.cleaning", "serve.languages"),
    "pydantic": ("config", "serve"),
    "readline": "system.terminal",
    "requests": "corpora.multi30k",
    "sacrebleu": ("evaluation.metrics", "evaluation.statistics"),
    "starlette": "serve",
    "safetensors": ("runs.checkpoints", "runs.listing", "importing"),
    "sentencepiece": "text.subwords",
    "sentencex": "documents.sentences",
    "spacy": "text.words",
    "tensorboard": "training.record",
    "torch.distributed": "compute.world",
    "torchtext": "text.vocabulary",
    "tqdm": "system.progress",
    "typer": "commands",
    "uvicorn": "serve.server",
    "yaml": "config.yamltext",
}


def _imports(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, at any depth; of `from a import b`, a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(path: Path) -> str:
    """text/lines.py → text.lines, text/__init__.py → text, __init__.py → __init__."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports() -> dict[str, list[str]]:
    """What each module imports."""
    return {_module(path): sorted(_imports(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def _ours(module: str) -> set[str]:
    """The modules of the package that one of them imports: transformer_cli.text.lines.read_pairs → text.lines."""
    found = set()
    for name in imports()[module]:
        first, _, inner = name.partition(".")
        if first == "transformer_cli":
            while inner and inner not in imports():
                inner = inner.rpartition(".")[0]
            found.add(inner or "__init__")
    return found


def _group(module: str) -> int:
    (index,) = [index for index, group in enumerate(GROUPS) if module.split(".")[0] in group]
    return index


def test_every_module_has_a_group_and_every_group_its_modules() -> None:
    assert {module.split(".")[0] for module in imports()} == set().union(*GROUPS)


def test_imports_come_from_the_own_group_or_one_above() -> None:
    pairs = [(module, name) for module in imports() for name in sorted(_ours(module))]
    assert [pair for pair in pairs if _group(pair[1]) > _group(pair[0])] == []
    rooms = [{name.split(".")[0] for name in pair} for pair in pairs]
    assert {"datasets", "model"} not in rooms  # which never import each other
    assert {"datasets", "config"} in rooms


def test_imports_run_in_no_circle() -> None:
    graph = {module: _ours(module) - {module} for module in imports()}
    assert graph["training.trainer"] >= {"runs.run", "config.schema", "system.progress", "datasets.batching"}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(("library", "owner"), OWNERS.items())
def test_each_library_has_one_owner(library: str, owner: str | tuple[str, ...]) -> None:
    owners = (owner,) if isinstance(owner, str) else owner
    users = [
        module for module, names in imports().items() if any(f"{name}.".startswith(f"{library}.") for name in names)
    ]
    assert users
    assert {user for user in users if not f"{user}.".startswith(tuple(f"{each}." for each in owners))} == set()


def test_every_public_name_can_be_got() -> None:
    assert set(transformer_cli._HOME) <= set(dir(transformer_cli))
    for_checkers = {f"transformer_cli.{home}.{name}" for name, home in transformer_cli._HOME.items()}
    errors = {
        f"transformer_cli.errors.{name}" for name in vars(transformer_cli) if name.endswith(("Error", "age", "ted"))
    }
    assert set(imports()["__init__"]) - {"importlib.import_module", "typing.Any"} == for_checkers | errors
    for name, home in transformer_cli._HOME.items():
        found = getattr(transformer_cli, name)
        assert (found.__name__, found.__module__) == (name, f"transformer_cli.{home}")
    with pytest.raises(AttributeError, match="module 'transformer_cli' has no attribute 'nothing'"):
        transformer_cli.nothing  # noqa: B018
