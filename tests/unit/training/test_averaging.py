"""The mean of the last epochs' weights: what it is, and which checkpoint is best."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kinds import TrainTiny
from outcomes import outcome
from transformer_cli.errors import CheckpointError
from transformer_cli.runs.checkpoints import load_weights
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average

AVERAGING = ("training.batch_size=50", "training.epochs=5", "training.average_checkpoints=3")  # an epoch of four steps
FAR = (*AVERAGING, "training.learning_rate=1e-1")  # the mean is far better than any epoch


def folders(run: Run) -> list[str]:
    return sorted(path.name for path in (run.folder / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def averaged(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of five epochs, of which the last three are averaged. Not to be written to."""
    return train_tiny(tmp_path_factory.mktemp("averaged"), *AVERAGING)


@pytest.fixture(scope="module")
def far(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose mean of weights is its best. Not to be written to."""
    return train_tiny(tmp_path_factory.mktemp("far"), *FAR)


def test_average_is_the_mean_of_the_last_epochs_weights(averaged: Run) -> None:
    folders = (averaged.folder / f"checkpoints/validation-000{number}" for number in (3, 4, 5))
    kept = [load_file(folder / "model.safetensors") for folder in folders]
    mean = load_file(averaged.checkpoint("average") / "model.safetensors")
    assert mean.keys() == kept[0].keys()
    for name, value in mean.items():
        assert torch.equal(value, torch.stack([each[name].double() for each in kept]).mean(dim=0).float())
    last = load_weights(averaged, averaged.checkpoint("last")).state_dict()
    assert all(torch.equal(value, last[name]) for name, value in kept[-1].items())


def test_average_has_a_checkpoint_but_no_history_line(averaged: Run) -> None:
    assert folders(averaged)[0] == "average-0000020"
    kept = [name for name in folders(averaged) if name.startswith("validation")]
    assert kept == ["validation-0003", "validation-0004", "validation-0005"]
    assert [line["epoch"] for line in averaged.history()] == [1, 2, 3, 4, 5]
    found = json.loads((averaged.checkpoint("average") / "average.json").read_text(encoding="utf-8"))
    assert (found["epochs"], found["step"]) == ([3, 4, 5], 20)
    assert found["valid_ppl"] == pytest.approx(2.718281828 ** found["valid_loss"])


def test_average_changes_neither_history_nor_state(averaged: Run, train_tiny: TrainTiny, tmp_path: Path) -> None:
    plain = train_tiny(tmp_path, *AVERAGING[:2])
    assert not plain.has_checkpoint("average")
    found, others = outcome(plain), outcome(averaged)
    assert found["history"] == others["history"]
    state = "step-0000020/state.safetensors"
    assert found["checkpoints"][state] == others["checkpoints"][state]


def test_average_is_best_only_with_a_lower_loss(averaged: Run, far: Run) -> None:
    for run in (averaged, far):
        found, epochs = load_average(run), min(line["valid_loss"] for line in run.history())
        assert found is not None
        assert (run.checkpoint("best") == run.checkpoint("average")) == (found.valid_loss < epochs)
        assert (found.valid_loss < epochs) == (run is not averaged)


def test_average_is_not_made_twice(averaged: Run, train_tiny: TrainTiny, tmp_path: Path) -> None:
    shutil.copytree(averaged.folder, tmp_path / "tiny")
    shutil.rmtree(tmp_path / "tiny/checkpoints/validation-0004")  # it would be missed
    assert train_tiny(tmp_path, *AVERAGING).checkpoint("average").name == "average-0000020"


def test_average_after_raised_epochs_equals_a_straight_run(
    averaged: Run, train_tiny: TrainTiny, tmp_path: Path
) -> None:
    shutil.copytree(averaged.folder, tmp_path / "raised/tiny")
    both = (train_tiny(tmp_path / name, *AVERAGING, "training.epochs=6") for name in ("raised", "straight"))
    raised, straight = map(outcome, both)
    assert straight.pop("checkpoints").items() <= raised.pop("checkpoints").items()
    assert raised == straight


def test_average_stays_best_when_epochs_are_raised(far: Run, train_tiny: TrainTiny, tmp_path: Path) -> None:
    shutil.copytree(far.folder, tmp_path / "tiny")
    before = load_average(far, "best")
    after = load_average(train_tiny(tmp_path, *FAR, "training.epochs=6"), "best")
    assert before is not None
    assert after is not None
    assert after.valid_loss <= before.valid_loss


def test_average_after_patience_takes_fewer_epochs(train_tiny: TrainTiny, tmp_path: Path) -> None:
    run = train_tiny(tmp_path, "training.learning_rate=1e-30", "training.average_checkpoints=5", "training.patience=1")
    found = load_average(run)
    assert found is not None
    assert found.epochs == [1, 2]


@pytest.mark.parametrize(
    ("name", "epochs"), [("validation-0005/model.safetensors", 6), ("average-0000020/average.json", 5)]
)
def test_average_names_a_damaged_file(
    averaged: Run, train_tiny: TrainTiny, tmp_path: Path, name: str, epochs: int
) -> None:
    shutil.copytree(averaged.folder, tmp_path / "tiny")
    (tmp_path / "tiny/checkpoints" / name).write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match=f"{name}: damaged: .*; restore it"):
        train_tiny(tmp_path, *AVERAGING, f"training.epochs={epochs}")
