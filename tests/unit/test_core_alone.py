"""The core without its adapters, in a fresh interpreter: trains on a list of pairs, resumes, scores and translates."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_cli

PACKAGE = Path(transformer_cli.__file__).parent
TESTS = Path(__file__).parents[1]
ROOMS = ("model", "text", "data", "search", "runs", "scoring", "training")
AROUND = ("adapters", "commands", "api.py", "__main__.py")
PROGRAM = """\
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairCorpus
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.scoring.evaluate import evaluate, read_splits, score_pairs
from transformer_cli.training.trainer import train
from transformer_cli.translate import Translator, open_models

NOUNS = {"Hund": "dog", "Mann": "man", "Igel": "hedgehog", "Stuhl": "chair"}
VERBS = {"läuft": "runs", "singt": "sings", "wartet": "waits"}
pairs = [(f"Der {one} {verb}.", f"The {other} {does}.") for one, other in NOUNS.items() for verb, does in VERBS.items()]


def config(epochs: int) -> Config:
    data = {"corpus": "pairs", "min_freq": 1, "lowercase": False}
    model = {"d_model": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0}
    training = {"epochs": epochs, "batch_size": 8, "learning_rate": 1e-2, "device": "cpu", "num_threads": 1}
    return Config.model_validate({"name": "alone", "data": data, "model": model, "training": training})


dataset = make_dataset(config(1), PairCorpus({"train": pairs * 4, "valid": pairs, "test": pairs[:6]}))
train(config(5))
run = train(config(10))
assert [entry["epoch"] for entry in run.history()] == list(range(1, 11))
translator = Translator([run], *open_models([run], "cpu"))
assert translator.translate(["Der Hund singt.", "Der Igel wartet."]) == ["The dog sings.", "The hedgehog waits."]
right, wrong = score_pairs(translator, [pairs[0], (pairs[0][0], "The man waits.")])
assert right.log_prob > wrong.log_prob, (right, wrong)
(judged,) = evaluate(translator, read_splits(run.config.data, ["test"], Path("data")))
assert judged.result.chrf == 100.0, judged
"""


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A folder with the package as it is without its adapters, and with all tests."""
    ignored = shutil.ignore_patterns("__pycache__", *AROUND)
    shutil.copytree(PACKAGE, tmp_path / "transformer_cli", ignore=ignored)
    shutil.copytree(TESTS, tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "adapters", "commands"))
    for beside in ("configs", "scripts"):
        shutil.copytree(TESTS.parent / beside, tmp_path / beside)
    shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
    return tmp_path


def run_python(core: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python beside the core, which it finds before any other installation."""
    environment = {**os.environ, "PYTHONPATH": str(core), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=core, env=environment, capture_output=True, text=True, check=False)


def test_core_alone_imports_trains_resumes_scores_translates(core: Path) -> None:
    files = (core / "transformer_cli").rglob("*.py")  # each of them has to be imported without any adapter
    names = [".".join(path.relative_to(core).with_suffix("").parts) for path in files]
    assert {"transformer_cli.training.trainer", "transformer_cli.translate"} <= {*names}
    done = run_python(core, "-c", f"{PROGRAM}\nimport {', '.join(names)}\nprint(transformer_cli.__file__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{core}/transformer_cli/__init__.py\n"


def test_tests_of_the_core_import_nothing_around_it() -> None:
    tests = [path.read_text(encoding="utf-8") for room in ROOMS for path in (TESTS / "unit" / room).rglob("*.py")]
    around = re.compile(r"transformer_cli\.(?:adapters|commands|api)\b|from transformer_cli import|\btfm: Tfm")
    assert len(tests) > 30
    assert not [found for text in tests for found in around.findall(text)]


@pytest.mark.long
def test_core_alone_passes_its_tests(core: Path) -> None:
    done = run_python(core, "-m", "pytest", *(f"tests/unit/{room}" for room in ROOMS))
    assert done.returncode == 0, done.stdout
