"""`tfm` on a terminal: interactive translation, progress, and escaped control characters."""

import fcntl
import logging
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forked import Forks
from transformer_cli.commands.streams import TerminalWithBars
from transformer_cli.system import progress, terminal
from transformer_cli.system.progress import LineHandler
from transformer_cli.system.terminal import Terminal, escape_controls, format_table

OBEYED = {  # what terminals do when they read it
    "colour": "\x1b[31m",
    "CSI as one character": "\x9b2J",
    "back": "a\bb",
    "over the line": "a\rb",
    "delete": "\x7f",
    "next line": "\x85",
    "text from right to left": "a\u202eb\u202c",
    "isolated text": "a\u2067b\u2069",
}


class Screen:
    """A terminal of 24 rows; `stream` is the program's end of it."""

    def __init__(self, columns: int = 100) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.stream = open(self._slave, "w", encoding="utf-8", closefd=False)
        self.path = Path(os.ttyname(self._slave))

    def seen(self, until: str | None = None) -> str:
        """Returns the output since the last call; with a text, waits for it."""
        content = b""
        while select.select([self._master], [], [], 0.1 if until is None else 600)[0]:
            content += os.read(self._master, 1 << 16)
            if until is not None and until.encode() in content.replace(b"\r\n", b"\n"):
                break
        shown = content.decode().replace("\r\n", "\n")
        assert until is None or until in shown
        return shown

    def answer(self, process: int, number: signal.Signals, until: str) -> None:
        """Sends a signal until a text appears, since readline may miss it while drawing."""
        started, content = time.monotonic(), ""
        while until not in content:
            assert time.monotonic() < started + 600
            os.kill(process, number)
            content += self.seen()

    def type(self, keys: str, *, is_edited: bool = True) -> None:
        """Types once readline has the terminal (is_edited); before that the kernel would swallow Ctrl-D."""
        started = time.monotonic()
        while is_edited and termios.tcgetattr(self._slave)[3] & termios.ICANON:
            assert time.monotonic() < started + 600
            time.sleep(0.01)
        os.write(self._master, keys.encode())

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


def test_terminal_output_escapes_control_characters(screen: Screen) -> None:
    terminal = Terminal(screen.stream.buffer, encoding="utf-8", line_buffering=True)
    shown = ["".join(one if one.isprintable() else repr(one)[1:-1] for one in text) for text in OBEYED.values()]
    print(*(f"eins\t{text}\tzwei" for text in OBEYED.values()), sep="\n", file=terminal)
    assert screen.seen() == "".join(f"eins\t{text}\tzwei\n" for text in shown)


def test_progress_bars_are_drawn_on_a_terminal(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", TerminalWithBars(screen.stream.buffer, encoding="utf-8", line_buffering=True))
    sys.stderr.write("\r 50%\x1b[A\x1b[31m\x9b\udce4\n")
    assert screen.seen() == "\r 50%\x1b[A\\x1b[31m\\x9b\\xe4\n"
    with progress.bar("outer", 2, " things") as outer, progress.bar("inner", 2, " things") as inner:
        inner.update(1)
        inner.set_postfix_str("")  # redraws
        outer.set_postfix_str("")
    seen = screen.seen()
    assert ("inner:  50%" in seen, "\r" in seen, "\\" in seen) == (True, True, False)


def test_message_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for text in OBEYED.values():
        record = logging.LogRecord("tfm", logging.WARNING, "", 0, "%s: line 1\nis\tgone", (text,), None)
        LineHandler().emit(record)
        err = capsys.readouterr().err
        assert err == f"warning: {escape_controls(text)}: line 1\\nis\\tgone\n"
        assert err.removesuffix("\n").isprintable()


@pytest.fixture
def converse(forks: Forks, used: Path, screen: Screen) -> Callable[..., int]:
    """converse(*arguments, out=None): starts `tfm translate` on the screen."""
    environment = {"TERM": "xterm", "XDG_STATE_HOME": str(used / "state"), "HOME": str(used)}

    def start(*arguments: object, out: Path | None = None) -> int:
        streams = (screen.path, out or screen.path, screen.path)
        return forks.start("translate", *arguments, cwd=used, streams=streams, environment=environment)

    return start


def test_translation_on_terminal_escapes_control_codes(
    converse: Callable[..., int], forks: Forks, screen: Screen
) -> None:
    converse("5 \x1b 6")
    assert forks.end() == 0
    converse("--run", "no\x1b[31m\nrun", "Hund")
    assert forks.end() == 1
    seen = screen.seen()
    assert "5 \\x1b 6\n" in seen
    ours = ("\r", "\n", "\x1b[K")  # notes come and go
    assert re.sub("|".join(map(re.escape, ours)), "", seen).isprintable()
    assert "\r\x1b[Ktfm: error: no\\x1b[31m\\nrun: " in seen


DOG = "the old dog sings in the park.\n"


def test_interactive_translate_has_history_without_a_file(
    converse: Callable[..., int], forks: Forks, screen: Screen, tmp_path: Path
) -> None:
    pid = converse()
    assert "runs/tiny: de → en\n" in screen.seen(until="de> ")
    screen.type("Der alte Hund singt im Park.\r")
    screen.seen(until=DOG)
    screen.type(f"x{'(' * 14}\r")
    screen.seen(until="line 2: 15 tokens, but the model takes at most 14 ")
    screen.type("Der alte Hund jault im Park.")
    screen.seen(until="jault im Park.")
    screen.answer(pid, signal.SIGINT, "de> ")  # a Ctrl-C, which drops the line
    screen.type("\x1b[A\x1b[A\r")  # up, to the line before the last that was entered
    screen.seen(until=DOG)
    screen.type("\x04")
    assert forks.end() == 0
    assert not (tmp_path / "state").exists()


def test_translate_file_on_terminal_prints_lines_steadily(
    converse: Callable[..., int], forks: Forks, screen: Screen, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "lines")
    converse("--input", "lines")
    with (tmp_path / "lines").open("w", encoding="utf-8") as lines:
        lines.write("Der alte Hund singt im Park.\n" * 20)
        lines.flush()
        screen.seen(until=DOG)  # and not when all has been read
    assert forks.end() == 0


def test_status_on_terminal_is_cleared_by_next_output(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.show_status("loading")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", TerminalWithBars(screen.stream.buffer, encoding="utf-8", line_buffering=True))
    terminal.show_status("loading")
    assert screen.seen() == "loading …"
    terminal.show_status("translating")
    sys.stderr.write("done\n")
    terminal.clear_status()
    assert screen.seen() == "\r\x1b[Ktranslating …\r\x1b[Kdone\n"


def test_format_table_aligns_wide_characters() -> None:
    rows = [["run", "loss"], ["größe", "1.0"], ["狗 狗", "2.0"], ["e\u0301", "3.0"], ["\u200bא", "4.0"], ["", "5.0"]]
    lines = ["run    loss", "größe   1.0", "狗 狗   2.0", "e\u0301       3.0", "\u200bא       4.0", "        5.0"]
    assert format_table(rows).split("\n") == lines
