"""Progress: a bar on a terminal, otherwise one log line per minute."""

import io
import logging
from contextlib import redirect_stderr
from typing import Any

import pytest

from transformer_cli.system import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_on_a_terminal_shows_progress_and_vanishes() -> None:
    with redirect_stderr(Terminal()) as terminal, progress.bar("Fetching", 2000, "B", unit_scale=True) as bar:
        bar.update(1000)
        bar.set_postfix_str("")  # redraws
    shown = terminal.getvalue()
    assert "Fetching:  50%" in shown
    assert "B/s" in shown
    assert shown.rsplit("\r", 2)[1].strip() == ""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock for tqdm, in seconds."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_bar_without_a_terminal_logs_every_minute(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "transformer_cli")
    with progress.bar("epoch 3/10", 400_000, " tokens", unit_scale=True, initial=40_000) as bar:
        for second in range(1, 131):
            clock[0] += 1.0
            bar.set_postfix_str(f"loss {1 / second:.3f}, PPL 2.7", refresh=False)
            bar.update(1000)
    assert bar.n == 170_000
    assert caplog.messages == [
        "epoch 3/10:  25% 100k/400k [01:00<05:00, 1.00k tokens/s, loss 0.017, PPL 2.7]",
        "epoch 3/10:  40% 160k/400k [02:00<04:00, 1.00k tokens/s, loss 0.008, PPL 2.7]",
    ]


def test_short_bars_without_a_terminal_share_the_minute(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "transformer_cli")
    logged_at = clock[0]
    for epoch in range(1, 11):
        with progress.bar(f"epoch {epoch}/10", 20, " tokens", logged_at=logged_at) as bar:
            for _ in range(2):
                clock[0] += 10.0
                bar.update(10)
        logged_at = bar.last_print_t
    assert [line.partition(":")[0] for line in caplog.messages] == ["epoch 3/10", "epoch 6/10", "epoch 9/10"]


@pytest.mark.parametrize("options", [{"total": 1}, {"total": 10, "is_silent": True}], ids=str)
def test_bar_with_total_1_or_is_silent_shows_nothing(options: dict[str, Any]) -> None:
    with redirect_stderr(Terminal()) as terminal, progress.bar("Training", unit="step", **options) as bar:
        bar.update()
        bar.set_postfix_str("")
    assert terminal.getvalue() == ""


def test_bar_without_a_terminal_logs_no_short_work(
    clock: list[float], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "transformer_cli")
    with progress.bar("Reading", None, "line") as bar:
        clock[0] += 59.0
        bar.update(5)
    assert (*capsys.readouterr(), caplog.messages) == ("", "", [])
