"""Token vectors in the plane of their two principal components, with an arrow to where each of them moves."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from transformer_cli.plane import in_the_plane
from transformer_cli.plots.style import FONT_SIZE, LINE, Floats, add_axes, text_width

HEIGHT = 6.5  # inches
HALO = [withStroke(linewidth=2, foreground="white")]  # keeps a word legible on an arrow


def draw_vectors(
    figure: Figure, *, title: str, tokens: Sequence[str], before: Floats, moved: Sequence[int], after: Floats
) -> None:
    """Draw at the foot of a figure: a dot for each token, and an arrow from each token that moved to its new place.

    before (tokens, dimension). moved: the positions of the tokens that have a row in after (moved, dimension).
    """
    left = 0.8
    axes = add_axes(figure, left, 3 * LINE, figure.get_figwidth() - left - 0.3, HEIGHT - 5 * LINE)
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
        axes.annotate(label, end, offset, textcoords="offset points", color=colour, parse_math=False, path_effects=HALO)
    axes.set_title(f"{title}; words that occur twice have a colour")
    axes.set_xlabel(f"first principal component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({explained[1]:.0%})")
    axes.grid()


def _labels_and_colours(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns each token's label and colour. A token that occurs twice has its position in the label, and a colour."""
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    labels = [f"{token} ({position})" if token in repeated else token for position, token in enumerate(tokens)]
    return labels, [f"C{repeated.index(token)}" if token in repeated else "0.4" for token in tokens]


def _free_places(
    axes: Axes, ends: Floats, leftwards: NDArray[np.bool_], labels: Sequence[str]
) -> list[tuple[float, float]]:
    """Returns where labels go, as offsets from their arrows' ends; if possible, no label covers another or sticks out.

    A label preferably goes in front of its arrow's head; if no place is free, it goes where it sticks out least.
    leftwards: which arrows point to the left. Offsets are in points of 1/72 inch.
    """
    inch = 72 / axes.figure.dpi
    points = axes.transData.transform(ends) * inch
    left, right = axes.bbox.x0 * inch, axes.bbox.x1 * inch
    line = FONT_SIZE + 2.0
    taken: list[tuple[float, float, float]] = []  # left, right, bottom
    offsets = []

    def cost(place: tuple[float, float, float]) -> tuple[float, bool]:
        start, end, bottom = place
        sticks_out = max(left - start, 0.0) + max(end - right, 0.0)
        return sticks_out, any(start < b and a < end and abs(bottom - c) < line for a, b, c in taken)

    for (x, y), is_leftwards, label in zip(points, leftwards, labels, strict=True):
        width = 72 * text_width(label)
        starts = sorted((x + 3, x - 3 - width), reverse=not is_leftwards)
        bottoms = [y + line * (step - 0.3) for step in (0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5)]
        place = min(((start, start + width, bottom) for bottom in bottoms for start in starts), key=cost)
        taken.append(place)
        offsets.append((place[0] - x, place[2] - y))
    return offsets
