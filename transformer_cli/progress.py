"""Progress bars: on standard error if that is a terminal, nothing elsewhere. Knows nothing of what is counted."""

import logging
import sys
from typing import TYPE_CHECKING, TypeAlias

from tqdm import tqdm

if TYPE_CHECKING:
    from typing import Any

Bar: TypeAlias = "tqdm[Any]"  # tqdm is generic for type checkers alone


def bar(description: str, total: int | None, unit: str, *, unit_scale: bool = False) -> Bar:
    """A bar to be used in a `with` block and moved by its `update(n)`; it vanishes at the end of the block.

    `total` None: how much there is to do is not known. `unit_scale`: 1200 is shown as 1.20k.
    """
    return tqdm(
        desc=description,
        total=total,
        unit=unit,
        unit_scale=unit_scale,
        disable=None,  # tqdm's way to say: unless standard error is a terminal
        leave=False,
        dynamic_ncols=True,
    )


class LineHandler(logging.Handler):
    """Log records as plain lines on standard error that do not tear a bar; warnings say that they are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        tqdm.write(prefix + record.getMessage(), file=sys.stderr)
        sys.stderr.flush()
