"""What a run saves: what comes back bit for bit, what is kept on disk, and what is refused."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sealed import edit_sealed, flip
from small_run import make_run
from transformer_cli.errors import CheckpointError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs import checkpoints as module
from transformer_cli.runs.checkpoints import load_best, load_last, save_checkpoint, save_validation_weights, set_moments
from transformer_cli.runs.finding import find_run
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, RunningLoss, TrainingState, best_pointer, load_state
from transformer_cli.training.optimisers import make_optimizer
from transformer_cli.translate import open_models, refuse_not_finite

CPU = torch.device("cpu")
Training = tuple[Transformer, torch.optim.Optimizer]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "runs/first")


def step(training: Training, seed: int) -> None:
    model, optimizer = training
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def trained(run: Run) -> Training:
    model = run.new_model()
    training = model, make_optimizer(model, run.config.training)
    step(training, 1)
    step(training, 2)
    return training


def saved(run: Run) -> Training:
    """What the last save gives back, ready to take steps."""
    last = load_last(run)
    optimizer = make_optimizer(last.model, run.config.training)
    set_moments(optimizer, last.model, last.moments)
    return last.model, optimizer


def after(step: int, *, is_best: bool) -> TrainingState:
    """The state after a validation."""
    return TrainingState(step=step, epoch=step + 1, best_valid_loss=1 / step, validations_since_best=int(not is_best))


def save_after(run: Run, *steps: int, best: int = 0) -> None:
    """Checkpoints after these steps; `best` is the better one."""
    training = trained(run)
    for number in steps:
        save_checkpoint(run, *training, after(number, is_best=number == best))


def numbers(training: Training) -> dict[str, torch.Tensor]:
    """All weights and all of Adam's state, by name."""
    model, optimizer = training
    moments = {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }
    return {**model.state_dict(), **moments}


def assert_identical(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)


