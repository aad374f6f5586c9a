"""Training that is asked to stop at any moment saves, says how to go on, and then ends like one that was not."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kinds import TrainTiny
from outcomes import PowerCut, outcome
from transformer_cli.errors import Interrupted
from transformer_cli.system import signals
from transformer_cli.training import trainer
from transformer_cli.training.step import Learner

FOUR_STEPS = ("training.batch_size=100", "training.epochs=2", "training.average=2")  # two steps in each epoch
MOMENTS = {  # what is going on when the signal arrives: (module or class, its function, which of its calls)
    "first step": (Learner, "gradient", 1),
    "last step of an epoch": (Learner, "gradient", 2),
    "first step of an epoch": (Learner, "gradient", 3),
    "last step": (Learner, "gradient", 4),
    "validation": (trainer, "corpus_losses", 1),
    "last validation": (trainer, "corpus_losses", 2),
    "averaging": (trainer, "corpus_losses", 3),
}


@pytest.fixture(scope="module")
def never_stopped(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome(train_tiny(tmp_path_factory.mktemp("never stopped"), *FOUR_STEPS))


def at(patch: pytest.MonkeyPatch, moment: str, happen: Callable[[], None]) -> None:
    """Let something happen at a moment of training, before what is going on then ends."""
    place, name, time = MOMENTS[moment]
    original, calls = getattr(place, name), []

    def called(*arguments: Any, **options: Any) -> Any:
        found = original(*arguments, **options)
        calls.append(name)
        if len(calls) == time:
            happen()
        return found

    patch.setattr(place, name, called)


class Process:
    """What becomes of the process, while `main` would watch for signals."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self._has_ended = threading.Event()

    def end(self, code: int) -> None:
        """Note the code with which a thread ends the process."""
        self.codes.append(code)
        self._has_ended.set()

    def work_on(self) -> None:
        """Do something that takes longer than anybody's patience."""
        assert self._has_ended.wait(60)
        raise PowerCut


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    found = Process()
    monkeypatch.setattr(os, "_exit", found.end)
    with signals.watched():
        yield found


def last_line(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().err.splitlines()[-1]


DROPPED = {
    "first step": "stopped before the first step; give the same command again",
    "last step of an epoch": "stopped and saved at step 1; the same command goes on",
    "first step of an epoch": "stopped and saved at step 2; the same command goes on",
    "validation": "stopped and saved at step 2; the same command goes on",
    "last validation": "stopped and saved at step 4; the same command goes on",
    "averaging": "stopped and saved at step 4; the same command goes on",
}


@pytest.mark.parametrize(("moment", "words"), DROPPED.items())
def test_what_takes_too_long_is_dropped_and_done_again(
    train_tiny: TrainTiny,
    tmp_path: Path,
    process: Process,
    capfd: pytest.CaptureFixture[str],
    never_stopped: dict[str, Any],
    moment: str,
    words: str,
) -> None:
    def go_on_for_long() -> None:
        signal.raise_signal(signal.SIGTERM)
        process.work_on()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "PATIENCE", 0.0)
        at(patch, moment, go_on_for_long)
        with pytest.raises(PowerCut):
            train_tiny(tmp_path, *FOUR_STEPS)
    assert process.codes == [143]
    assert last_line(capfd) == f"tfm: {words}"
    assert outcome(train_tiny(tmp_path, *FOUR_STEPS)) == never_stopped


FINISHED = {"first step": 1, "last step": 4, "validation": 2}


@pytest.mark.parametrize(("moment", "step"), FINISHED.items())
def test_what_ends_in_time_is_finished_and_saved(
    train_tiny: TrainTiny,
    tmp_path: Path,
    process: Process,
    never_stopped: dict[str, Any],
    moment: str,
    step: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at(patch, moment, lambda: signal.raise_signal(signal.SIGHUP))
        with pytest.raises(Interrupted) as ended:
            train_tiny(tmp_path, *FOUR_STEPS)
    assert str(ended.value) == f"stopped and saved at step {step}; the same command goes on"
    assert (ended.value.signal_number, process.codes) == (signal.SIGHUP, [])
    assert outcome(train_tiny(tmp_path, *FOUR_STEPS)) == never_stopped
