"""Numbers → PNG: learning curves, attention and token vectors. The one owner of matplotlib.

Knows nothing of models or of how a run is stored.
"""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from transformer_cli.files import write_bytes
from transformer_cli.inspection import AttentionMap, Inspection, WordAttention

FONT_SIZE = 9
STYLE: dict[Any, Any] = {
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE,
    "ytick.labelsize": FONT_SIZE,
    "legend.fontsize": FONT_SIZE,
    "grid.alpha": 0.3,
}
DPI = 110
HALO = [withStroke(linewidth=2, foreground="white")]  # a word stays legible on an arrow
LEVELS = 100  # of a weight: a colour for each hundredth
COLUMNS = 4  # heads side by side
CELL, GAP, LINE = 0.16, 0.12, 0.22  # inches: a token's row or column; between maps; a line of text
VECTORS_HEIGHT = 6.5  # inches
TINY = 1e-30  # a variance, where all vectors are the same
MOST_PIXELS = 8_000  # of a side: beyond, the picture gets coarser instead of larger
SMALLEST_MAP = (2.1, 1.1)  # inches: room for the names of the axes, however short the sentence
VECTORS_WIDTH = 9.0  # inches, at least: they need room, however few the maps
KINDS = {  # what stands above the maps, beside them, below them
    "encoder": ("encoder self-attention", "source position …", "… attends to source position"),
    "decoder": ("decoder self-attention", "target position …", "… attends to target position"),
    "cross": ("encoder–decoder attention", "target position …", "… attends to source position"),
}

History = Sequence[Mapping[str, Any]]
Floats = NDArray[np.floating[Any]]


def draw_curves(histories: Mapping[str, History], path: Path) -> None:
    """Loss, perplexity and learning rate by epoch, of one run or of several laid over each other.

    histories: a run's name → its validations, as in history.jsonl, at least one each. Replaces `path` by a PNG.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(13, 4), dpi=DPI, layout="constrained")
        loss, perplexity, rate = figure.subplots(1, 3)
        for index, (name, history) in enumerate(histories.items()):
            prefix = f"{name}: " if len(histories) > 1 else ""
            colour = f"C{index}"
            _line(loss, history, "train_loss", f"{prefix}training", colour, ":")
            _line(loss, history, "valid_loss", f"{prefix}validation", colour, "-")
            _line(perplexity, history, "valid_ppl", f"{prefix}validation", colour, "-")
            _line(rate, history, "learning_rate", name, colour, "-")
            _mark_best(loss, history, "valid_loss", colour)
            _mark_best(perplexity, history, "valid_ppl", colour)
        for axes, title in ((loss, "loss per target token, nats"), (perplexity, "perplexity"), (rate, "learning rate")):
            axes.set(xlabel="epoch", ylabel=title)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid()
            axes.legend()
        rate.set_ylim(bottom=0.0)
        perplexity.set_yscale("log")
        perplexity.yaxis.set_major_formatter("{x:g}")
        perplexity.yaxis.set_minor_formatter("{x:g}")
        _save(figure, path)


def draw_attention(maps: Sequence[AttentionMap], path: Path) -> None:
    """Attention weights as heat maps. Replaces `path` by a PNG.

    maps: of `Inspection.maps`, at least one; those of a kind stand together.
    """
    with rc_context(STYLE):
        _save(_draw_blocks(_blocks(maps)), path, _palette())


def draw_inspection(inspection: Inspection, maps: Sequence[AttentionMap], path: Path) -> None:
    """The same, and below it the source's vectors in the plane. Replaces `path` by a PNG."""
    with rc_context(STYLE):
        figure = _draw_blocks(_blocks(maps), with_room_for_vectors=True)
        title = "source vectors, from before the encoder (dot) to after it (arrow head)"
        every = range(len(inspection.source_tokens))
        _draw_vectors(
            figure, title, inspection.source_tokens, inspection.before.numpy(), every, inspection.after.numpy()
        )
        _save(figure, path, _palette())