def checkpoints(run: Run) -> list[str]:
    return sorted(path.name for path in (run.folder / "checkpoints").iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize("tie_embeddings", ["none", "target+output", "all"])
def test_save_and_load_continue_bit_for_bit(tmp_path: Path, tie_embeddings: str) -> None:
    run = make_run(tmp_path, tie_embeddings)
    before = trained(run)
    save_checkpoint(run, *before, TrainingState(step=2))
    after = saved(Run.open(run.folder))
    assert_identical(numbers(before), numbers(after))
    step(before, 3)
    step(after, 3)
    assert_identical(numbers(before), numbers(after))


def test_load_last_keeps_no_file_open(run: Run) -> None:
    save_after(run, 2)
    expected, loaded = numbers(trained(run)), saved(run)
    for file in (run.folder / "checkpoints").rglob("*.safetensors"):
        with file.open("r+b") as opened:  # in place: a mapping of the file would change with it
            opened.write(bytes(file.stat().st_size))
    assert_identical(numbers(loaded), expected)
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(run.folder) not in maps.read_text()  # NFS could not delete a mapped file


def test_load_best_returns_it_in_evaluation_mode(run: Run) -> None:
    training = trained(run)
    save_checkpoint(run, *training, after(2, is_best=True))
    expected = {name: value.clone() for name, value in training[0].state_dict().items()}
    step(training, 3)
    save_checkpoint(run, *training, TrainingState(step=3))
    best = load_best(run, CPU)[1]
    assert not best.training
    assert_identical(best.state_dict(), expected)


def test_named_pointer_loads_its_checkpoint(run: Run) -> None:
    save_after(run, 2, best=2)
    save_after(run, 3, best=2)
    runs_dir, name = run.folder.parent, run.folder.name
    for given in (f"{name}/last", run.folder / "last"):
        last = Run.load(given, runs_dir)
        assert (last.folder, last.best_checkpoint_name) == (run.folder, "step-0000003")
        assert load_best(last, CPU)[0] == "step-0000003"
    assert load_best(Run.load(name, runs_dir), CPU)[0] == "step-0000002"
    with pytest.raises(CheckpointError, match=f"^{name}/average: no such run"):
        Run.load(f"{name}/average", runs_dir)


def test_load_best_of_another_model_names_the_code(run: Run) -> None:
    save_after(run, 2, best=2)
    model = run.config.model.model_copy(update={"d_ff": 24})
    other = replace(run, config=run.config.model_copy(update={"model": model}))
    with pytest.raises(CheckpointError, match=r"weights do not fit the model's code: .*; use the code that it was tra"):
        load_best(other, CPU)


@pytest.mark.parametrize(
    "state",
    [
        TrainingState(),
        TrainingState(7, 3, 2, 5, 0.1 + 0.2, 4, RunningLoss(1 / 3, 10**12, 1e-300, 5, 1, math.pi)),
        TrainingState(step=1, best_valid_loss=5e-324),
    ],
)
def test_save_keeps_the_state_exactly(run: Run, state: TrainingState) -> None:
    training = trained(run)
    save_checkpoint(run, *training, state)
    assert load_last(run).state == load_state(run.checkpoint("last")) == state


def test_save_writes_no_pickle(run: Run) -> None:
    save_after(run, 2, best=2)
    suffixes = {path.suffix for path in run.folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".jsonl", ".yaml", ".txt", ".safetensors", ""}
    assert run.checkpoint("best") == run.checkpoint("last") == run.folder / "checkpoints/step-0000002"


@pytest.mark.parametrize(
    ("steps", "best", "kept"),
    [
        *(([1], 0, ["step-0000001"]), ([1, 2], 0, ["step-0000002"])),
        *(([1, 2], 1, ["step-0000001", "step-0000002"]), ([1, 2, 3], 1, ["step-0000001", "step-0000003"])),
        ([1, 2, 3], 3, ["step-0000003"]),
    ],
)
def test_save_deletes_all_but_last_and_best(run: Run, steps: list[int], best: int, kept: list[str]) -> None:
    save_after(run, *steps, best=best)
    assert checkpoints(run) == kept
    assert run.has_checkpoint("best") == bool(best)


def averaged(loss: float, step: int = 9, interpolation: float | None = None) -> Average:
    losses = {"valid_loss": loss, "valid_loss_batch_mean": loss, "valid_ppl": math.exp(loss)}
    return Average(epochs=[], step=step, interpolation=interpolation, **losses)


@pytest.mark.parametrize(
    ("error", "is_best", "best", "average", "pointer"),
    [
        (None, False, None, None, "best"),  # nothing has been validated
        (2.0, True, None, None, "last"),
        (2.0, False, None, None, "best"),
        (2.0, False, None, averaged(1.9), "average"),
        (2.0, False, None, averaged(2.0), "best"),
        (2.0, True, None, averaged(2.1), "last"),
        (2.0, True, averaged(1.9), averaged(1.9), "best"),  # trained further, and not better than the average before
        (1.8, True, averaged(1.9), averaged(1.9), "last"),
        (2.0, False, averaged(1.9, step=5), averaged(1.8), "average"),
        (2.0, True, None, averaged(2.5, interpolation=0.4), "average"),
        (2.0, True, averaged(2.5, 5, 0.4), averaged(2.5, 5, 0.4), "last"),  # trained further after an interpolation
    ],
)
def test_best_pointer_names_the_checkpoint_with_the_lowest_error(
    error: float | None, is_best: bool, best: Average | None, average: Average | None, pointer: str
) -> None:
    state = TrainingState(step=9, best_valid_loss=error, validations_since_best=int(not is_best))
    assert best_pointer(state, best, average) == pointer


def test_latest_names_the_run_with_a_first_best(run: Run) -> None:
    runs_dir = run.folder.parent
    other = make_run(runs_dir / "second")
    for each, step in ((run, 1), (other, 1), (run, 2)):
        save_after(each, step, best=step)
    assert find_run(None, runs_dir) == other.folder
    module.finish_save(run, load_state(run.checkpoint("last")))  # as when it is resumed
    assert find_run(None, runs_dir) == run.folder


def test_save_deletes_only_checkpoints_of_training(run: Run) -> None:
    mine = ["average-0000001.old", "validation-1", "validation-0001 (copy)", "step-", "step-0000001.bak", "step-1"]
    given = ["validation-0001", "step-0000001", "step-12345678", "average-0000001", "step-0000001-unvalidated"]
    for name in (*mine, *given):
        (run.folder / "checkpoints" / name).mkdir(parents=True)
    save_after(run, 2)
    module.prune_validations(run, keep={9})
    assert checkpoints(run) == sorted([*mine, "step-0000002"])


def test_save_after_validation_replaces_the_one_before(run: Run) -> None:
    training = trained(run)
    save_checkpoint(run, *training, TrainingState(step=2, batch=5, running=RunningLoss(steps=1)))
    assert checkpoints(run) == ["step-0000002-unvalidated"]
    assert load_last(run).state.batch == 5
    save_checkpoint(run, *training, after(2, is_best=True))
    assert checkpoints(run) == [run.checkpoint("best").name] == ["step-0000002"]


def test_save_to_a_moved_or_deleted_run_is_an_error(run: Run) -> None:
    training = trained(run)
    save_checkpoint(run, *training, TrainingState(step=1))
    gone = f"^{run.folder}: the run in training is not here any more, so it cannot be saved; its last checkpoint is in "
    moved = run.folder.rename(run.folder.with_name("moved"))
    for write in (lambda: save_checkpoint(run, *training, TrainingState(step=2)), lambda: run.write_history([])):
        with pytest.raises(CheckpointError, match=gone):
            write()
    make_run(run.folder)  # another run has its name now
    with pytest.raises(CheckpointError, match=gone):
        save_validation_weights(run, training[0], 1)
    assert not (run.folder / "checkpoints").exists()
    shutil.rmtree(moved)
    shutil.rmtree(run.folder)
    with pytest.raises(CheckpointError, match=gone):
        save_checkpoint(run, *training, TrainingState(step=2))
    assert not run.folder.exists()


def open_best(run: Run) -> None:
    load_best(run, CPU)[1]


@pytest.mark.parametrize(
    ("name", "damage", "load", "message"),
    [
        ("model.safetensors", flip, open_best, ": damaged: its content is not what was written"),
        ("model.safetensors", Path.unlink, open_best, ": missing; copy it"),
        ("state.safetensors", cut, load_last, ": damaged: its content is not what was written"),
        ("state.json", cut, load_last, ": damaged: its content is not what was written"),
        ("SHA256SUMS", lambda path: path.write_text("[]"), load_last, ": line 1: damaged: it should be a SHA-256"),
        ("SHA256SUMS", Path.unlink, open_best, ": missing; copy it"),
    ],
)
def test_damaged_checkpoint_names_the_file(
    run: Run, name: str, damage: Callable[[Path], Any], load: Callable[[Run], object], message: str
) -> None:
    save_after(run, 2, best=2)
    folder = run.folder / "checkpoints" / "step-0000002"
    damage(folder / name)
    with pytest.raises(CheckpointError, match=f"^{folder}/{name}{message}") as caught:
        load(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_load_weights_names_a_weight_that_is_not_finite(run: Run, value: float) -> None:
    model, optimizer = trained(run)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.inner.weight[1, 2] = value
    save_checkpoint(run, model, optimizer, after(1, is_best=True))
    said = r"decoder\.layers\.0\.feed_forward\.inner\.weight has a number that is not f"
    with pytest.raises(CheckpointError, match=said):
        load_best(run, CPU)


def test_engine_refuses_weights_that_overflow(run: Run) -> None:
    model, optimizer = trained(run)
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(1e30)
    save_checkpoint(run, model, optimizer, after(1, is_best=True))
    with pytest.raises(CheckpointError, match=f"^{run.folder}: its weights give numbers that are not finite; train it"):
        refuse_not_finite(open_models([run], "cpu")[0], [run])


def test_load_best_retries_if_the_pointer_moves(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    save_after(run, 1, best=1)
    load = module.load_weights

    def and_train_on(run: Run, folder: Path) -> Transformer:
        model = load(run, folder)
        save_after(run, 2, best=2)
        return model

    monkeypatch.setattr(module, "load_weights", and_train_on)
    assert module.load_best(run, CPU)[0] == "step-0000001"
    assert run.checkpoint("best").name == "step-0000002"


@pytest.mark.parametrize("change", [{"evil": 1}, {"step": "x"}, {"running": []}, {"running": {"steps": None}}])
def test_load_state_with_wrong_keys_or_types_is_one_line(run: Run, change: dict[str, Any]) -> None:
    save_after(run, 1, best=1)
    edit_sealed(run.checkpoint("last") / "state.json", lambda value: value.update(change))
    with pytest.raises(CheckpointError, match=r"state\.json: damaged: [^\n]*; restore it, or give `tfm train --fresh`"):
        load_state(run.checkpoint("last"))
