"""`tfm` on a terminal: lines are answered as they are typed, and no text makes the terminal do anything."""

import fcntl
import io
import logging
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transformer_cli import progress
from transformer_cli.cli import main
from transformer_cli.progress import LineHandler
from transformer_cli.terminal import Terminal, TerminalWithBars, on_one_line


@pytest.fixture
def type_lines(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """type_lines(arguments, *lines) → all that was printed when each line had been answered."""

    def typed(arguments: list[str], *lines: bytes) -> list[str]:
        shown = io.BytesIO()
        answers: list[str] = []

        class Keyboard:
            def readline(self, limit: int) -> bytes:
                answers.append(shown.getvalue().decode())
                return lines[len(answers) - 1] if len(answers) <= len(lines) else b""

        class Terminal:
            buffer = Keyboard()

            def isatty(self) -> bool:
                return True

        monkeypatch.chdir(project)
        monkeypatch.setattr("sys.stdin", Terminal())
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, "utf-8"))
        with pytest.raises(SystemExit):
            main(["translate", *arguments])
        return answers[1:]

    return typed


def test_a_line_typed_on_a_terminal_is_answered_before_the_next_is_read(
    type_lines: Callable[..., list[str]],
) -> None:
    answers = type_lines([], b"Der alte Hund singt im Park.\n", b"\n", b"Die Katze singt im Park.\n")
    assert [answer.count("\n") for answer in answers] == [1, 2, 3]
    assert answers[0] == "the old dog sings in the park.\n"


@pytest.mark.parametrize(
    ("arguments", "answer", "said"),
    [
        ([], "", "tfm: error: line 1: 15 tokens, but the model takes at most 14 "),
        (["--on-error", "blank"], "\n", "warning: 1 too long, left blank: line 1\n"),
    ],
)
def test_a_line_too_long_on_a_terminal_is_named_and_the_next_is_read(
    type_lines: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    answer: str,
    said: str,
) -> None:
    answers = type_lines(arguments, b"Hund " * 15 + b"\n", b"Der alte Hund singt im Park.\n")
    assert answers == [answer, f"{answer}the old dog sings in the park.\n"]
    assert said in capsys.readouterr().err


OBEYED = {  # what terminals do when they read it
    "colour": "\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x1b\\",
    "CSI as one character": "\x9b2J",
    "OSC as one character": "\x9d0;owned\x9c",
    "device control": "\x1bPq\x1b\\",
    "device control as one character": "\x90q\x9c",
    "other letters": "\x0e",
    "bell": "\x07",
    "back": "a\bb",
    "over the line": "a\rb",
    "delete": "\x7f",
    "reset": "\x1bc",
    "next line": "\x85",
    "up": "\x1b[A\x1b[2K",
}


class Screen:
    """A terminal: what is written to `stream` appears there."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))  # bars are as wide as it is
        self.stream = open(self._slave, "w", encoding="utf-8", closefd=False)

    def seen(self) -> str:
        content = b""
        while select.select([self._master], [], [], 0.1)[0]:
            content += os.read(self._master, 1 << 16)
        return content.decode().replace("\r\n", "\n")

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


@pytest.mark.parametrize("text", OBEYED.values(), ids=OBEYED)
def test_a_terminal_shows_what_it_would_obey(screen: Screen, text: str) -> None:
    terminal = Terminal(screen.stream.buffer, encoding="utf-8")
    print(f"eins\t{text}\tzwei", file=terminal)
    terminal.flush()
    seen = screen.seen()
    assert seen.startswith("eins\t")
    assert seen.endswith("\tzwei\n")
    shown = seen.removeprefix("eins\t").removesuffix("\tzwei\n")
    assert shown == "".join(one if one.isprintable() else repr(one)[1:-1] for one in text) != text


def test_bars_are_drawn_on_a_terminal_that_shows_the_rest(screen: Screen) -> None:
    terminal = TerminalWithBars(screen.stream.buffer, encoding="utf-8")
    terminal.write("\r 50%\x1b[A\x1b[31m\x9b\udce4\n")
    terminal.flush()
    assert screen.seen() == "\r 50%\x1b[A\\x1b[31m\\x9b\\xe4\n"


def test_a_bar_is_drawn_as_ever(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", TerminalWithBars(screen.stream.buffer, encoding="utf-8", line_buffering=True))
    with progress.bar("outer", 2, " things") as outer, progress.bar("inner", 2, " things") as inner:
        inner.update(1)
        inner.set_postfix_str("")  # redraws
        outer.set_postfix_str("")
    seen = screen.seen()
    assert "inner:  50%" in seen
    assert "\r" in seen
    assert "\\" not in seen


@pytest.mark.parametrize("text", OBEYED.values(), ids=OBEYED)
def test_a_message_is_one_line_that_no_terminal_obeys(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("tfm", logging.WARNING, "", 0, "%s: line 1\nis\tgone", (text,), None)
    LineHandler().emit(record)
    err = capsys.readouterr().err
    assert err == f"warning: {on_one_line(text)}: line 1\\nis\\tgone\n"
    assert err.removesuffix("\n").isprintable()


def test_escape_codes_of_a_vocabulary_are_shown_on_a_terminal(
    screen: Screen, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.stdout", screen.stream)
    monkeypatch.setattr("sys.stderr", screen.stream)
    with pytest.raises(SystemExit):
        main(["translate", "Der kleine \x1bzorro schläft am Strand."])
    with pytest.raises(SystemExit):
        main(["translate", "--run", "no\x1b[31m\nrun", "Hund"])
    seen = screen.seen()
    assert "the small \\x1bzorro sleeps at the beach.\n" in seen
    assert re.sub("\r|\n|\x1b\\[A", "", seen).isprintable()  # a bar was drawn too
    assert "tfm: error: runs/no\\x1b[31m\\nrun: " in seen
