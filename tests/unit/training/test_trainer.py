"""Training: what a step is, what is recorded, and that a run goes on exactly from any moment at which it can end."""

import logging
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kinds import TrainTiny
from oracles.draws import Draws
from outcomes import PowerCut, outcome
from transformer_cli.data.dataset import Dataset, EncodedSplit, find_dataset
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.training import learner as module
from transformer_cli.training import trainer as trainer_module
from transformer_cli.training.learner import BatchLoss, Learner
from transformer_cli.training.opening import load_run
from transformer_cli.training.trainer import Trainer

KEYS = [
    *("epoch", "step", "train_loss", "valid_loss", "train_loss_batch_mean", "valid_loss_batch_mean", "valid_ppl"),
    *("learning_rate", "target_tokens", "train_seconds", "valid_seconds", "skipped_steps", "best"),
    *("target_tokens_per_second", "date"),
]
TWO_STEPS = ("training.batch_size=100",)  # an epoch of two steps
EVERY_STEP = ("training.save_minutes=1e-9",)


def weights(run: Run, pointer: str = "last") -> dict[str, Tensor]:
    return load_file(run.checkpoint(pointer) / "model.safetensors")


def largest_difference(one: Run, other: Run) -> float:
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.fixture(scope="module")
def uninterrupted(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome(train_tiny(tmp_path_factory.mktemp("uninterrupted"), *TWO_STEPS, "training.epochs=2"))


def test_the_loss_falls(tiny: Run) -> None:
    first, *_, last = tiny.history()
    assert last["train_loss"] < first["train_loss"] / 4
    assert last["valid_loss"] < first["valid_loss"] / 2


@pytest.mark.parametrize("limit", ["0.001", "null"])
def test_the_gradient_is_clipped_to_its_norm(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    norms: list[float] = []
    step = torch.optim.Adam.step

    def watch(optimizer: torch.optim.Adam, *arguments: Any) -> Any:
        gradients = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
        norms.append(float(torch.nn.utils.get_total_norm(gradients)))
        return step(optimizer, *arguments)

    monkeypatch.setattr(torch.optim.Adam, "step", watch)
    train_tiny(tmp_path, *TWO_STEPS, "training.epochs=1", f"training.clip_grad_norm={limit}")
    assert len(norms) == 2
    if limit == "null":
        assert min(norms) > 0.01
    else:
        assert norms == pytest.approx([0.001, 0.001], rel=0.01)


def test_history_has_the_promised_keys_and_a_line_an_epoch(tiny: Run, project: Path) -> None:
    history = tiny.history()
    dataset = Dataset.open(find_dataset(tiny.config.data, project / "data"))
    lengths = dataset.split("train").target.lengths
    assert [list(entry) for entry in history] == [KEYS] * 6
    assert [(entry["epoch"], entry["step"]) for entry in history] == [(epoch, 13 * epoch) for epoch in range(1, 7)]
    assert {entry["target_tokens"] for entry in history} == {int(lengths.sum()) + len(lengths)}
    assert {(entry["learning_rate"], entry["skipped_steps"]) for entry in history} == {(0.01, 0)}
    assert all(entry["valid_ppl"] == math.exp(entry["valid_loss"]) for entry in history)
    best_so_far = [min(entry["valid_loss"] for entry in history[: index + 1]) for index in range(6)]
    assert [entry["best"] for entry in history] == [
        entry["valid_loss"] == best for entry, best in zip(history, best_so_far, strict=True)
    ]
    best = next(entry for entry in reversed(history) if entry["best"])
    assert tiny.checkpoint("best").name == f"step-{best['step']:07d}"


def test_the_fast_form_in_small_parts_trains_as_the_plain_form_does(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", 100)
    # eps: some gradients are 0 but for rounding, and Adam would make steps of learning_rate of them
    overrides = ("training.batch_size=67", "training.epochs=1", "model.dropout=0.0", "training.eps=1e-2")
    runs = [train_tiny(tmp_path / fast, *overrides, f"training.fast={fast}") for fast in ("true", "false")]
    assert [run.history()[0]["step"] for run in runs] == [3, 3]
    assert largest_difference(*runs) < 1e-6
    losses = [run.history()[0]["train_loss"] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_accumulated_batches_are_one_large_batch(train_tiny: TrainTiny, tmp_path: Path) -> None:
    common = ("training.epochs=2", "model.dropout=0.0", "training.eps=1e-2", "training.label_smoothing=0.1")
    overrides = (*common, "training.schedule=cosine")  # which falls with the share of training that is done
    small = ("training.batch_size=20", "training.accumulate=3")  # 10 batches: 4 steps, the last of one batch
    large = train_tiny(tmp_path / "large", *overrides, "training.batch_size=60")
    accumulated = train_tiny(tmp_path / "small", *overrides, *small)
    assert [entry["step"] for entry in accumulated.history()] == [4, 8]
    assert largest_difference(large, accumulated) < 1e-6
    for one, other in zip(large.history(), accumulated.history(), strict=True):
        for key in one.keys() - {"train_seconds", "valid_seconds", "target_tokens_per_second", "date"}:
            assert one[key] == pytest.approx(other[key], rel=1e-5)


def test_accumulating_saves_between_steps_and_goes_on_exactly(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = ("training.epochs=1", "training.batch_size=20", "training.accumulate=3")
    expected = outcome(train_tiny(tmp_path / "whole", *overrides))
    with monkeypatch.context() as patch:
        _cut_power(patch, "last", 3)
        with pytest.raises(PowerCut):
            train_tiny(tmp_path / "cut", *overrides, *EVERY_STEP)
    with caplog.at_level(logging.INFO):
        assert outcome(train_tiny(tmp_path / "cut", *overrides)) == expected
    assert "resuming from the save at step 2 (epoch 1, 6 batches into it)" in caplog.messages


def test_label_smoothing_changes_what_is_learned_but_not_what_is_reported(
    train_tiny: TrainTiny, tmp_path: Path
) -> None:
    common = ("training.batch_size=200", "training.epochs=1", "model.dropout=0.0")  # one step from the same weights
    plain = train_tiny(tmp_path / "plain", *common)
    smoothed = train_tiny(tmp_path / "smoothed", *common, "training.label_smoothing=0.1")
    assert plain.history()[0]["train_loss"] == smoothed.history()[0]["train_loss"]
    assert largest_difference(plain, smoothed) > 1e-3


def test_a_resumed_run_draws_no_weights(tiny: Run, project: Path) -> None:
    dataset = Dataset.open(find_dataset(tiny.config.data, project / "data"))
    with Draws() as draws:
        trainer = Trainer(load_run(tiny, dataset), torch.device("cpu"))
    assert draws.counts == {}
    saved = weights(tiny)
    assert all(value.equal(saved[name]) for name, value in trainer.learner.model.state_dict().items())


def test_pairs_too_long_are_left_out_and_counted(
    train_tiny: TrainTiny, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run = train_tiny(tmp_path, "model.max_length=9", "training.epochs=1")
    n_pairs, n_short = (
        {name: (corpus / f"{name}.en").read_text(encoding="utf-8").count(end) for name in ("train", "valid")}
        for end in (".\n", " at home.\n")  # seven tokens, the others have eight
    )
    assert caplog.messages == [
        f"{name}: left out {n_pairs[name] - n_short[name]} pairs longer than max_length 9" for name in n_pairs
    ]
    assert run.history()[0]["target_tokens"] == 8 * n_short["train"]


def test_a_model_too_short_for_every_pair_is_an_error(train_tiny: TrainTiny, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pair of train fits in model\.max_length 5$"):
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


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_no_weight_and_is_counted(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    compute, step = Learner.gradient, Trainer.step
    changed: list[bool] = []

    def spoil(learner: Learner, split: EncodedSplit, batches: Sequence[Rows], *, number: int) -> BatchLoss:
        loss = compute(learner, split, batches, number=number)
        if len(changed) + 1 in (2, 3):  # the step's number
            gradient = learner.model.output.bias.grad
            assert gradient is not None
            gradient[0] = value
            return BatchLoss(value, loss.tokens) if math.isnan(value) else loss
        return loss

    def compare(trainer: Trainer, batches: Sequence[Rows]) -> None:
        before = [parameter.detach().clone() for parameter in trainer.learner.model.parameters()]
        step(trainer, batches)
        changed.append(not all(map(torch.equal, before, trainer.learner.model.parameters())))

    monkeypatch.setattr(Learner, "gradient", spoil)
    monkeypatch.setattr(Trainer, "step", compare)
    run = train_tiny(tmp_path, *TWO_STEPS, "training.epochs=3")
    assert changed == [True, False, False, True, True, True]
    assert [entry["skipped_steps"] for entry in run.history()] == [1, 1, 0]
    assert "NaN" not in (run.folder / "history.jsonl").read_text(encoding="utf-8")  # it stays JSON


@pytest.mark.parametrize("is_resumed", [False, True], ids=["at once", "resumed"])
def test_too_many_skipped_steps_in_a_row_end_training(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_resumed: bool
) -> None:
    compute, step = Learner.gradient, Trainer.step
    overrides = ("training.batch_size=20", "training.epochs=3", "training.schedule=cosine")  # of 10 steps

    def spoil(learner: Learner, split: EncodedSplit, batches: Sequence[Rows], *, number: int) -> BatchLoss:
        loss = compute(learner, split, batches, number=number)
        taken.append(len(taken) + 1)
        return BatchLoss(math.inf, loss.tokens) if taken[-1] in (2, *range(6, 99)) else loss

    def cut(trainer: Trainer, batches: Sequence[Rows]) -> None:
        if trainer.state.step == 9 and is_resumed and not was_cut:
            was_cut.append(True)
            raise PowerCut
        step(trainer, batches)

    taken: list[int] = []
    was_cut: list[bool] = []
    monkeypatch.setattr(trainer_module, "MOST_SKIPPED", 7)
    monkeypatch.setattr(Learner, "gradient", spoil)
    monkeypatch.setattr(Trainer, "step", cut)
    if is_resumed:
        with pytest.raises(PowerCut):
            train_tiny(tmp_path, *overrides, *EVERY_STEP)
    message = (
        r"^training\.learning_rate: 0\.01 made training diverge \(no finite loss or gradient in 7 steps in a row, the "
        r"last of them step 12 with a rate of 0\.0070\d+\); lower it and train with --fresh$"
    )
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *overrides)
    assert taken[-1] == 12


def test_an_epoch_without_a_finite_step_is_an_error(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Learner, "update", lambda _: False)
    message = (
        r"diverge \(none of the 2 steps before the validation at step 2 had a finite loss and gradient\); lower it"
    )
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *TWO_STEPS)


@pytest.mark.parametrize(("warmup_steps", "is_warned"), [(1, False), (2, True), (4000, True)])
def test_train_warmup_that_is_not_shorter_than_training_warns(
    warmup_steps: int, is_warned: bool, train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        train_tiny(tmp_path, *TWO_STEPS, "training.epochs=1", f"training.warmup_steps={warmup_steps}")
    message = "training has about 2 steps, so its rate never reaches training.learning_rate"
    wanted = [f"training.warmup_steps {warmup_steps:,}: {message}"] if is_warned else []
    assert [each for each in caplog.messages if each.startswith("training.warmup_steps")] == wanted


def test_a_batch_larger_than_the_text_is_said(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        train_tiny(tmp_path, "training.batch_size=201", "training.epochs=1")
    assert caplog.messages == ["training.batch_size 201 takes all pairs at once: an epoch is one step"]


@pytest.mark.parametrize(
    ("file", "time"),
    [
        ("last", 1),
        ("last", 2),
        ("step-0000002", 1),
        ("state.json", 2),
        ("history.jsonl", 2),  # the first is the empty one of a run that begins
        ("best", 1),
        ("best", 2),
    ],
)
def test_a_run_cut_off_before_any_file_appears_ends_like_one_that_was_not(
    train_tiny: TrainTiny, tmp_path: Path, uninterrupted: dict[str, Any], file: str, time: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _cut_power(patch, file, time)
        with pytest.raises(PowerCut):
            train_tiny(tmp_path, *TWO_STEPS, *EVERY_STEP, "training.epochs=2")
    assert outcome(train_tiny(tmp_path, *TWO_STEPS, "training.epochs=2")) == uninterrupted


def _cut_power(patch: pytest.MonkeyPatch, file: str, time: int) -> None:
    """Before the `time`th file or folder of this name gets its name."""
    seen: list[str] = []

    def cut(rename: Callable[..., None]) -> Callable[[object, Path], None]:
        def renamed(old: object, new: Path) -> None:
            seen.append(new.name)
            if seen.count(file) == time:
                raise PowerCut
            rename(old, new)

        return renamed

    patch.setattr("os.replace", cut(os.replace))
    patch.setattr("os.rename", cut(os.rename))


COSINE = ("training.schedule=cosine", "training.warmup_steps=2", "training.batch_by=tokens", "training.batch_size=300")


def note_rates(patch: pytest.MonkeyPatch, rates: list[float], power_cut_at: int | None = None) -> None:
    """Keep the rate of each step; end like a kill before one of them."""
    step = Trainer.step

    def note(trainer: Trainer, batches: Sequence[Rows]) -> None:
        if trainer.state.step + 1 == power_cut_at:
            raise PowerCut
        step(trainer, batches)
        rates.append(trainer.learner.learning_rate)

    patch.setattr(Trainer, "step", note)


def test_cosine_falls_over_all_epochs_and_a_resumed_run_is_on_the_same_curve(
    train_tiny: TrainTiny, tmp_path: Path
) -> None:
    at_once: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        note_rates(patch, at_once)
        whole = train_tiny(tmp_path / "whole", *COSINE, "training.epochs=3")
    history = whole.history()
    n_first = history[0]["step"]
    expected = [
        0.01 * min(1.0, index / 2 + 0.5) * (1 + math.cos(math.pi * index / n_first / 3)) / 2 for index in range(n_first)
    ]
    assert at_once[:n_first] == pytest.approx(expected)
    assert at_once[1:] == sorted(set(at_once[1:]), reverse=True)
    assert 0.0 < at_once[-1] < 1e-3
    assert [entry["learning_rate"] for entry in history] == [at_once[entry["step"] - 1] for entry in history]

    in_pieces: list[float] = []
    for step in (n_first - 1, n_first + 3):
        with pytest.MonkeyPatch.context() as patch:
            note_rates(patch, in_pieces, power_cut_at=step)
            with pytest.raises(PowerCut):
                train_tiny(tmp_path / "pieces", *COSINE, *EVERY_STEP, "training.epochs=3")
    with pytest.MonkeyPatch.context() as patch:
        note_rates(patch, in_pieces)
        pieces = train_tiny(tmp_path / "pieces", *COSINE, "training.epochs=3")
    assert in_pieces == at_once
    assert outcome(pieces) == outcome(whole)


def test_the_epochs_of_a_cosine_run_do_not_change(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = train_tiny(tmp_path, *COSINE, "training.epochs=2")
    before = outcome(run), (run.folder / "config.yaml").read_bytes()
    message = r"^training\.epochs: 3, but the cosine schedule of .*tiny is planned over 2 epochs; give that "
    with pytest.raises(ConfigError, match=message):
        train_tiny(tmp_path, *COSINE, "training.epochs=3")
    assert (outcome(run), (run.folder / "config.yaml").read_bytes()) == before
    with caplog.at_level(logging.INFO):
        train_tiny(tmp_path, *COSINE, "training.epochs=2", "training.patience=5")  # this may change
    assert "all 2 epochs are trained" in caplog.messages
    assert outcome(run) == before[0]
