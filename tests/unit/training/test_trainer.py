"""Training: what a step is, what is recorded, and what is said and refused."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from kinds import TrainTiny
from outcomes import power_cut, weights
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.training import learner as module
from transformer_cli.training.learner import BatchLoss, Learner
from transformer_cli.training.trainer import train

KEYS = [
    *("epoch", "step", "train_loss", "valid_loss", "train_loss_batch_mean", "valid_loss_batch_mean", "valid_ppl"),
    *("learning_rate", "target_tokens", "train_seconds", "valid_seconds", "skipped_steps", "best"),
    *("target_tokens_per_second", "date", "extra_valid_loss", "valid_score", "steps", "examples"),
]
TWO_STEPS = ("training.batch_size=100",)  # an epoch of two steps


def largest_difference(one: Run, other: Run) -> float:
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def test_history_has_its_keys_and_a_line_per_epoch(tiny: Run, project: Path) -> None:
    history = tiny.history()
    dataset = Dataset.open(find_dataset(tiny.config.data, project / "data"))
    lengths = dataset.split("train").target.lengths
    assert [list(entry) for entry in history] == [KEYS] * 6
    assert [(entry["epoch"], entry["step"]) for entry in history] == [(epoch, 13 * epoch) for epoch in range(1, 7)]
    assert {entry["target_tokens"] for entry in history} == {int(lengths.sum()) + len(lengths)}
    assert {(entry["learning_rate"], entry["skipped_steps"]) for entry in history} == {(0.01, 0)}
    assert [each["step"] for entry in history for each in entry["steps"]] == [*range(1, 79)]
    first = history[0]["steps"][0]
    assert {**first, "loss": 0, "gradient_norm": 0} == {"step": 1, "loss": 0, "learning_rate": 0.01, "gradient_norm": 0}
    assert first["loss"] > history[-1]["steps"][-1]["loss"] > 0
    assert first["gradient_norm"] > 0
    assert all(entry["valid_ppl"] == math.exp(entry["valid_loss"]) for entry in history)
    best_so_far = [min(entry["valid_loss"] for entry in history[: index + 1]) for index in range(6)]
    for entry, best in zip(history, best_so_far, strict=True):
        assert entry["best"] == (entry["valid_loss"] == best)
    best = next(entry for entry in reversed(history) if entry["best"])
    assert tiny.checkpoint("best").name == f"step-{best['step']:07d}"


def test_train_in_micro_batches_equals_whole_batches(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # eps: some gradients are 0 but for rounding, and Adam would make steps of learning_rate of them
    overrides = ("training.batch_size=67", "training.epochs=1", "model.dropout=0.0", "training.eps=1e-2")
    runs = []
    for part in (module.MICRO_BATCH_TOKENS, 100):
        monkeypatch.setattr(module, "MICRO_BATCH_TOKENS", part)
        runs.append(train_tiny(tmp_path / str(part), *overrides))
    assert [run.history()[0]["step"] for run in runs] == [3, 3]
    assert largest_difference(*runs) < 1e-6
    losses = [run.history()[0]["train_loss"] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_gradient_accumulation_equals_one_large_batch(train_tiny: TrainTiny, tmp_path: Path) -> None:
    common = ("training.epochs=2", "model.dropout=0.0", "training.eps=1e-2", "training.label_smoothing=0.1")
    overrides = (*common, "training.schedule=cosine")  # which falls with the share of training that is done
    small = ("training.batch_size=20", "training.gradient_accumulation_steps=3")  # 4 steps, the last of one batch
    large = train_tiny(tmp_path / "large", *overrides, "training.batch_size=60")
    accumulated = train_tiny(tmp_path / "small", *overrides, *small)
    assert [entry["step"] for entry in accumulated.history()] == [4, 8]
    assert largest_difference(large, accumulated) < 1e-6
    for one, other in zip(large.history(), accumulated.history(), strict=True):
        steps, other_steps = one.pop("steps"), other.pop("steps")
        for key in one.keys() - {"train_seconds", "valid_seconds", "target_tokens_per_second", "date"}:
            assert one[key] == (other[key] and pytest.approx(other[key], rel=1e-5))
        assert all(here == pytest.approx(there, rel=1e-4) for here, there in zip(steps, other_steps, strict=True))


def test_label_smoothing_changes_weights_not_the_reported_loss(train_tiny: TrainTiny, tmp_path: Path) -> None:
    common = ("training.batch_size=200", "training.epochs=1", "model.dropout=0.0")  # one step from the same weights
    plain = train_tiny(tmp_path / "plain", *common)
    smoothed = train_tiny(tmp_path / "smoothed", *common, "training.label_smoothing=0.1")
    assert plain.history()[0]["train_loss"] == smoothed.history()[0]["train_loss"]
    assert largest_difference(plain, smoothed) > 1e-3


def test_schedule_that_ignores_the_end_gets_no_progress(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float | None] = []

    def constant(training: TrainingConfig, step: int, progress: float | None) -> float:
        seen.append(progress)
        return training.learning_rate

    monkeypatch.setattr("transformer_cli.training.trainer.learning_rate", constant)
    train_tiny(tmp_path, "training.max_steps=2")
    train_tiny(tmp_path, "training.max_steps=2", "training.schedule=cosine", "name=cosine")
    assert seen == [None, None, None, 0.0, 0.5, 0.5]  # two steps, and once more before the validation


def test_train_max_length_leaves_longer_pairs_out_and_warns(
    train_tiny: TrainTiny, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run = train_tiny(tmp_path, "model.max_length=9", "training.epochs=1")
    n_pairs, n_short = (
        {name: (corpus / f"{name}.en").read_text(encoding="utf-8").count(end) for name in ("train", "valid")}
        for end in (".\n", " at home.\n")  # seven tokens, the others have eight
    )
    assert caplog.messages == [
        *(f"{name}: left out {n_pairs[name] - n_short[name]} pairs longer than max_length 9" for name in n_pairs),
        f"valid: {n_short['valid']} pairs are too few to choose a checkpoint; use a few hundred",
    ]
    assert run.history()[0]["target_tokens"] == 8 * n_short["train"]


def test_train_max_length_shorter_than_every_pair_is_an_error(train_tiny: TrainTiny, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pair of train fits in model\.max_length 5; "):
        train_tiny(tmp_path, "model.max_length=5")


def test_patience_counts_validations_without_a_new_best(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = (*TWO_STEPS, "training.learning_rate=1e-30", "training.epochs=9")
    with caplog.at_level(logging.INFO):
        run = train_tiny(tmp_path, *stuck, "training.patience=2")
    assert [entry["best"] for entry in run.history()] == [True, False, False]
    assert "no better loss in 2 validations (patience): stopping" in caplog.messages
    run = train_tiny(tmp_path, *stuck, "training.patience=3")  # patience may change
    assert [entry["best"] for entry in run.history()] == [True, False, False, False]


def test_train_counts_a_skipped_step_and_continues(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = Learner.backward

    def spoil(learner: Learner, *arguments: Any, step: int) -> BatchLoss:
        loss = compute(learner, *arguments, step=step)
        return BatchLoss(math.nan, loss.tokens) if step == 2 else loss

    monkeypatch.setattr(Learner, "backward", spoil)
    run = train_tiny(tmp_path, *TWO_STEPS, "training.epochs=2")
    assert [entry["skipped_steps"] for entry in run.history()] == [1, 0]
    assert run.history()[1]["train_loss"] < run.history()[0]["train_loss"]


TWO_SENTENCES = ("training.learning_rate=1e30", "training.batch_size=2", "training.epochs=2")  # an epoch of 100 steps


@pytest.mark.parametrize(
    ("settings", "cut_at", "reason"),
    [
        (("training.validate_every=500",), 9, "no finite loss or gradient in 100 steps in a row, the last .* 101 "),
        (("training.validate_every=1",), None, "validation loss nan at step 1"),
    ],
)
def test_train_diverged_is_an_error_with_the_rate(
    train_tiny: TrainTiny, tmp_path: Path, settings: tuple[str, ...], cut_at: int | None, reason: str
) -> None:
    if cut_at is not None:  # the steps before the cut count too
        with power_cut(tmp_path, f"step-{cut_at:07d}-unvalidated"):
            train_tiny(tmp_path, *TWO_SENTENCES, *settings, "training.save_minutes=1e-9")
    cause = rf"made training diverge \({reason}.*\)"
    message = rf"^training\.learning_rate: 1e\+30 {cause}; lower it and train with --fresh$"
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *TWO_SENTENCES, *settings)


@pytest.mark.usefixtures("project")  # which trains, made before the patch
def test_train_with_all_steps_skipped_is_an_error(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Learner, "step", lambda _: math.nan)
    message = "none of the 2 steps before the validation at step 2 had a .*, and no step has changed"
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *TWO_STEPS)


NEVER_WARM = "training has about 2 steps, so its rate never reaches training.learning_rate"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("warmup_steps=1", []),
        ("warmup_steps=2", [f"training.warmup_steps 2: {NEVER_WARM}"]),
        ("batch_size=201", ["training.batch_size 201 takes all pairs at once: an epoch is one step"]),
        (
            "muon_learning_rate=0.5",
            ["training.muon_learning_rate: 0.5 changes nothing without training.optimizer: muon"],
        ),
    ],
)
def test_train_warns_of_settings_that_do_not_fit(
    setting: str, said: list[str], train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = () if setting.startswith("batch_size") else TWO_STEPS
    train_tiny(tmp_path, *size, "training.epochs=1", f"training.{setting}")
    assert caplog.messages == said


def test_cosine_schedule_falls_over_all_epochs(train_tiny: TrainTiny, tmp_path: Path) -> None:
    cosine = ("training.schedule=cosine", "training.warmup_steps=2", "training.epochs=3", "training.validate_every=1")
    run = train_tiny(tmp_path, *cosine, "training.batch_by=tokens", "training.batch_size=600")
    rates = [entry["learning_rate"] for entry in run.history()]
    n_first = [entry["epoch"] for entry in run.history()].count(1)
    falls = [(1 + math.cos(math.pi * index / n_first / 3)) / 2 for index in range(n_first)]
    expected = [0.01 * min(1.0, index / 2 + 0.5) * share for index, share in enumerate(falls)]
    assert rates[:n_first] == pytest.approx(expected)
    assert rates[1:] == sorted(set(rates[1:]), reverse=True)
    assert 0.0 < rates[-1] < 1e-3


@pytest.mark.parametrize("override", ["training.initialize_from=base", "training.tensorboard=true"])
def test_core_train_refuses_a_setting_without_callback(corpus: Path, tmp_path: Path, override: str) -> None:
    config = load_config(corpus / "tiny.yaml", override)
    with pytest.raises(ConfigError, match=f"^{override.partition('=')[0]}: no callback implements it; use"):
        train(config, runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())
