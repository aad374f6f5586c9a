"""TensorBoard's event file, read by TensorBoard's own reader."""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kinds import TrainTiny
from transformer_cli.adapters.study import curves as curves_module
from transformer_cli.adapters.study import plots
from transformer_cli.adapters.study.curves import TensorBoard
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation

ON = ("training.tensorboard=true", "training.batch_size=100", "training.examples=2")  # an epoch of two steps
FROM_HISTORY = {
    "loss/train": "train_loss",
    "loss/valid": "valid_loss",
    "perplexity/valid": "valid_ppl",
    "learning_rate": "learning_rate",
    "target_tokens_per_second": "target_tokens_per_second",
}


def reader(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def curves(read: EventAccumulator) -> dict[str, list[tuple[int, float]]]:
    """The points (step, value) of each curve."""
    return {tag: [(point.step, point.value) for point in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def write(run: Run, history: list[dict[str, Any]]) -> None:
    """Writes events as after the last of these validations."""
    trainer: Any = SimpleNamespace(run=run, validations=[Validation(**line) for line in history])
    TensorBoard().on_validation(trainer)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def assert_says(read: EventAccumulator, history: list[dict[str, Any]]) -> None:
    """32-bit floats are all that an event holds."""
    texts = {
        f"example/{n}/text_summary": [line["examples"][n - 1] for line in history]
        for n in range(1, 1 + len(history[0]["examples"]))
    }
    assert set(read.Tags()["tensors"]) == set(texts)
    for tag, examples in texts.items():
        written = [event.tensor_proto.string_val[0].decode() for event in read.Tensors(tag)]
        assert [[line.split(maxsplit=1)[1] for line in each.splitlines()] for each in written] == [
            [*each.values()] for each in examples
        ]
    found = curves(read)
    expected = {tag: [line[key] for line in history] for tag, key in FROM_HISTORY.items()}
    steps = [each for line in history for each in line["steps"]]
    for key in ("loss", "learning_rate", "gradient_norm"):
        points = found.pop(f"step/{key}")
        written = [(each["step"], each[key]) for each in steps]
        assert [(step, pytest.approx(value, rel=1e-6)) for step, value in points] == written
    assert found.keys() == expected.keys()
    for tag, points in found.items():
        assert [step for step, _ in points] == [line["step"] for line in history]
        assert [value for _, value in points] == pytest.approx(expected[tag], rel=1e-6)


def test_tensorboard_that_runs_reads_what_is_added(tiny: Run, tmp_path: Path) -> None:
    run, lines = replace(tiny, folder=tmp_path), tiny.history()
    write(run, lines[:1])
    read = reader(tmp_path / "tensorboard")
    assert_says(read, lines[:1])
    write(run, lines[:3])
    assert_says(read.Reload(), lines[:3])
    write(run, [lines[0], lines[2]])
    assert_says(reader(tmp_path / "tensorboard"), [lines[0], lines[2]])


@pytest.mark.parametrize("epochs", [1, 2])
def test_tensorboard_of_resumed_run_equals_its_history(train_tiny: TrainTiny, tmp_path: Path, epochs: int) -> None:
    run = train_tiny(tmp_path, *ON, "training.epochs=1")
    ahead = [*run.history(), {**run.history()[-1], "epoch": 2, "step": 3, "valid_loss": 0.0}]  # validated, then killed
    run.write_history(ahead)
    write(run, ahead)
    train_tiny(tmp_path, *ON, f"training.epochs={epochs}")
    read = reader(run.folder / "tensorboard")
    assert_says(read, run.history()[:epochs])
    assert [step for step, _ in curves(read)["loss/valid"]] == [2, 4][:epochs]


def test_tensorboard_unwritable_folder_warns(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = train_tiny(tmp_path, ON[1], "training.epochs=1")
    (run.folder / "tensorboard").write_text("in the way", encoding="utf-8")
    run = train_tiny(tmp_path, *ON, "training.epochs=2")
    assert len(run.history()) == 2
    assert len(warnings(caplog)) == 2  # when it resumes, and at the next validation
    assert all(line.startswith("TensorBoard's event file could not be written: ") for line in warnings(caplog))


def test_tensorboard_not_installed_raises_before_training(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"^training\.tensorboard: .* run `pip install 'tensorboard>=2\.18'`"):
        train_tiny(tmp_path, *ON)
    assert list(tmp_path.iterdir()) == []
    train_tiny(tmp_path, "training.epochs=1")  # nobody asks for it


def test_curves_of_killed_run_are_drawn_on_resume(train_tiny: TrainTiny, tmp_path: Path) -> None:
    picture = train_tiny(tmp_path, *ON, "training.epochs=1").folder / "curves.png"
    picture.unlink()
    train_tiny(tmp_path, *ON, "training.epochs=1")
    assert picture.exists()


def test_curves_are_drawn_at_first_and_at_the_end(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = list[int]()
    history = tmp_path / "tiny/history.jsonl"
    monkeypatch.setattr(plots, "save", lambda figure, path, follow: drawn.append(history.read_text().count("\n")))
    train_tiny(tmp_path, "training.epochs=4")
    assert drawn == [1, 4]
    monkeypatch.setattr(curves_module, "MIN_SECONDS", 0)
    train_tiny(tmp_path, "training.epochs=6")
    assert drawn == [1, 4, 4, 5, 6]
