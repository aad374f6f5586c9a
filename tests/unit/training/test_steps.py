"""Training that is counted in steps: when it validates, when it ends, and how it goes on."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinds import TrainTiny
from outcomes import PowerCut, outcome
from transformer_cli.config.load import load_config
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import ConfigError
from transformer_cli.runs.listing import list_runs
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average
from transformer_cli.system import progress
from transformer_cli.training.trainer import Trainer

EPOCH = ("training.batch_size=10", "training.epochs=1")  # of 20 steps
OFTEN = (*EPOCH, "training.validate_every=3", "training.average=2")
PATIENT = (*OFTEN, "training.learning_rate=1e-30", "training.patience=2")
EVERY_STEP = "training.save_minutes=1e-9"


def train_cut(train_tiny: TrainTiny, runs: Path, *settings: str, cuts: Sequence[int]) -> Run:
    """Train a run that is killed before these steps, and goes on."""
    step = Trainer.step
    for cut in cuts:

        def killed(trainer: Trainer, batches: Sequence[Rows], cut: int = cut) -> None:
            if trainer.state.step + 1 == cut:
                raise PowerCut
            step(trainer, batches)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trainer, "step", killed)
            with pytest.raises(PowerCut):
                train_tiny(runs, *settings, EVERY_STEP)
    return train_tiny(runs, *settings)


def test_it_validates_every_so_many_steps_and_after_the_last(train_tiny: TrainTiny, tmp_path: Path) -> None:
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


def test_validations_do_not_stop_at_the_end_of_an_epoch(train_tiny: TrainTiny, tmp_path: Path) -> None:
    run = train_tiny(tmp_path, "training.batch_size=40", "training.epochs=3", "training.validate_every=4")  # of 5 steps
    assert [(line["step"], line["epoch"]) for line in run.history()] == [(4, 1), (8, 2), (12, 3), (15, 3)]


@pytest.mark.parametrize("settings", [PATIENT, (*OFTEN, "training.steps=31", "training.schedule=cosine")])
def test_killed_it_ends_as_if_it_never_was(train_tiny: TrainTiny, tmp_path: Path, settings: Sequence[str]) -> None:
    whole = train_tiny(tmp_path / "whole", *settings)
    cut = train_cut(train_tiny, tmp_path / "cut", *settings, cuts=(4, 6, 9))
    assert outcome(cut) == outcome(whole)
    if settings is PATIENT:
        assert [(line["step"], line["best"]) for line in whole.history()] == [(3, True), (6, False), (9, False)]


def test_killed_before_the_last_validation_it_is_made(train_tiny: TrainTiny, tmp_path: Path) -> None:
    settings = ("training.batch_size=10", "training.steps=5")

    def killed(_: Trainer) -> None:
        raise PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_validate_and_save", killed)
        with pytest.raises(PowerCut):
            train_tiny(tmp_path / "cut", *settings, EVERY_STEP)
    assert outcome(train_tiny(tmp_path / "cut", *settings)) == outcome(train_tiny(tmp_path / "whole", *settings))


def test_steps_end_training_within_an_epoch_and_may_be_raised(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ("training.batch_size=10", "training.epochs=9", "training.validate_every=5")
    run = train_tiny(tmp_path / "raised", *settings, "training.steps=5")
    assert [line["step"] for line in run.history()] == [5]
    (listed,) = list_runs(tmp_path / "raised")
    assert (listed.state, listed.steps_done, listed.steps) == ("finished", 5, 5)
    with caplog.at_level(logging.INFO):
        train_tiny(tmp_path / "raised", *settings, "training.steps=5")
        raised = train_tiny(tmp_path / "raised", *settings, "training.steps=25")
    assert "all 5 steps are trained; raise training.steps to go on" in caplog.messages
    assert "resuming from the save at step 5 (epoch 1, 5 batches into it)" in caplog.messages
    assert outcome(raised) == outcome(train_tiny(tmp_path / "whole", *settings, "training.steps=25"))
    assert [line["epoch"] for line in raised.history()] == [1, 1, 1, 1, 2]


def test_saves_are_not_put_off_by_the_end_of_an_epoch(train_tiny: TrainTiny, tmp_path: Path) -> None:
    saved = []
    save = Trainer._save

    def noted(trainer: Trainer) -> None:
        saved.append(trainer.state.step)
        save(trainer)

    seconds = iter(range(0, 10**6, 8))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))  # of the trainer alone, which looks three times a step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_save", noted)
        patch.setattr("transformer_cli.training.trainer.time", clock)
        train_tiny(tmp_path, "training.batch_size=100", "training.steps=20", "training.validate_every=20")  # 2 an epoch
    assert saved == [20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_save", noted)
        patch.setattr("transformer_cli.training.trainer.time", clock)
        settings = ("training.steps=20", "training.validate_every=20", "training.save_minutes=1.5")
        train_tiny(tmp_path / "more", "training.batch_size=100", *settings)
    assert 4 <= len(saved) - 1 <= 8


def test_a_cosine_over_steps_falls_to_their_end_which_is_fixed(train_tiny: TrainTiny, tmp_path: Path) -> None:
    settings = ("training.batch_size=10", "training.schedule=cosine", "training.steps=8", "training.validate_every=1")
    run = train_tiny(tmp_path, *settings)
    rates = [line["learning_rate"] for line in run.history()]
    assert rates[0] == run.config.training.learning_rate
    assert rates[4] == pytest.approx(rates[0] / 2)
    message = r"^training\.steps: 9, but the cosine schedule of .*tiny is planned over 8 steps; give that to go on"
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *settings, "training.steps=9")


@pytest.mark.parametrize(
    ("steps", "every", "average", "is_enough"),
    [(20, 5, 4, True), (21, 5, 5, True), (20, 5, 5, False), (None, 5, 500, True), (20, None, 9, True)],
)
def test_more_validations_than_there_will_be_cannot_be_averaged(
    steps: int | None, every: int | None, average: int, is_enough: bool
) -> None:
    settings = [f"training.steps={json.dumps(steps)}", f"training.validate_every={json.dumps(every)}"]
    settings.append(f"training.average={average}")
    if is_enough:
        assert load_config(None, settings).training.average == average
    else:
        with pytest.raises(ConfigError, match="average: 5 validations, but there are only 4; lower it"):
            load_config(None, settings)


def test_the_bar_counts_steps(train_tiny: TrainTiny, tmp_path: Path, bars: list[progress.Bar]) -> None:
    train_tiny(tmp_path, "training.batch_size=40", "training.steps=7")  # of 5 steps an epoch
    assert [each.desc for each in bars] == ["step 5/7", "step 7/7"]
