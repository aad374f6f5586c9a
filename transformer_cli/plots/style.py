"""What all pictures share: font and line sizes, colours, axes placed in inches, and how a PNG is written."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from numpy.typing import NDArray
from PIL import Image

from transformer_cli.files import write_bytes

Floats = NDArray[np.floating[Any]]

DPI = 110
FONT_SIZE = 9  # points
LINE = 0.22  # inches: the height of a line of text
PAGE_WIDTH = 9.0  # inches: the smallest width of a picture with token vectors
LEVELS = 100  # the number of colours for weights: one per hundredth
STYLE: dict[Any, Any] = {
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE,
    "ytick.labelsize": FONT_SIZE,
    "legend.fontsize": FONT_SIZE,
    "grid.alpha": 0.3,
}


def weight_colours() -> Colormap:
    """Returns the colours for weights from 0 to 1: white to dark blue in LEVELS steps."""
    return colormaps["Blues"].resampled(LEVELS)


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes whose place is given in inches from the figure's lower left corner."""
    x, y = figure.get_figwidth(), figure.get_figheight()
    return figure.add_axes((left / x, bottom / y, width / x, height / y))


def text_width(text: str) -> float:
    """Returns the width of a text in inches, in the font of the maps' labels."""
    plain = text.replace("$", "S")  # else TextPath would typeset mathematics
    plain = plain.replace(
        " ", "i"
    )  # about as wide; TextPath leaves out the spaces around a text, and fails if nothing is left
    return float(TextPath((0, 0), plain, size=FONT_SIZE).get_extents().width) / 72


def save(figure: Figure, path: Path, *, palette: Floats | None = None) -> None:
    """Replace `path` by a PNG, whole or not at all.

    palette: (colours, 3), from 0 to 1; give it if all of the picture's colours are known: the file then has a third of
    the size.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    if palette is not None:
        colours = Image.new("P", (1, 1))
        colours.putpalette((255 * palette).round().astype(np.uint8).tobytes())
        reduced = Image.open(picture).convert("RGB").quantize(palette=colours, dither=Image.Dither.NONE)
        picture = io.BytesIO()
        reduced.save(picture, format="png", optimize=True)
    write_bytes(path, picture.getvalue())


def inspection_palette() -> Floats:
    """Returns the colours of weights, letters and arrows: (colours, 3), from 0 to 1, at most 256 as a PNG needs."""
    levels = weight_colours()(np.arange(LEVELS))[:, :3]
    greys = np.repeat(np.linspace(0.0, 1.0, 36)[:, None], 3, axis=1)
    strengths = np.linspace(0.0, 1.0, 12)[:, None]  # from white, for the edges of lines and letters
    tints = [1.0 - strengths * (1.0 - np.array(to_rgb(f"C{index}"))) for index in range(10)]
    return np.concatenate((levels, greys, *tints))
