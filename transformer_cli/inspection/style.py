"""What all pictures share: font and line sizes, labels, colours, axes placed in inches, and how a file is written."""

import io
import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath, text_to_path
from numpy.typing import NDArray

from transformer_cli.inspection.fonts import families_for
from transformer_cli.inspection.picture_files import picture_format
from transformer_cli.system.files import write_bytes

Floats = NDArray[np.floating[Any]]

log = logging.getLogger(__name__)

DPI = 110
SHARP = 300  # dots per inch of a heat map's squares in a picture without pixels
# Okabe and Ito (2008), without yellow, which is too faint on white: told apart by the colour-blind too
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
FONT_SIZE = 9  # points
LINE = 0.22  # inches: the height of a line of text
PAGE_WIDTH = 9.0  # inches: the smallest width of a picture with token vectors
LONGEST_LABEL = 50  # characters of a token that are shown
LEVELS = 100  # the number of colours for weights: one per hundredth
STYLE: dict[Any, Any] = {
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE,
    "ytick.labelsize": FONT_SIZE,
    "legend.fontsize": FONT_SIZE,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # whole letters, which can be searched for and edited
    "svg.hashsalt": "tfm",  # else the same picture would be another file each time
}
LACKING = r"Glyph \d+ .*missing|Matplotlib currently does not support"  # two of matplotlib's warnings


@contextmanager
def drawing(path: Path, texts: Iterable[str]) -> Iterator[None]:
    """A block that draws `path` in our style; afterwards one line names the characters that no font has.

    texts: what is written in the picture, besides our own words.
    """
    families, lacking = families_for(texts)
    with rc_context({**STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=LACKING)
        yield
    if lacking:
        log.warning("%s: no font here has %s: drawn as boxes", path, " ".join(lacking))


def shown(token: str) -> str:
    """Returns how a token is written in a picture: a long one is cut, the rest is as in `visible`."""
    return visible(token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…")


@lru_cache(1 << 14)
def visible(text: str) -> str:
    """Returns a text with some ink in any case.

    Control characters, and all characters of a text without ink, such as U+200F, are written as "<U+200F>".
    """
    text = "".join(_code_point(one) if unicodedata.category(one) in ("Cc", "Cs") else one for one in text)
    outline, _ = text_to_path.get_text_path(FontProperties(), _plain(text))
    return text if len(outline) else "".join(map(_code_point, text))


def _code_point(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def weight_colours() -> Colormap:
    """Returns the colours for weights from 0 to 1: white to dark blue in LEVELS steps."""
    return colormaps["Blues"].resampled(LEVELS)


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes whose place is given in inches from the figure's lower left corner."""
    x, y = figure.get_figwidth(), figure.get_figheight()
    return figure.add_axes((left / x, bottom / y, width / x, height / y))


def text_width(text: str) -> float:
    """Returns the width of a text with some ink, in inches, in the font of the maps' labels."""
    return float(TextPath((0, 0), _plain(text), size=FONT_SIZE).get_extents().width) / 72


def _plain(text: str) -> str:
    """Returns a text about as wide: with "$", TextPath would typeset mathematics, and it leaves out spaces at ends."""
    return text.replace("$", "S").replace(" ", "i")


def save(figure: Figure, path: Path) -> None:
    """Replace `path` by an SVG, a PDF or a PNG, as its name says, whole or not at all. Raises DataError for others."""
    picture = io.BytesIO()
    kind = picture_format(path)
    if kind == "png":
        figure.savefig(picture, format="png")
    else:
        dated = {"svg": "Date", "pdf": "CreationDate"}[kind]
        figure.savefig(picture, format=kind, dpi=SHARP, metadata={dated: None})
    write_bytes(path, picture.getvalue())
