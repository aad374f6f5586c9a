"""Progress on standard error: bars on a terminal, one line per minute elsewhere. Knows nothing of what is counted.

tqdm is imported only when something is shown, so that help texts appear without it.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from transformer_cli.system import terminal

if TYPE_CHECKING:
    from typing import Any

    from tqdm import tqdm

log = logging.getLogger(__name__)

Bar: TypeAlias = "tqdm[Any] | Lines"  # only type checkers see tqdm as generic
SECONDS_A_LINE = 60.0
BAR = (
    "{l_bar}{bar}| {remaining} left, {rate_fmt}{postfix}"  # tqdm's own is wide: at 80 columns it has no room for a bar
)

_is_hidden = ContextVar("is_hidden", default=False)


@contextmanager
def hidden() -> Iterator[None]:
    """Show no progress of what this thread does during the block: a server's work is never done."""
    token = _is_hidden.set(True)
    try:
        yield
    finally:
        _is_hidden.reset(token)


def bar(
    description: str,
    total: int | None,
    unit: str,
    *,
    unit_scale: bool = False,
    initial: int = 0,
    as_lines: bool = False,
) -> Bar:
    """Returns a bar for use in a `with` block: `update(n)` moves it, and it vanishes at the end of the block.

    total: how much there is to do (None: unknown). unit_scale: show 1200 as 1.20k. initial: how much was done before.
    If standard error is not a terminal, with as_lines, or where there is only one thing to do, log lines report on work
    of more than a minute instead.
    """
    is_hidden = _is_hidden.get() or sys.stderr is None or not sys.stderr.isatty() or terminal.is_plain()
    if as_lines or total == 1 or is_hidden:
        return Lines(description, total, unit, unit_scale=unit_scale, initial=initial)
    from tqdm import tqdm

    shown = tqdm(
        desc=description,
        total=total,
        unit=unit,
        unit_scale=unit_scale,
        initial=initial,
        leave=False,
        bar_format=BAR if total else None,
    )
    shown.dynamic_ncols = _columns_and_rows  # type: ignore[assignment]  # as tqdm itself sets it
    return shown


def _columns_and_rows(_file: object) -> tuple[int | None, int | None]:
    """Returns the room for a bar: a Ctrl-C shows as ^C behind it, and should not begin another line."""
    columns = terminal.columns(sys.stderr)
    return columns and columns - 3, None


class Lines:
    """The part of tqdm's interface that is used here, in plain lines: what the bar would show, once a minute."""

    def __init__(self, description: str, total: int | None, unit: str, *, unit_scale: bool, initial: int) -> None:
        from tqdm import tqdm

        self.n: float = initial
        self._postfix = ""
        self._started = self._last_line = monotonic()
        self._line = partial(
            tqdm.format_meter,
            total=total or 0,  # for tqdm, 0 means unknown
            ncols=0,  # the numbers without the bar
            prefix=description,
            unit=unit,
            unit_scale=unit_scale,
            initial=initial,
        )

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing: lines that were written stay."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Set the end of the lines to come; `refresh` is there because tqdm has it."""
        self._postfix = text

    def update(self, n: float = 1) -> None:
        """Count `n` more as done."""
        self.n += n
        now = monotonic()
        if now - self._last_line >= SECONDS_A_LINE and not _is_hidden.get():
            self._last_line = now
            log.info("%s", self._line(self.n, elapsed=now - self._started, postfix=self._postfix))


class LineHandler(logging.Handler):
    """Writes log records as plain lines on standard error without tearing a bar; warnings begin with their level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        from tqdm import tqdm

        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        line = terminal.message(f"{prefix}{record.getMessage()}")
        tqdm.write(f"{line}\n", file=sys.stderr, end="")  # in one call: nobody can tear it
        sys.stderr.flush()