def draw_words(words: WordAttention, path: Path) -> None:
    """Attention of word vectors over themselves as a heat map, and they in the plane. Replaces `path` by a PNG."""
    scores = f"QKᵀ/√{words.vectors.shape[1]}" if words.is_scaled else "QKᵀ"
    block = _Block(
        "word vectors, no model: they are Q, K and V",
        "word …",
        "… attends to word",
        [words.words[position] for position in words.positions],
        words.words,
        [(f"softmax({scores})", words.weights.numpy())],
    )
    with rc_context(STYLE):
        figure = _draw_blocks([block], with_room_for_vectors=True)
        title = "word vectors (dot) and what attention makes of them (arrow head)"
        _draw_vectors(figure, title, words.words, words.vectors.numpy(), words.positions, words.context.numpy())
        _save(figure, path, _palette())


@dataclass(frozen=True)
class _Block:
    """Maps of the same tokens in a grid; the tokens are written once a row and once a column. Sizes in inches."""

    title: str
    beside: str
    """the name of the rows"""
    below: str
    """the name of the columns"""
    targets: list[str]
    sources: list[str]
    maps: list[tuple[str, Floats]]
    """of each its title and its weights (target, source)"""

    @property
    def columns(self) -> int:
        return min(COLUMNS, len(self.maps))

    @property
    def margin(self) -> float:
        """Left of the maps: the targets."""
        return _longest(self.targets) + 2 * LINE

    @property
    def cell(self) -> float:
        """A token's row or column: a lone map may be twice as large, where there is room."""
        room = (VECTORS_WIDTH - 2) / len(self.sources)
        return max(CELL, min(2 * CELL, room)) if len(self.maps) == 1 else CELL

    @property
    def map_width(self) -> float:
        return max(self.cell * len(self.sources), SMALLEST_MAP[0])

    @property
    def map_height(self) -> float:
        return max(self.cell * len(self.targets), SMALLEST_MAP[1])

    @property
    def maps_bottom(self) -> float:
        """From the block's top to the bottom of the last row of maps."""
        rows = -(-len(self.maps) // self.columns)
        return LINE + rows * (self.map_height + LINE + GAP)

    @property
    def maps_height(self) -> float:
        """From there to the top of the first."""
        return self.maps_bottom - 2 * LINE - GAP

    @property
    def maps_width(self) -> float:
        return self.columns * (self.map_width + GAP)

    @property
    def height(self) -> float:
        return self.maps_bottom + _longest(self.sources) + 2.5 * LINE

    def corners(self) -> Iterator[tuple[float, float]]:
        """Of each map the left and the lower edge, from the upper left corner of the block, its margin aside."""
        for index in range(len(self.maps)):
            row, column = divmod(index, self.columns)
            down = LINE + (row + 1) * (LINE + GAP + self.map_height)
            yield column * (self.map_width + GAP), down


def _blocks(maps: Sequence[AttentionMap]) -> list[_Block]:
    """A block a kind."""
    blocks = []
    for kind, group in groupby(maps, key=lambda each: each.kind):
        title, beside, below = KINDS[kind]
        heads = list(group)
        first = heads[0]
        blocks.append(
            _Block(
                f"{title}, layer {first.layer}",
                beside,
                below,
                first.target_tokens,
                first.source_tokens,
                [(f"head {each.head}", each.weights.numpy()) for each in heads],
            )
        )
    return blocks


def _draw_blocks(blocks: Sequence[_Block], *, with_room_for_vectors: bool = False) -> Figure:
    """One below the other, beside them what the colours mean."""
    left = max(block.margin for block in blocks)
    bar_left = left + max(block.maps_width for block in blocks) + GAP
    width = bar_left + 0.9
    height = sum(block.height for block in blocks)
    if with_room_for_vectors:
        width, height = max(width, VECTORS_WIDTH), height + VECTORS_HEIGHT
    figure = Figure(figsize=(width, height), dpi=min(DPI, MOST_PIXELS / max(width, height)))
    top = height
    for block in blocks:
        image = _draw_block(figure, block, left, top)
        if block is blocks[0]:
            bar = _add_axes(figure, bar_left, top - block.maps_bottom, 0.15, block.maps_height)
            figure.colorbar(image, cax=bar, label="attention weight")
        top -= block.height
    return figure


def _draw_block(figure: Figure, block: _Block, left: float, top: float) -> AxesImage:
    """left: of the first map. Returns one of the images: all have the same colours."""
    figure.text(left / figure.get_figwidth(), (top - LINE) / figure.get_figheight(), block.title, weight="bold")
    colours = colormaps["Blues"].resampled(LEVELS)
    for index, ((title, weights), (right, down)) in enumerate(zip(block.maps, block.corners(), strict=True)):
        axes = _add_axes(figure, left + right, top - down, block.map_width, block.map_height)
        image = axes.imshow(weights, vmin=0.0, vmax=1.0, cmap=colours, aspect="auto")
        axes.set_title(title, pad=3)
        axes.set(xticks=[], yticks=[])
        if index % block.columns == 0:
            axes.set_yticks(range(len(block.targets)), block.targets, parse_math=False)
            axes.set_ylabel(block.beside)
        if index + block.columns >= len(block.maps):  # the last of its column
            axes.set_xticks(range(len(block.sources)), block.sources, rotation=90, parse_math=False)
            axes.set_xlabel(block.below)
    return image


def _draw_vectors(
    figure: Figure, title: str, tokens: Sequence[str], before: Floats, moved: Sequence[int], after: Floats
) -> None:
    """A dot a token, and from those that moved an arrow to where they are afterwards.

    before (tokens, dimension); moved: which tokens have a row in after (moved, dimension).
    """
    left = 0.8
    axes = _add_axes(figure, left, 3 * LINE, figure.get_figwidth() - left - 0.3, VECTORS_HEIGHT - 5 * LINE)
    ends = before.copy()
    ends[list(moved)] = after
    before, ends, explained = _in_the_plane(before, ends)
    counts = Counter(tokens)
    repeated = [token for token, count in counts.items() if count > 1]
    labels, colours = [], []
    for position, token in enumerate(tokens):
        is_repeated = token in repeated
        labels.append(f"{token} ({position})" if is_repeated else token)
        colours.append(f"C{repeated.index(token)}" if is_repeated else "0.4")
    for position, (start, end, colour) in enumerate(zip(before, ends, colours, strict=True)):
        axes.plot(*start, ".", color=colour)
        if position in moved:
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.7, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", end, start, arrowprops=arrow)
    axes.update_datalim(ends)
    axes.margins(0.08)
    axes.autoscale_view()
    inch = 72 / figure.dpi
    points, leftwards = axes.transData.transform(ends) * inch, ends[:, 0] < before[:, 0]
    offsets = _free_places(points, leftwards, labels, axes.bbox.x0 * inch, axes.bbox.x1 * inch)
    for end, label, colour, offset in zip(ends, labels, colours, offsets, strict=True):
        axes.annotate(label, end, offset, textcoords="offset points", color=colour, parse_math=False, path_effects=HALO)
    axes.set_title(f"{title}; words that occur twice have a colour")
    axes.set_xlabel(f"first principal component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({explained[1]:.0%})")
    axes.grid()


def _free_places(
    points: Floats, leftwards: NDArray[np.bool_], labels: Sequence[str], left: float, right: float
) -> list[tuple[float, float]]:
    """Where labels go, seen from their points, so that none lies on another or sticks out at the sides.

    Where there is no such place, the one that sticks out least. If it can be, before the head of an arrow, which points
    leftwards or not. All in points of 1/72 inch.
    """
    line = FONT_SIZE + 2.0
    taken: list[tuple[float, float, float]] = []  # left, right, bottom
    offsets = []

    def cost(place: tuple[float, float, float]) -> tuple[float, bool]:
        start, end, bottom = place
        sticks_out = max(left - start, 0.0) + max(end - right, 0.0)
        return sticks_out, any(start < b and a < end and abs(bottom - c) < line for a, b, c in taken)

    for (x, y), is_leftwards, label in zip(points, leftwards, labels, strict=True):
        width = 72 * _width(label)
        starts = sorted((x + 3, x - 3 - width), reverse=not is_leftwards)
        bottoms = [y + line * (step - 0.3) for step in (0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5)]
        place = min(((start, start + width, bottom) for bottom in bottoms for start in starts), key=cost)
        taken.append(place)
        offsets.append((place[0] - x, place[2] - y))
    return offsets


def _in_the_plane(before: Floats, after: Floats) -> tuple[Floats, Floats, Floats]:
    """Both (tokens, dimension) on the two principal components of all of them: each (tokens, 2).

    Also the part of the variance that each component explains: (2,).
    """
    vectors = np.concatenate((before, after)).astype(np.float64)
    vectors = np.pad(vectors - vectors.mean(axis=0), ((0, 0), (0, 2)))  # two components, even of a single number
    _, sizes, directions = np.linalg.svd(vectors, full_matrices=False)
    flat = vectors @ directions[:2].T
    return flat[: len(before)], flat[len(before) :], sizes[:2] ** 2 / max((sizes**2).sum(), TINY)


def _longest(tokens: Sequence[str]) -> float:
    """The width of the widest token in inches."""
    return max(map(_width, set(tokens))) + 0.1


def _width(text: str) -> float:
    """In inches, written as labels of maps are."""
    plain = text.replace("$", "S")  # no mathematics
    return float(TextPath((0, 0), plain, size=FONT_SIZE).get_extents().width) / 72


def _add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """In inches from the figure's lower left corner."""
    x, y = figure.get_figwidth(), figure.get_figheight()
    return figure.add_axes((left / x, bottom / y, width / x, height / y))


def _line(axes: Axes, history: History, key: str, label: str, colour: str, style: str) -> None:
    epochs = [entry["epoch"] for entry in history]
    marker = "." if len(history) == 1 else None  # a line of one point is not seen
    axes.plot(epochs, [entry[key] for entry in history], style, color=colour, label=label, marker=marker)


def _mark_best(axes: Axes, history: History, key: str, colour: str) -> None:
    best = min(history, key=lambda entry: float(entry["valid_loss"]))
    label = f"best: {best[key]:.3g} in epoch {best['epoch']}"
    axes.plot(best["epoch"], best[key], "o", color=colour, fillstyle="none", markersize=9, label=label)


def _palette() -> Floats:
    """The colours of `draw_inspection`: (colours, 3), from 0 to 1, not more than the 256 that a PNG can name."""
    levels = colormaps["Blues"].resampled(LEVELS)(np.arange(LEVELS))[:, :3]
    greys = np.repeat(np.linspace(0.0, 1.0, 36)[:, None], 3, axis=1)
    strengths = np.linspace(0.0, 1.0, 12)[:, None]  # from white: edges of lines and letters
    tints = [1.0 - strengths * (1.0 - np.array(to_rgb(f"C{index}"))) for index in range(10)]
    return np.concatenate((levels, greys, *tints))


def _save(figure: Figure, path: Path, palette: Floats | None = None) -> None:
    """palette: (colours, 3), where the picture's colours are known: a third of the size."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    if palette is not None:
        colours = Image.new("P", (1, 1))
        colours.putpalette((255 * palette).round().astype(np.uint8).tobytes())
        reduced = Image.open(picture).convert("RGB").quantize(palette=colours, dither=Image.Dither.NONE)
        picture = io.BytesIO()
        reduced.save(picture, format="png", optimize=True)
    write_bytes(path, picture.getvalue())
