"""`tfm` on a terminal: lines are answered as they are typed, and no text makes the terminal do anything."""

import io
import logging
import os
import pty
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from transformer_cli.cli import main
from transformer_cli.progress import LineHandler
from transformer_cli.terminal import harmless, on_one_line


def test_a_line_typed_on_a_terminal_is_answered_before_the_next_is_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.BytesIO()
    answers: list[str] = []

    def typed() -> Iterator[bytes]:
        for line in (b"Der alte Hund singt im Park.\n", b"\n", b"Die Katze singt im Park.\n"):
            yield line
            answers.append(shown.getvalue().decode())

    class Keyboard:
        lines = typed()

        def readline(self, limit: int) -> bytes:
            return next(self.lines, b"")

    class Terminal:
        buffer = Keyboard()

        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(project)
    for name in ("handlers", "level", "propagate"):
        log = logging.getLogger("transformer_cli")
        monkeypatch.setattr(log, name, getattr(log, name))  # put back afterwards: main sets its own
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, "utf-8"))
    with pytest.raises(SystemExit):
        main(["translate"])
    assert [answer.count("\n") for answer in answers] == [1, 2, 3]
    assert answers[0] == "the old dog sings in the park.\n"


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
    terminal = harmless(screen.stream)
    print(f"eins\t{text}\tzwei", file=terminal)
    terminal.flush()
    seen = screen.seen()
    assert seen.startswith("eins\t")
    assert seen.endswith("\tzwei\n")
    shown = seen.removeprefix("eins\t").removesuffix("\tzwei\n")
    assert shown == "".join(one if one.isprintable() else repr(one)[1:-1] for one in text) != text


def test_bars_are_drawn_on_a_terminal_that_shows_the_rest(screen: Screen) -> None:
    terminal = harmless(screen.stream, has_bars=True)
    terminal.write("\r 50%\x1b[A\x1b[31m\x9b\udce4\n")
    terminal.flush()
    assert screen.seen() == "\r 50%\x1b[A\\x1b[31m\\x9b\\xe4\n"


def test_files_and_pipes_get_text_as_it_is(tmp_path: Path) -> None:
    text = "".join(OBEYED.values())
    with (tmp_path / "out").open("w", encoding="utf-8", newline="") as file:
        assert harmless(file) is file
        file.write(text)
    assert (tmp_path / "out").read_bytes() == text.encode()


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
    for name in ("handlers", "level", "propagate"):
        log = logging.getLogger("transformer_cli")
        monkeypatch.setattr(log, name, getattr(log, name))
    monkeypatch.setattr("sys.stdout", screen.stream)
    monkeypatch.setattr("sys.stderr", screen.stream)
    with pytest.raises(SystemExit):
        main(["translate", "Der kleine \x1bzorro schläft am Strand."])
    with pytest.raises(SystemExit):
        main(["translate", "--run", "no\x1b[31m\nrun", "Hund"])
    seen = screen.seen()
    assert seen.startswith("the small \\x1bzorro sleeps at the beach.\n")
    assert seen.replace("\n", "").isprintable()
    assert "tfm: error: runs/no\\x1b[31m\\nrun: " in seen
