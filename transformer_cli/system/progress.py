"""Progress bars on a terminal and in a notebook, one log line per minute elsewhere. Knows nothing of what is counted.

tqdm is imported only when something is shown, so that help texts do not wait for it.
"""

import logging
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from transformer_cli.system import terminal

if TYPE_CHECKING:
    from typing import Any

    from tqdm import tqdm

log = logging.getLogger(__name__)

Bar: TypeAlias = "tqdm[Any]"  # only type checkers see tqdm as generic
LOG_INTERVAL_S = 60.0
BAR_FORMAT = "{l_bar}{bar}| {remaining} left, {rate_fmt}{postfix}"  # tqdm's own has no room for a bar at 80 columns


class _LogFile:
    """A file that writes a bar's text to the log."""

    def write(self, text: str) -> None:
        if line := text.replace("\x1b[A", "").strip():  # without carriage return and cursor up
            log.info("%s", line)

    def flush(self) -> None:
        pass


LOG_OPTIONS: "dict[str, Any]" = {
    "file": _LogFile(),
    "mininterval": LOG_INTERVAL_S,
    "delay": LOG_INTERVAL_S,  # before the first line
    "miniters": 1,
    "smoothing": 0,  # show the mean rate since the beginning
    "ncols": 0,  # show the numbers without the bar
}


def bar(
    desc: str,
    total: int | None,
    unit: str,
    *,
    unit_scale: bool = False,
    initial: int = 0,
    is_silent: bool = False,
    logged_at: float | None = None,
) -> Bar:
    """Returns a bar for a `with` block: `update(n)` moves it, and it vanishes at the end of the block.

    desc: the text before it. total: the number of units (None: unknown); with a total of 1, nothing is shown.
    unit_scale: show 1200 as 1.20k. initial: units done before. is_silent: show nothing. logged_at: without a terminal,
    the first line follows a minute after this `time.time()` (None: after now). In a notebook, the bar is a widget if
    ipywidgets is installed, otherwise a line of text that is drawn once a second.
    """
    ipython = sys.modules.get("IPython")
    is_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    is_widget = is_notebook and find_spec("ipywidgets") is not None
    make = import_module("tqdm.notebook" if is_widget else "tqdm").tqdm
    is_bar = is_notebook or (sys.stderr is not None and sys.stderr.isatty() and not terminal.is_dumb_terminal())
    made: Bar = make(
        desc=desc,
        total=total,
        unit=unit,
        unit_scale=unit_scale,
        initial=initial,
        leave=False,
        bar_format=BAR_FORMAT if total and is_bar else None,
        disable=is_silent or total == 1,
        **{"dynamic_ncols": True, "mininterval": 1.0 if is_notebook else 0.1} if is_bar else LOG_OPTIONS,
    )
    if logged_at is not None and not is_bar:
        made.delay, made.last_print_t = 0.0, logged_at
    return made


class LineHandler(logging.Handler):
    """Writes log records as lines on standard error without damaging a bar; warnings begin with their level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the traceback of the record's error, if it has one, then its message on one line."""
        from tqdm import tqdm

        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        line = terminal.escape_controls(f"{prefix}{record.getMessage()}")
        found = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else ""
        tqdm.write(f"{found}{line}\n", file=sys.stderr, end="")  # in one call, so that no other output comes in between
        sys.stderr.flush()
