"""Callbacks of the loop: when each method is called, and what it can change."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, Rows
from transformer_cli.errors import DataError
from transformer_cli.runs.checkpoints import Checkpoint, load_validation_weights
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average
from transformer_cli.training.callbacks import Callback, FinalWeights, TrainerView
from transformer_cli.training.trainer import train

Train = Callable[..., Run]


@pytest.fixture
def train_with(corpus: Path, project: Path, tmp_path: Path) -> Train:
    """train_with(callback, *overrides, fresh=False): the tiny run with epochs of two steps, trained in tmp_path."""

    def trained(callback: Callback, *overrides: str, fresh: bool = False) -> Run:
        config = load_config(corpus / "tiny.yaml", ["training.batch_size=100", *overrides])
        return train(config, data_dir=project / "data", runs_dir=tmp_path, fresh=fresh, callbacks=[callback])

    return trained


class SweepLearningRates(Callback):
    """Takes some steps before training begins, and puts weights and moments back."""

    def on_begin(self, trainer: TrainerView) -> None:
        learner = trainer.learner
        model, optimizer = copy.deepcopy((learner.model.state_dict(), learner.optimizer.state_dict()))
        for step, rate in enumerate((1e-4, 1e-2), start=1):
            learner.set_learning_rate(rate)
            learner.backward(trainer.texts.train.split, [trainer.texts.train.rows[:9]], step=step)
            learner.step()
        learner.model.load_state_dict(model)
        learner.optimizer.load_state_dict(optimizer)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_sweep_of_learning_rates_on_begin_changes_no_bit(train_with: Train, tmp_path: Path, optimizer: str) -> None:
    weights = []
    for name, callback in (("plain", Callback()), ("swept", SweepLearningRates())):
        run = train_with(callback, f"training.optimizer={optimizer}", "training.epochs=2", f"name={name}")
        weights.append((run.checkpoint("last") / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


class Noted(Callback):
    """Notes which of its methods are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        self.calls.append(f"before, folder is there: {(runs_dir / config.run_name).exists()}")

    def on_new_run(self, run: Run, checkpoint: Checkpoint) -> None:
        self.calls.append(f"new {run.folder.name}")

    def on_begin(self, trainer: TrainerView) -> None:
        self.calls.append(f"begin at step {trainer.state.step}")

    def on_gradients(self, trainer: TrainerView) -> None:
        assert all(weight.grad is not None for weight in trainer.learner.model.parameters())
        self.calls.append(f"gradients of step {trainer.state.step + 1}")

    def on_validation(self, trainer: TrainerView) -> None:
        assert trainer.run.checkpoint("last").name == f"step-{trainer.validations[-1].step:07d}", "it has been saved"
        self.calls.append(f"validation {len(trainer.validations)}")


def test_callback_methods_are_called_in_order(train_with: Train) -> None:
    noted = Noted()
    train_with(noted, "training.epochs=1")
    made = ["before, folder is there: False", "new tiny"]
    steps = [f"gradients of step {number}" for number in range(1, 5)]
    assert noted.calls == [*made, "begin at step 0", *steps[:2], "validation 1"]
    noted.calls.clear()
    train_with(noted, "training.epochs=2")
    assert noted.calls == ["begin at step 2", "validation 1", *steps[2:], "validation 2"]


def test_callback_error_leaves_the_old_run_in_place(train_with: Train, tmp_path: Path) -> None:
    class Refusing(Callback):
        def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
            raise DataError("no")

    run = train_with(Callback(), "training.epochs=1")
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(DataError, match="no"):
        train_with(Refusing(), "training.epochs=1", fresh=True)
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert Run.open(run.folder).metadata == run.metadata


def test_callback_chooses_the_rows_of_an_epoch(train_with: Train) -> None:
    class Half(Callback):
        def epoch_rows(self, trainer: TrainerView, rows: Rows) -> Rows:
            return np.array_split(rows, 2)[trainer.state.epoch - 1]

    run = train_with(Half(), "training.epochs=2")
    assert [each["step"] for each in run.history()] == [1, 2]  # of 100 of the 200 pairs each


def test_callback_final_weights_are_saved(train_with: Train, caplog: pytest.LogCaptureFixture) -> None:
    class First(Callback):
        def needed_validations(self, trainer: TrainerView) -> set[int]:
            return {1}

        def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights:
            assert weights is None
            return FinalWeights(load_validation_weights(trainer.run, 1))

    caplog.set_level("INFO")
    run = train_with(First(), "training.epochs=3")
    assert [path.name for path in (run.folder / "checkpoints").glob("validation-*")] == ["validation-0001"]
    made = load_average(run)
    assert made
    assert made.valid_loss == run.history()[0]["valid_loss"]
    assert caplog.messages[-2].startswith(f"final weights  valid {made.valid_loss:.3f} (PPL ")
