"""Training that is counted in steps: when it validates, when it ends, and how it goes on."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from disturb import Disturbance, disturbed
from kinds import TrainTiny
from outcomes import outcome
from transformer_cli.errors import CheckpointError, ConfigError
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average
from transformer_cli.system import progress

EPOCH = ("training.batch_size=10", "training.epochs=1")  # of 20 steps
OFTEN = (*EPOCH, "training.validate_every=3", "training.average_checkpoints=2")


def test_validate_every_counts_steps_and_ends_with_one(train_tiny: TrainTiny, tmp_path: Path) -> None:
    run = train_tiny(tmp_path, *OFTEN)
    history = run.history()
    assert [line["step"] for line in history] == [3, 6, 9, 12, 15, 18, 20]
    assert {line["epoch"] for line in history} == {1}
    whole = train_tiny(tmp_path / "whole", *EPOCH)
    assert sum(line["target_tokens"] for line in history) == whole.history()[0]["target_tokens"]
    assert history[-1]["valid_loss"] == whole.history()[0]["valid_loss"]  # the same weights
    average = load_average(run)
    assert average is not None
    assert (average.epochs, average.step) == ([1, 1], 20)
    assert {path.name for path in run.folder.glob("checkpoints/val*")} == {"validation-0006", "validation-0007"}


def test_validate_every_counts_across_epochs(train_tiny: TrainTiny, tmp_path: Path) -> None:
    run = train_tiny(tmp_path, "training.batch_size=40", "training.epochs=3", "training.validate_every=4")  # of 5 steps
    assert [(line["step"], line["epoch"]) for line in run.history()] == [(4, 1), (8, 2), (12, 3), (15, 3)]


def test_max_steps_end_within_an_epoch_and_can_be_raised(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ("training.batch_size=10", "training.epochs=9", "training.validate_every=5")
    run = train_tiny(tmp_path / "raised", *settings, "training.max_steps=5")
    assert [line["step"] for line in run.history()] == [5]
    with caplog.at_level(logging.INFO):
        train_tiny(tmp_path / "raised", *settings, "training.max_steps=5")
        raised = train_tiny(tmp_path / "raised", *settings, "training.max_steps=25")
    assert "all 5 steps are trained; raise training.max_steps to train on" in caplog.messages
    assert "resuming from the checkpoint at step 5 (epoch 1, 5 batches into it)" in caplog.messages
    assert outcome(raised) == outcome(train_tiny(tmp_path / "whole", *settings, "training.max_steps=25"))
    assert [line["epoch"] for line in raised.history()] == [1, 1, 1, 1, 2]


def test_save_minutes_count_across_epochs(train_tiny: TrainTiny, tmp_path: Path) -> None:
    seconds = iter(range(0, 10**6, 8))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))  # of the trainer alone, which looks three times a step
    settings = ("training.batch_size=100", "training.max_steps=20", "training.validate_every=20")  # of 2 steps an epoch
    saves = []
    for minutes in (20.0, 1.5):
        with pytest.MonkeyPatch.context() as patch, disturbed(Disturbance(tmp_path)) as seen:
            patch.setattr("transformer_cli.training.trainer.time", clock)
            train_tiny(tmp_path / str(minutes), *settings, f"training.save_minutes={minutes}")
        saves.append(seen.operations.count("replace last"))
    assert saves[0] == 2  # before and after the validation
    assert 5 <= saves[1] <= 9


def test_cosine_over_max_steps_refuses_another_number(train_tiny: TrainTiny, tmp_path: Path) -> None:
    cosine = ("training.schedule=cosine", "training.max_steps=8", "training.validate_every=1")
    settings = ("training.batch_size=10", *cosine)
    run = train_tiny(tmp_path, *settings)
    rates = [line["learning_rate"] for line in run.history()]
    assert rates[0] == run.config.training.learning_rate
    assert rates[4] == pytest.approx(rates[0] / 2)
    with pytest.raises(ConfigError, match=r"training\.max_steps: 8 → 9, the end of its cosine schedule"):
        train_tiny(tmp_path, *settings, "training.max_steps=9")
    path = run.folder / "config.yaml"
    path.write_text(path.read_text().replace("max_steps: 8", "max_steps: 9"))
    with pytest.raises(CheckpointError, match=r"have been changed \(training\.max_steps: 8 → 9\); put the old ones"):
        Run.open(run.folder)


def test_step_bar_counts_steps(train_tiny: TrainTiny, tmp_path: Path, bars: list[progress.Bar]) -> None:
    train_tiny(tmp_path, "training.batch_size=40", "training.max_steps=7")  # of 5 steps an epoch
    assert [each.desc for each in bars] == ["step 5/7", "step 7/7"]
