"""`tfm translate` on a terminal."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from transformer_cli.cli import main


def test_a_line_typed_on_a_terminal_is_answered_before_the_next_is_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.BytesIO()
    answers: list[str] = []

    def typed() -> Iterator[bytes]:
        for line in (b"Der alte Hund singt im Park.\n", b"\n", b"Die Katze singt im Park.\n"):
            yield line
            answers.append(shown.getvalue().decode())

    class Terminal:
        buffer = typed()

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
