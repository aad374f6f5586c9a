"""Attention weights as heat maps; the maps of a block share their tokens. Knows no layers, no heads and no files.

All sizes are in inches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from transformer_cli.inspection.style import DPI, LINE, PAGE_WIDTH, Floats, add_axes, text_width, weight_colours

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
