"""Token vectors in the plane of their two principal components, with an arrow to where each of them moves."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from transformer_cli.inspection.plane import in_the_plane
from transformer_cli.inspection.style import COLOURS, FONT_SIZE, LINE, Floats, add_axes, text_width

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
