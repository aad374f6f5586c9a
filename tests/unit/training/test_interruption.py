"""Stopping well: the first signal is noted, the second has its usual effect."""

import signal
import threading

import pytest

from transformer_cli.training.interruption import Stop, stop_signals

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


def test_beside_the_main_thread_no_handler_is_set() -> None:
    reached = threading.Event()

    def enter() -> None:
        with stop_signals(Stop()):
            reached.set()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert reached.is_set()
