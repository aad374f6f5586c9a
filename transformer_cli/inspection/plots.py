"""Numbers → SVG, PDF or PNG: learning curves, attention and token vectors. The one owner of matplotlib.

First what all pictures share, then learning curves, heat maps, vectors, and the pictures of a sentence; sizes are in
inches. Knows nothing of models or of how a run is stored.
"""

import io
import logging
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath, text_to_path
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from transformer_cli.inspection.picture_files import picture_format
from transformer_cli.system.files import write_bytes

if TYPE_CHECKING:
    from transformer_cli.inspection.numbers import AttentionMap, Inspection, WordAttention

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


FIRST = "DejaVu Sans"  # comes with matplotlib
SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))  # of a character's form: never drawn
USELESS = "Last Resort"  # has a box for every character


def families_for(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the families to draw texts with, the preferred one first, and the characters that none of them has."""
    first = next(each for each in fontManager.ttflist if each.name == FIRST and _is_regular(each))
    wanted = {character for text in texts for character in text if character.isprintable()}
    lacking = frozenset(wanted - _characters(first.fname) - SELECTORS)
    found, lacking = _installed(lacking)
    return [FIRST, *found], sorted(lacking)


@lru_cache
def _installed(lacking: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns families that have some of these characters, each one more than those before it; and what is left."""
    families = []
    fonts = {each.name: each.fname for each in fontManager.ttflist if _is_regular(each)}
    for name, path in sorted(fonts.items()) if lacking else ():
        if USELESS not in name and (found := lacking & _characters(path)):
            families.append(name)
            lacking -= found
    return tuple(families), lacking


@lru_cache(256)
def _characters(path: str) -> frozenset[str]:
    """Returns what a font can draw; nothing if it cannot be read, or has pictures of one size instead of outlines."""
    try:
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (OSError, RuntimeError, AttributeError):
        return frozenset()


def _is_regular(font: FontEntry) -> bool:
    return font.style == "normal" and str(font.weight) in ("400", "normal", "regular")


History = Sequence[Mapping[str, Any]]

MARKERS = "os^DvPX<>"  # another number than of colours, so that 63 runs differ in one or the other
PLOTS_WIDTH, CURVES_HEIGHT = 12.0, 3.6  # inches
LONGEST_NAME = 40  # characters of a run's name that are shown
WIDTH, WIDEST = 1.6, 9.0  # of a line, in points; the widest lies below others that would hide it
CLOSE = 0.004  # curves that differ by less, in parts of the axis, would hide each other
TICK_ROOM = 0.07  # between two ticks of a logarithmic axis, in parts of the axis


def draw_curves(histories: Mapping[str, History], path: Path) -> None:
    """Draw loss, perplexity and learning rate by epoch, for one run or for several laid over each other.

    histories: a run's name → its validations, as in history.jsonl, at least one per run. Replaces `path` by a picture.
    """
    with drawing(path, histories):
        legend = _legend(histories)
        beside = max(text_width(str(line.get_label())) for line in legend) + 0.7
        size = (PLOTS_WIDTH + beside, max(CURVES_HEIGHT, LINE * (len(legend) + 2)))
        figure = Figure(figsize=size, dpi=DPI, layout="constrained")
        loss, perplexity, rate = figure.subplots(1, 3)
        runs = list(histories.values())
        _lines(loss, runs, "train_loss", ":")
        _lines(loss, runs, "valid_loss", "-")
        _lines(perplexity, runs, "valid_ppl", "-")
        _lines(rate, runs, "learning_rate", "-")
        _mark_best(loss, runs, "valid_loss")
        _mark_best(perplexity, runs, "valid_ppl")
        last = max(entry["epoch"] for history in runs for entry in history)
        for axes, title in ((loss, "loss per target token, nats"), (perplexity, "perplexity"), (rate, "learning rate")):
            axes.set_title(title, loc="left", weight="bold")
            axes.set_xlabel("epoch")
            axes.set_xlim(1 - min(max(0.04 * last, 0.25), 0.5), last + max(0.04 * last, 0.25))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid()
        rate.set_ylim(bottom=0.0)
        rate.yaxis.set_major_formatter("{x:g}")
        _make_logarithmic(perplexity)
        figure.legend(handles=legend, loc="outside right upper", frameon=False)
        save(figure, path)


def _look(index: int) -> dict[str, Any]:
    """Returns the colour and the marker of a run."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)], "markersize": 4.5}


def _legend(histories: Mapping[str, History]) -> list[Line2D]:
    """Returns an entry for each run, with its best validation, and then what the lines mean."""
    entries = []
    for index, (run, history) in enumerate(histories.items()):
        best = _best(history)
        name = visible(run if len(run) <= LONGEST_NAME else f"…{run[1 - LONGEST_NAME :]}").replace("$", r"\$")
        label = f"{name}: {best['valid_loss']:.3g} in epoch {best['epoch']}"
        entries.append(Line2D([], [], label=label, **_look(index)))
    grey: dict[str, Any] = {"color": "0.4"}
    entries.append(Line2D([], [], linestyle=":", label="training", **grey))
    entries.append(Line2D([], [], label="validation", **grey))
    ring: dict[str, Any] = {"marker": "o", "fillstyle": "none", "markersize": 9.0, "linestyle": ""}
    return [*entries, Line2D([], [], label="best validation loss", **ring, **grey)]


def _lines(axes: Axes, runs: Sequence[History], key: str, style: str) -> None:
    """Draw a line for each run. Of runs that coincide, the first is the widest, and their markers take turns."""
    curves = [{entry["epoch"]: float(entry[key]) for entry in history} for history in runs]
    values = [value for curve in curves for value in curve.values() if np.isfinite(value)]
    room = CLOSE * (max(values) - min(values)) if values else 0.0
    for index, curve in enumerate(curves):
        n_over = sum(_coincide(curve, other, room) for other in curves[index + 1 :])
        width = WIDTH + min(2.2 * n_over, WIDEST)
        every = -(-len(curve) // 12) * min(len(runs), max(1, len(curve) // 2))  # epochs from marker to marker
        turn = index % every if len(curve) > 1 else 0
        marks = {**_look(index), "markevery": slice(min(turn, len(curve) - 1), None, every)}
        if style == ":":  # of a single epoch there is no line, only a hollow point
            marks |= {"marker": None} if len(curve) > 1 else {"markerfacecolor": "white"}
        axes.plot(list(curve), list(curve.values()), style, linewidth=width, solid_capstyle="round", **marks)


def _coincide(curve: Mapping[int, float], other: Mapping[int, float], room: float) -> bool:
    """Returns whether two curves lie on each other, in at least half of the epochs that both have."""
    shared = [abs(curve[epoch] - other[epoch]) <= room for epoch in curve if epoch in other]
    return sum(shared) * 2 > len(shared)


def _best(history: History) -> Mapping[str, Any]:
    return min(history, key=lambda entry: float(entry["valid_loss"]))


def _mark_best(axes: Axes, runs: Sequence[History], key: str) -> None:
    for index, best in enumerate(map(_best, runs)):
        ring = {"color": _look(index)["color"], "marker": "o", "fillstyle": "none", "markersize": 9 + index % 3 * 2}
        axes.plot(best["epoch"], best[key], linestyle="", **ring)


def _make_logarithmic(axes: Axes) -> None:
    """Give an axis a logarithmic scale, and as many round numbers as have room beside each other."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < 1.2:  # for a single point, say
        middle = (low * high) ** 0.5
        low, high = middle / 1.1, middle * 1.1
        axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(_round_numbers(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.4g}")


def _round_numbers(low: float, high: float) -> list[float]:
    """Returns round numbers from low to high, no two of them too close on a logarithmic axis."""
    tens = [10.0**power for power in range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)]
    evenly = list(MaxNLocator(7).tick_values(low, high))
    choices = [evenly, *([ten * sub for ten in tens for sub in subs] for subs in ((1, 2, 3, 5), (1, 2, 5), (1, 3)))]
    choices += [tens[::step] for step in range(1, len(tens) + 1)]
    for choice in choices:
        ticks = [float(value) for value in choice if low <= value <= high]
        gaps = [np.log(after / before) / np.log(high / low) for before, after in pairwise(ticks)]
        if gaps and min(gaps) >= TICK_ROOM:
            return ticks
    return [float(f"{(low * high) ** 0.5:.3g}")]


CELL, GAP = 0.16, 0.12  # a token's row or column at least; the space between maps
SMALLEST_MAP = (1.1, 1.1)  # room for the names of the axes, however short the sentence
WIDEST_PAGE = 16.0  # what maps that need several rows fill; a single map may be wider
BAR_WIDTH, BAR_ROOM = 0.15, 0.9  # the bar that says what the colours mean: alone, and with its numbers
MOST_PIXELS = 8_000  # of the longer side: a picture that needs more gets coarser instead of larger


@dataclass(frozen=True)
class Block:
    """Maps of the same tokens in a grid: each row of the grid names the targets once, each column the sources once."""

    title: str
    beside: str
    """the name of the rows"""
    below: str
    """the name of the columns"""
    targets: list[str]
    sources: list[str]
    maps: list[tuple[str, Floats]]
    """each map's title and weights (target, source)"""

    @property
    def margin(self) -> float:
        """The room for the target tokens, left of the maps."""
        return _longest(self.targets) + 2 * LINE

    @property
    def narrowest(self) -> float:
        """The width of a map whose columns are as narrow as they may be."""
        return max(CELL * len(self.sources), SMALLEST_MAP[0])

    def columns(self, room: float) -> int:
        """Returns how many maps stand side by side in this width: as few as make the rows of maps as few as it can.

        Of 8 maps, where there is room for 7, 4 stand in each of 2 rows.
        """
        fit = max(1, int((room + GAP) / (self.narrowest + GAP)))
        rows = -(-len(self.maps) // fit)
        return -(-len(self.maps) // rows)


@dataclass(frozen=True)
class Grid:
    """A block whose maps together fill a given width."""

    block: Block
    columns: int
    map_width: float

    @property
    def map_height(self) -> float:
        """Rows get as high as the columns are wide, but not more than twice as high as they need to be."""
        cell = min(self.map_width / len(self.block.sources), 2 * CELL)
        return max(max(cell, CELL) * len(self.block.targets), SMALLEST_MAP[1])

    @property
    def is_upright(self) -> bool:
        """Whether the names of the columns must be turned, since they are wider than their columns."""
        return _longest(self.block.sources) > self.map_width / len(self.block.sources)

    @property
    def maps_bottom(self) -> float:
        """The distance from the block's top to the bottom of the last row of maps."""
        rows = -(-len(self.block.maps) // self.columns)
        return LINE + rows * (self.map_height + LINE + GAP)

    @property
    def maps_height(self) -> float:
        """The distance from there up to the top of the first row of maps."""
        return self.maps_bottom - 2 * LINE - GAP

    @property
    def height(self) -> float:
        return self.maps_bottom + (_longest(self.block.sources) if self.is_upright else LINE) + 2.5 * LINE

    def corners(self) -> Iterator[tuple[float, float]]:
        """Yield each map's left edge, from the block's margin, and its lower edge, down from the block's top."""
        for index in range(len(self.block.maps)):
            row, column = divmod(index, self.columns)
            down = LINE + (row + 1) * (LINE + GAP + self.map_height)
            yield column * (self.map_width + GAP), down


def draw_blocks(blocks: Sequence[Block], *, room_below: float = 0.0) -> Figure:
    """Returns a figure of blocks, one below the other, with a bar that says what the colours mean.

    room_below: how much space to leave below the blocks for another picture; the figure is then at least a page wide.
    """
    left = max(block.margin for block in blocks)
    room = _width_of_maps(blocks, PAGE_WIDTH - left - GAP - BAR_ROOM)
    grids = []
    for block in blocks:
        columns = block.columns(room)
        grids.append(Grid(block, columns, (room + GAP) / columns - GAP))
    bar_left = left + room + GAP
    width = bar_left + BAR_ROOM
    height = sum(grid.height for grid in grids) + room_below
    figure = Figure(figsize=(width, height), dpi=min(DPI, MOST_PIXELS / max(width, height)))
    top = height
    for grid in grids:
        image = _draw_grid(figure, grid, left, top)
        if grid is grids[0]:
            bar = add_axes(figure, bar_left, top - grid.maps_bottom, BAR_WIDTH, grid.maps_height)
            figure.colorbar(image, cax=bar, label="attention weight")
        top -= grid.height
    return figure


def _width_of_maps(blocks: Sequence[Block], page: float) -> float:
    """Returns the width that all blocks fill: that of four maps of the longest sentence, if the page's limit allows."""
    of_four = max(min(4, len(block.maps)) * (block.narrowest + GAP) - GAP for block in blocks)
    return max(page, min(of_four, WIDEST_PAGE), *(block.narrowest for block in blocks))


def _draw_grid(figure: Figure, grid: Grid, left: float, top: float) -> AxesImage:
    """left, top: where the first map and the block begin. Returns one of the images: all have the same colours."""
    block = grid.block
    figure.text(left / figure.get_figwidth(), (top - LINE) / figure.get_figheight(), block.title, weight="bold")
    colours = weight_colours()
    for index, ((title, weights), (right, down)) in enumerate(zip(block.maps, grid.corners(), strict=True)):
        axes = add_axes(figure, left + right, top - down, grid.map_width, grid.map_height)
        image = axes.imshow(weights, vmin=0.0, vmax=1.0, cmap=colours, aspect="auto")
        axes.set_title(title, pad=3)
        axes.set(xticks=[], yticks=[])
        if index % grid.columns == 0:
            axes.set_yticks(range(len(block.targets)), block.targets, parse_math=False)
            axes.set_ylabel(block.beside)
        if index + grid.columns >= len(block.maps):  # the last of its column
            turned = 90 if grid.is_upright else 0
            axes.set_xticks(range(len(block.sources)), block.sources, rotation=turned, parse_math=False)
            if index % grid.columns == 0:
                axes.set_xlabel(block.below, loc="left")
    return image


def _longest(tokens: Sequence[str]) -> float:
    """Returns the width of the widest token, with a little space, in inches."""
    return max(map(text_width, set(tokens))) + 0.1


VECTORS_HEIGHT = 6.5  # inches
HALO = [withStroke(linewidth=2, foreground="white")]  # keeps a word legible on an arrow


def draw_vectors(
    figure: Figure, *, title: str, tokens: Sequence[str], before: Floats, moved: Sequence[int], after: Floats
) -> None:
    """Draw at the foot of a figure: a dot for each token, and an arrow from each token that moved to its new place.

    before (tokens, dimension). moved: the positions of the tokens that have a row in after (moved, dimension).
    """
    from transformer_cli.inspection.numbers import in_the_plane  # imports torch, which curves need not wait for

    left = 0.8
    axes = add_axes(figure, left, 3 * LINE, figure.get_figwidth() - left - 0.3, VECTORS_HEIGHT - 5 * LINE)
    ends = before.copy()
    ends[list(moved)] = after
    flat, explained = in_the_plane(np.concatenate((before, ends)))
    before, ends = flat[: len(before)], flat[len(before) :]
    labels, colours = _labels_and_colours(tokens)
    for position, (start, end, colour) in enumerate(zip(before, ends, colours, strict=True)):
        axes.plot(*start, ".", color=colour)
        if position in moved:
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.7, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", end, start, arrowprops=arrow)
    axes.update_datalim(ends)
    axes.margins(0.08)
    axes.autoscale_view()
    offsets = _free_places(axes, ends, ends[:, 0] < before[:, 0], labels)
    for end, label, colour, offset in zip(ends, labels, colours, offsets, strict=True):
        is_far = abs(offset[1]) > 1.6 * FONT_SIZE  # then a thin line leads there
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2} if is_far else None
        look: dict[str, Any] = {"color": colour, "parse_math": False, "path_effects": HALO, "arrowprops": leader}
        axes.annotate(label, end, offset, textcoords="offset points", **look)
    axes.set_title(f"{title}; words that occur twice have a colour")
    axes.set_xlabel(f"first principal component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({explained[1]:.0%})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid()


def _labels_and_colours(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns each token's label and colour. A token that occurs twice has its position in the label, and a colour."""
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    labels = [f"{token} ({position})" if token in repeated else token for position, token in enumerate(tokens)]
    return labels, [COLOURS[repeated.index(token) % len(COLOURS)] if token in repeated else "0.4" for token in tokens]


def _free_places(
    axes: Axes, ends: Floats, leftwards: NDArray[np.bool_], labels: Sequence[str]
) -> list[tuple[float, float]]:
    """Returns where labels go, as offsets of their lower left corners from their arrows' ends.

    Each goes to the nearest place, first in front of its arrow's head, where it covers no other label, no other end and
    does not stick out; if there is none, to where it covers least. leftwards: which arrows point to the left. Offsets
    are in points of 1/72 inch.
    """
    inch = 72 / axes.figure.dpi
    points = axes.transData.transform(ends) * inch
    frame = np.asarray(axes.bbox.extents) * inch
    taken = np.concatenate((points - 2.0, points + 2.0), axis=1)  # left, bottom, right, top
    offsets = []
    for (x, y), is_leftwards, label in zip(points, leftwards, labels, strict=True):
        width, height = 72 * text_width(label), FONT_SIZE + 1.0
        moves = _moves(width, height, is_leftwards)
        boxes = np.tile(moves, 2) + np.array((x, y, x + width, y + height))
        upper, lower = boxes[:, None, 2:], boxes[:, None, :2]
        overlap = np.minimum(upper, taken[:, 2:]) - np.maximum(lower, taken[:, :2])
        covered = np.prod(np.maximum(overlap, 0.0), axis=2).sum(axis=1)
        sticks_out = np.maximum(frame[:2] - boxes[:, :2], 0.0).sum(axis=1)
        sticks_out += np.maximum(boxes[:, 2:] - frame[2:], 0.0).sum(axis=1)
        best = int(np.argmin(covered + 1000.0 * sticks_out))  # the first of the best: the nearest
        taken = np.concatenate((taken, boxes[best : best + 1]))
        offsets.append((float(moves[best, 0]), float(moves[best, 1])))
    return offsets


def _moves(width: float, height: float, is_leftwards: bool) -> Floats:
    """Returns where a label may go, the nearest places first: (places, 2), offsets of its lower left corner."""
    sides = sorted((4.0, -4.0 - width), reverse=not is_leftwards)
    moves = [(sides[0], height * (step - 0.4)) for step in (0, 0.5, -0.5, 1, -1)]
    moves += [(sides[1], height * (step - 0.4)) for step in (1, -1)]  # behind the head, beside the arrow
    for distance in np.arange(1.0, 9.0):
        for angle in np.linspace(0.0, 2 * np.pi, 24, endpoint=False):
            along, up = np.cos(angle), np.sin(angle)
            corner = along * (4.0 + distance * height) + (along - 1.0) * width / 2
            moves.append((corner, up * distance * height - 0.4 * height))
    return np.array(moves)


KINDS = {  # the titles above, beside and below the maps
    "encoder": ("encoder self-attention", "source position …", "… attends to source position"),
    "decoder": ("decoder self-attention", "target position …", "… attends to target position"),
    "cross": ("encoder–decoder attention", "target position …", "… attends to source position"),
}


def draw_attention(maps: Sequence["AttentionMap"], path: Path) -> None:
    """Draw attention weights as heat maps. Replaces `path` by a picture.

    maps: at least one; maps of the same kind are neighbours, as `Inspection.maps` returns them.
    """
    with drawing(path, [text for each in maps for text in (*each.target_tokens, *each.source_tokens)]):
        save(draw_blocks(_blocks(maps)), path)


def draw_inspection(inspection: "Inspection", maps: Sequence["AttentionMap"], path: Path) -> None:
    """Draw attention weights, and below them the source's vectors in the plane. Replaces `path` by a picture."""
    with drawing(path, [*inspection.source_tokens, *inspection.target_tokens]):
        figure = draw_blocks(_blocks(maps), room_below=VECTORS_HEIGHT)
        draw_vectors(
            figure,
            title="source vectors, from before the encoder (dot) to after it (arrow head)",
            tokens=_labels(inspection.source_tokens),
            before=inspection.before.numpy(),
            moved=range(len(inspection.source_tokens)),
            after=inspection.after.numpy(),
        )
        save(figure, path)


def draw_words(words: "WordAttention", path: Path) -> None:
    """Draw the attention of word vectors over themselves, and the vectors below it. Replaces `path` by a picture."""
    scores = f"QKᵀ/√{words.vectors.shape[1]}" if words.is_scaled else "QKᵀ"
    labels = _labels(words.words)
    block = Block(
        title="word vectors, no model: they are Q, K and V",
        beside="word …",
        below="… attends to word",
        targets=[labels[position] for position in words.positions],
        sources=labels,
        maps=[(f"softmax({scores})", words.weights.numpy())],
    )
    with drawing(path, words.words):
        figure = draw_blocks([block], room_below=VECTORS_HEIGHT)
        draw_vectors(
            figure,
            title="word vectors (dot) and what attention makes of them (arrow head)",
            tokens=labels,
            before=words.vectors.numpy(),
            moved=words.positions,
            after=words.context.numpy(),
        )
        save(figure, path)


def _blocks(maps: Sequence["AttentionMap"]) -> list[Block]:
    """Returns one block for each kind of attention."""
    blocks = []
    for kind, group in groupby(maps, key=lambda each: each.kind):
        title, beside, below = KINDS[kind]
        heads = list(group)
        first = heads[0]
        blocks.append(
            Block(
                title=f"{title}, layer {first.layer}",
                beside=beside,
                below=below,
                targets=_labels(first.target_tokens),
                sources=_labels(first.source_tokens),
                maps=[(f"head {each.head}", each.weights.numpy()) for each in heads],
            )
        )
    return blocks


def _labels(tokens: Sequence[str]) -> list[str]:
    return [shown(token) for token in tokens]
