"""Progress bars: on a terminal, and nowhere else."""

import io

import pytest

from transformer_cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_shows_what_is_done_and_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.bar("Fetching", 2000, "B", unit_scale=True) as bar:
        bar.update(1000)
        bar.refresh()
    shown = terminal.getvalue()
    assert "Fetching:  50%" in shown
    assert "1.00k/2.00k" in shown
    assert shown.rsplit("\r", 2)[1].strip() == ""


def test_no_bar_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("Reading", None, "line") as bar:
        bar.update(5)
    assert capsys.readouterr() == ("", "")
