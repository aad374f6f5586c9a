"""The package's structure: which rooms import which, and which module owns a library."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import transformer_cli

PACKAGE = Path(transformer_cli.__file__).parent
GROUND = ("errors", "system", "config", "compute")
CORE = {  # folder or module: the others of the core that it may import, beside the ground floor
    "model": (),
    "text": (),
    "data": ("text",),
    "search": ("model", "text", "data"),
    "runs": ("model", "text", "data"),
    "pipeline": ("text", "search"),
    "translate": ("model", "text", "search", "runs", "pipeline"),
    "scoring": ("model", "text", "data", "search", "runs", "pipeline", "translate"),
    "training": ("model", "text", "data", "search", "runs", "scoring"),
}
ADAPTERS = {  # each may import the whole core, and of the other adapters these
    "adapters.corpora": (),
    "adapters.terminology": (),
    "adapters.documents": ("adapters.terminology", "adapters.corpora"),
    "adapters.finetuning": ("adapters.corpora",),
    "adapters.interop": (),
    "adapters.study": ("adapters.corpora",),
    "adapters.serve": ("adapters.terminology", "adapters.documents", "adapters.study"),
}
ALLOWED = {
    "errors": (),
    "system": ("errors",),
    "config": ("errors", "system"),
    "compute": ("errors", "system"),
    **{name: (*GROUND, *others) for name, others in CORE.items()},
    **{name: (*GROUND, *CORE, *others) for name, others in ADAPTERS.items()},
    "api": (*GROUND, *CORE, *ADAPTERS),
    "commands": (*GROUND, *CORE, *ADAPTERS, "api"),
    "__init__": (*GROUND, *CORE, *ADAPTERS, "api"),
    "__main__": ("commands",),
    "runtime": (),
}
OWNERS = {  # each library has one; typer the two that make the command line, sacreBLEU one for scores, one for tests
    "ctranslate2": ("adapters.interop.ctranslate2", "adapters.interop.to_ctranslate2"),  # to run models, to write them
    "fastapi": "adapters.serve",
    "ftfy": "adapters.corpora.cleaning",
    "markdown_it": "adapters.documents.markdown_inlines",
    "matplotlib": "adapters.study",
    "platformdirs": "adapters.corpora.multi30k",
    "prometheus_client": "adapters.serve.middleware",
    "py3langid": ("adapters.corpora.cleaning", "adapters.serve.languages"),
    "pydantic": ("config", "adapters.serve"),
    "readline": "commands.streams",
    "requests": "adapters.corpora.multi30k",
    "sacrebleu": ("scoring.metrics", "adapters.study.statistics"),
    "starlette": "adapters.serve",
    "safetensors": ("runs.checkpoints", "adapters.study.listing", "adapters.interop"),
    "sentencepiece": "text.subwords",
    "sentencex": "text.sentences",
    "spacy": "text.words",
    "tensorboard": "adapters.study.curves",
    "torch.distributed": "compute.world",
    "torchtext": "text.vocabulary",
    "tqdm": "system.progress",
    "typer": "commands",
    "uvicorn": "adapters.serve.server",
    "yaml": "config.yaml_text",
}


def _imports(path: Path) -> Iterator[str]:
    """Returns the dotted names of a file's imports, also inside functions; `from a import b` is a.b."""
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
    """The imports of each module."""
    return {_module(path): sorted(_imports(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def _ours(module: str) -> set[str]:
    """Returns the imported modules of the package: transformer_cli.text.lines.read_pairs → text.lines."""
    found = set()
    for name in imports()[module]:
        first, _, inner = name.partition(".")
        if first == "transformer_cli":
            while inner and inner not in imports():
                inner = inner.rpartition(".")[0]
            found.add(inner or "__init__")
    return found


def _room(module: str) -> str:
    """adapters.corpora.formats → adapters.corpora, text.lines → text, errors → errors."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "adapters" else 1])


def test_every_module_belongs_to_a_room() -> None:
    assert {_room(module) for module in imports()} == {*ALLOWED, "adapters"}


def test_rooms_import_only_allowed_rooms() -> None:
    pairs = {(module, name) for module in imports() for name in _ours(module)}
    assert ("translate", "runs.run") in pairs
    assert not {(one, other) for one, other in pairs if _room(other) not in (*ALLOWED.get(_room(one), ()), _room(one))}


def test_imports_have_no_cycle() -> None:
    graph = {module: _ours(module) - {module} for module in imports()}
    assert graph["training.trainer"] >= {"runs.run", "config.schema", "training.messages", "data.batching"}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(("library", "owner"), OWNERS.items())
def test_each_library_has_one_owner(library: str, owner: str | tuple[str, ...]) -> None:
    owners = (owner,) if isinstance(owner, str) else owner
    users = [
        module for module, names in imports().items() if any(f"{name}.".startswith(f"{library}.") for name in names)
    ]
    assert users
    assert {user for user in users if not f"{user}.".startswith(tuple(f"{each}." for each in owners))} == set()


def test_every_public_name_can_be_imported() -> None:
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
