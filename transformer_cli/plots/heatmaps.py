"""Attention weights as heat maps; the maps of a block share their tokens. Knows no layers, no heads and no files.

All sizes are in inches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from transformer_cli.plots.style import DPI, LINE, PAGE_WIDTH, Floats, add_axes, text_width, weight_colours

COLUMNS = 4  # maps side by side
CELL, GAP = 0.16, 0.12  # a token's row or column; the space between maps
SMALLEST_MAP = (2.1, 1.1)  # room for the names of the axes, however short the sentence
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
    def columns(self) -> int:
        return min(COLUMNS, len(self.maps))

    @property
    def margin(self) -> float:
        """The room for the target tokens, left of the maps."""
        return _longest(self.targets) + 2 * LINE

    @property
    def cell(self) -> float:
        """The size of a token's row and of its column; for a single map, up to twice as much if there is room."""
        room = (PAGE_WIDTH - 2) / len(self.sources)
        return max(CELL, min(2 * CELL, room)) if len(self.maps) == 1 else CELL

    @property
    def map_width(self) -> float:
        return max(self.cell * len(self.sources), SMALLEST_MAP[0])

    @property
    def map_height(self) -> float:
        return max(self.cell * len(self.targets), SMALLEST_MAP[1])

    @property
    def maps_bottom(self) -> float:
        """The distance from the block's top to the bottom of the last row of maps."""
        rows = -(-len(self.maps) // self.columns)
        return LINE + rows * (self.map_height + LINE + GAP)

    @property
    def maps_height(self) -> float:
        """The distance from there up to the top of the first row of maps."""
        return self.maps_bottom - 2 * LINE - GAP

    @property
    def maps_width(self) -> float:
        return self.columns * (self.map_width + GAP)

    @property
    def height(self) -> float:
        return self.maps_bottom + _longest(self.sources) + 2.5 * LINE

    def corners(self) -> Iterator[tuple[float, float]]:
        """Yield each map's left edge, from the block's margin, and its lower edge, down from the block's top."""
        for index in range(len(self.maps)):
            row, column = divmod(index, self.columns)
            down = LINE + (row + 1) * (LINE + GAP + self.map_height)
            yield column * (self.map_width + GAP), down


def draw_blocks(blocks: Sequence[Block], *, room_below: float = 0.0) -> Figure:
    """Returns a figure of blocks, one below the other, with a bar that says what the colours mean.

    room_below: how much space to leave below the blocks for another picture; the figure is then at least a page wide.
    """
    left = max(block.margin for block in blocks)
    bar_left = left + max(block.maps_width for block in blocks) + GAP
    width = bar_left + BAR_ROOM
    height = sum(block.height for block in blocks)
    if room_below:
        width, height = max(width, PAGE_WIDTH), height + room_below
    figure = Figure(figsize=(width, height), dpi=min(DPI, MOST_PIXELS / max(width, height)))
    top = height
    for block in blocks:
        image = _draw_block(figure, block, left, top)
        if block is blocks[0]:
            bar = add_axes(figure, bar_left, top - block.maps_bottom, BAR_WIDTH, block.maps_height)
            figure.colorbar(image, cax=bar, label="attention weight")
        top -= block.height
    return figure


def _draw_block(figure: Figure, block: Block, left: float, top: float) -> AxesImage:
    """left, top: where the first map and the block begin. Returns one of the images: all have the same colours."""
    figure.text(left / figure.get_figwidth(), (top - LINE) / figure.get_figheight(), block.title, weight="bold")
    colours = weight_colours()
    for index, ((title, weights), (right, down)) in enumerate(zip(block.maps, block.corners(), strict=True)):
        axes = add_axes(figure, left + right, top - down, block.map_width, block.map_height)
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


def _longest(tokens: Sequence[str]) -> float:
    """Returns the width of the widest token, with a little space, in inches."""
    return max(map(text_width, set(tokens))) + 0.1
