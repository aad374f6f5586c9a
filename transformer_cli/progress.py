"""Progress on standard error: bars on a terminal, a line a minute elsewhere. Knows nothing of what is counted.

tqdm is imported when something is shown: help is written without it.
"""

import logging
import sys
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing import Any

    from tqdm import tqdm

log = logging.getLogger(__name__)

Bar: TypeAlias = "tqdm[Any] | Lines"  # tqdm is generic for type checkers alone
SECONDS_A_LINE = 60.0


def bar(
    description: str,
    total: int | None,
    unit: str,
    *,
    unit_scale: bool = False,
    initial: int = 0,
    as_lines: bool = False,
) -> Bar:
    """A bar to be used in a `with` block and moved by its `update(n)`; it vanishes at the end of the block.

    `total` None: how much there is to do is not known. `unit_scale`: 1200 is shown as 1.20k. `initial`: how much of it
    was done before. Where standard error is no terminal, work of more than a minute is told in log lines instead;
    with `as_lines`, on a terminal too.
    """
    if as_lines or not sys.stderr.isatty():
        return Lines(description, total, unit, unit_scale=unit_scale, initial=initial)
    from tqdm import tqdm

    return tqdm(
        desc=description,
        total=total,
        unit=unit,
        unit_scale=unit_scale,
        initial=initial,
        leave=False,
        dynamic_ncols=True,
    )


class Lines:
    """As much of a bar as is used here, in plain lines: what the bar would show, once a minute."""

    def __init__(self, description: str, total: int | None, unit: str, *, unit_scale: bool, initial: int) -> None:
        from tqdm import tqdm

        self.n: float = initial
        self._postfix = ""
        self._started = self._last_line = monotonic()
        self._line = partial(
            tqdm.format_meter,
            total=total or 0,  # tqdm's way to say: not known
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
        """The end of the work; a line stays as it was said."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """What the next line ends with; `refresh` is for tqdm."""
        self._postfix = text

    def update(self, n: float = 1) -> None:
        """So much more is done."""
        self.n += n
        now = monotonic()
        if now - self._last_line >= SECONDS_A_LINE:
            self._last_line = now
            log.info("%s", self._line(self.n, elapsed=now - self._started, postfix=self._postfix))


class LineHandler(logging.Handler):
    """Log records as plain lines on standard error that do not tear a bar; warnings say that they are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        from tqdm import tqdm

        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        tqdm.write(f"{prefix}{record.getMessage()}\n", file=sys.stderr, end="")  # at once: no other can tear it
        sys.stderr.flush()
