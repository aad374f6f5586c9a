"""The core without its adapters, in a fresh interpreter: trains on a list of pairs, resumes, scores and translates."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import transformer_cli

PACKAGE = Path(transformer_cli.__file__).parent
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


def test_core_without_adapters_trains_on_pairs_resumes_scores_and_translates(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "core/transformer_cli", ignore=shutil.ignore_patterns(*AROUND, "__pycache__"))
    program = "import transformer_cli; print(transformer_cli.__file__)\n" + PROGRAM
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "core"), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert "resum" in done.stderr or "epoch 10" in done.stderr
