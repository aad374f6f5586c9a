"""Stopping well: the first signal is noted, the second has its usual effect."""

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from transformer_cli.data.lengths import Rows
from transformer_cli.errors import Interrupted
from transformer_cli.runs.run import Run
from transformer_cli.training.interruption import Stop, stop_signals
from transformer_cli.training.trainer import Trainer

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted_and_the_handlers_are_put_back(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    stop = Stop()
    with stop_signals(stop):
        assert stop.signal_number is None
        signal.raise_signal(number)
        assert stop.signal_number == number
        assert [signal.getsignal(each) for each in SIGNALS] == before
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_second_interrupt_is_not_caught() -> None:
    stop = Stop()
    with stop_signals(stop):
        signal.raise_signal(signal.SIGINT)
        assert stop.signal_number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = Stop()
    try:
        with stop_signals(stop):
            signal.raise_signal(signal.SIGINT)
            assert stop.signal_number is None
            signal.raise_signal(signal.SIGTERM)
            assert stop.signal_number == signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_a_signal_the_handlers_are_put_back_too() -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with stop_signals(Stop()):
        assert [signal.getsignal(each) for each in SIGNALS] != before
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_beside_the_main_thread_no_handler_is_set() -> None:
    reached = threading.Event()

    def enter() -> None:
        with stop_signals(Stop()):
            reached.set()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert reached.is_set()


@pytest.mark.parametrize(
    "batch_size",
    [
        pytest.param(100, id="two batches an epoch"),
        pytest.param(
            200,
            id="one batch an epoch",
        ),
    ],
)
@pytest.mark.parametrize("step", [1, 2])
def test_training_stops_within_an_epoch_of_the_signal(
    train_tiny: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, step: int
) -> None:
    take_step = Trainer.step

    def interrupt(trainer: Trainer, batches: Sequence[Rows]) -> None:
        if trainer.state.step + 1 == step:
            signal.raise_signal(signal.SIGTERM)
        take_step(trainer, batches)

    monkeypatch.setattr(Trainer, "step", interrupt)
    with pytest.raises(Interrupted, match=r"^stopped and saved at step \d;") as stopped:
        train_tiny(tmp_path, f"training.batch_size={batch_size}", "training.epochs=4")
    assert stopped.value.signal_number == signal.SIGTERM
    assert (tmp_path / "tiny/last").read_text(encoding="utf-8") <= f"step-{step + 1:07d}\n"
