"""Training that is asked to stop at any moment saves, says how to go on, and then ends like one that was not."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from kinds import TrainTiny
from outcomes import outcome
from transformer_cli.errors import Interrupted
from transformer_cli.system import signals
from transformer_cli.system.signals import STOP_SIGNALS
from transformer_cli.training import trainer
from transformer_cli.training.learner import Learner

# two steps in each epoch
FOUR_STEPS = ("training.batch_size=100", "training.epochs=2", "training.average_checkpoints=2")
MOMENTS = {  # what goes on when the signal arrives (module or class, function, which call); the step that is saved
    "first step": (Learner, "backward", 1, 1),
    "last step of an epoch": (Learner, "backward", 2, 2),
    "first step of an epoch": (Learner, "backward", 3, 3),
    "last step": (Learner, "backward", 4, 4),
    "validation": (trainer, "corpus_losses", 1, 2),
    "last validation": (trainer, "corpus_losses", 2, 4),
    "averaging": (trainer, "corpus_losses", 3, None),  # it has come to its end
}


def at(patch: pytest.MonkeyPatch, moment: str, happen: Callable[[], None]) -> None:
    """Let something happen at a moment of training, before what is going on then ends."""
    place, name, time, _ = MOMENTS[moment]
    original, calls = getattr(place, name), []

    def called(*arguments: Any, **options: Any) -> Any:
        found = original(*arguments, **options)
        calls.append(name)
        if len(calls) == time:
            happen()
        return found

    patch.setattr(place, name, called)


@pytest.mark.parametrize(("moment", "is_command"), [*((each, True) for each in MOMENTS), ("validation", False)])
def test_train_signal_at_any_moment_resumes_exactly(
    train_tiny: TrainTiny, tmp_path: Path, uncut: Callable[..., dict[str, Any]], moment: str, is_command: bool
) -> None:
    *_, step = MOMENTS[moment]
    handlers = [signal.getsignal(number) for number in STOP_SIGNALS]
    with pytest.MonkeyPatch.context() as patch, signals.handle_stop_signals() if is_command else nullcontext():
        at(patch, moment, lambda: signal.raise_signal(signal.SIGHUP))
        if step is None:
            train_tiny(tmp_path, *FOUR_STEPS)
        else:
            with pytest.raises(Interrupted) as ended:
                train_tiny(tmp_path, *FOUR_STEPS)
            assert str(ended.value) == f"stopped and saved at step {step}; the same command resumes it"
            assert ended.value.signal_number == signal.SIGHUP
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == handlers
    assert outcome(train_tiny(tmp_path, *FOUR_STEPS)) == uncut(*FOUR_STEPS)


def test_train_second_ctrl_c_from_python_is_a_keyboard_interrupt(train_tiny: TrainTiny, tmp_path: Path) -> None:
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        at(patch, "first step", press_twice)
        with pytest.raises(KeyboardInterrupt):
            train_tiny(tmp_path, *FOUR_STEPS)


def test_train_in_a_thread_sets_no_signal_handler(train_tiny: TrainTiny, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # where Python lets nobody set one
        run = thread.submit(lambda: train_tiny(tmp_path, FOUR_STEPS[0], "training.epochs=1")).result()
    assert len(run.history()) == 1
