"""Draws learning curves, attention and token vectors. Only this module uses matplotlib.

In this order: style and `save`, learning curves, heat maps, vectors, pictures of a sentence. matplotlib does the
layout; this module only computes the size of the page, in inches. Does not know models or the files of a run.
"""

import io
import logging
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from transformer_cli.adapters.study.picture_files import picture_format
from transformer_cli.system.files import write_bytes
from transformer_cli.system.terminal import display_width, escape_controls, shorten

if TYPE_CHECKING:
    from transformer_cli.adapters.study.inspection import AttentionMap, Inspection, WordAttention

Floats = NDArray[np.floating[Any]]

log = logging.getLogger(__name__)

DPI = 110
VECTOR_DPI = 300  # of heat maps in SVG and PDF
MAX_PIXELS = 8_000  # of the longer side; larger pictures get a lower resolution
# Okabe and Ito (2008), for the colour-blind, too; without yellow, which is too faint on white
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
FONT = "DejaVu Sans"  # part of matplotlib
FONT_SIZE = 9  # points
LINE_HEIGHT, LETTER_WIDTH = 0.22, 0.08  # inches: the height of a line of text, the width of most letters
MAX_LABEL_CHARS = 50  # characters of a token that are shown
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), FONT_SIZE),
    **dict.fromkeys(("legend.fontsize", "figure.titlesize", "figure.labelsize"), FONT_SIZE),
    "grid.alpha": 0.3,
    "text.parse_math": False,  # a token may be "$"
    "pdf.fonttype": 42,  # text that can be searched for and edited
    "svg.hashsalt": "tfm",  # equal pictures are equal files
}
GLYPH_WARNINGS = r"Glyph \d+ .*missing|Matplotlib currently does not support"  # two of matplotlib's warnings


@contextmanager
def plot_style(texts: Iterable[str] = ()) -> Iterator[None]:
    """Within the block, draw in our style; warns of characters in texts (the user's) that no font has."""
    families, missing = font_families(texts)
    with rc_context({**STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=GLYPH_WARNINGS)
        yield
    if missing:
        log.warning("no font here has %s: drawn as boxes", " ".join(missing))


def font_families(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns font families for texts, in the order of preference, and the characters that none of them has.

    matplotlib takes each character from the first of these families that has it, but does not look for other families.
    """
    fonts = {
        font.name: font.fname
        for font in fontManager.ttflist
        if font.style == "normal" and str(font.weight) in ("400", "normal", "regular")
    }
    missing = {character for text in texts for character in text if character.isprintable()} - _characters(fonts[FONT])
    families = [FONT]
    for name, path in sorted(fonts.items()):
        # the font Last Resort has a box for every character
        if missing and "Last Resort" not in name and missing & _characters(path):
            families.append(name)
            missing -= _characters(path)
    return families, sorted(missing)


@lru_cache(256)
def _characters(path: str) -> frozenset[str]:
    """Returns the characters of a font; none if it cannot be read, or has bitmaps instead of outlines."""
    try:
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (OSError, RuntimeError, AttributeError):
        return frozenset()


def save(figure: Figure, path: Path, *, follow: bool = True) -> None:
    """Write an SVG, PDF or PNG atomically, by the extension of path. Raises DataError for any other.

    follow: see `atomic_file`.
    """
    picture = io.BytesIO()
    kind = picture_format(path)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with plot_style():
        figure.savefig(picture, format=kind, dpi="figure" if kind == "png" else VECTOR_DPI, metadata=undated.get(kind))
    write_bytes(path, picture.getvalue(), follow=follow)


POINT_MARKERS = "os^DvPX<>"  # 9, so that with 7 colours 63 runs look different
CURVES_WIDTH, CURVES_HEIGHT = 16.0, 3.6  # inches
BEST_MARKER: dict[str, Any] = {"marker": "o", "markersize": 9.0, "fillstyle": "none", "linestyle": ""}


def draw_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw loss, perplexity, learning rate and the norm of the gradient before clipping, of one or several runs.

    The x-axis is the epoch, or the step if an epoch has several validations. histories: the name of a run → its
    validations, as in history.jsonl, at least one per run.
    """
    by = "epoch"
    if any(len({entry["epoch"] for entry in history}) < len(history) for history in histories.values()):
        by = "step"
    with plot_style(histories):
        legend, has_extra = [], False
        figure = Figure(dpi=DPI, layout="constrained")
        loss, perplexity, rate, norm = figure.subplots(1, 4)
        for index, (run, history) in enumerate(histories.items()):
            look: dict[str, Any] = {
                "color": COLOURS[index % len(COLOURS)],
                "marker": POINT_MARKERS[index % len(POINT_MARKERS)],
                "markersize": 4.5,
            }
            places = [entry[by] for entry in history]
            losses = ((loss, key) for key in ("train_loss", "valid_loss", "extra_valid_loss"))
            for axes, key in (*losses, (perplexity, "valid_ppl")):
                # a single epoch has no line, so that only hollow markers show that this is the training loss
                form: dict[str, Any] = {"linestyle": ":", "fillstyle": "none"} if key == "train_loss" else {}
                values = np.array([entry.get(key) for entry in history], dtype=float)  # NaN where there is none
                if key == "extra_valid_loss":
                    if np.isnan(values).all():
                        continue
                    form, has_extra = {"linestyle": "--", "fillstyle": "none"}, True
                axes.plot(places, values, **look, **form, markevery=-(-len(places) // 12))
            steps = [each for entry in history for each in entry.get("steps", ())] or history
            ends, places = ([0.0, *(entry[key] for entry in history)] for key in ("step", by))
            at = np.interp([each["step"] for each in steps], ends, places)
            for axes, key in ((rate, "learning_rate"), (norm, "gradient_norm")):
                axes.plot(at, [each.get(key, math.nan) for each in steps], color=look["color"])
            best = min(history, key=lambda entry: float(entry["valid_loss"]))
            loss.plot(best[by], best["valid_loss"], color=look["color"], **BEST_MARKER)
            perplexity.plot(best[by], best["valid_ppl"], color=look["color"], **BEST_MARKER)
            place = f"{'in' if by == 'epoch' else 'at'} {by} {best[by]:,}"
            label = f"{escape_controls(run)}: {best['valid_loss']:.3g} {place}"
            legend.append(Line2D([], [], label=label, **look))
        legend += [Line2D([], [], linestyle=":", label="training", color="0.4")]
        legend += [Line2D([], [], label="validation", color="0.4")]
        legend += [Line2D([], [], linestyle="--", label="extra validation text", color="0.4")] * has_extra
        legend += [Line2D([], [], label="best validation loss", color="0.4", **BEST_MARKER)]
        titles = ("loss per target token, nats", "perplexity", "learning rate", "gradient norm")
        for axes, title in zip((loss, perplexity, rate, norm), titles, strict=True):
            axes.set_title(title, loc="left", weight="bold")
            axes.set_xlabel(by)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            _clean_axes(axes)
        rate.set_ylim(bottom=0.0)
        rate.yaxis.set_major_formatter("{x:g}")
        norm.set_ylim(bottom=0.0)
        perplexity.set_yscale("log")
        low, high = perplexity.get_ylim()
        if high / low < 5:
            perplexity.yaxis.set_major_locator(MaxNLocator(5))
        else:  # ticks at 1, 2 and 5 only fit into at most four decades
            perplexity.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 1e4 else (1,), numticks=9))
        perplexity.yaxis.set_minor_locator(NullLocator())
        perplexity.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.4g}")
        legend_width = LETTER_WIDTH * max(display_width(str(line.get_label())) for line in legend) + 0.7
        figure.set_size_inches(CURVES_WIDTH + legend_width, max(CURVES_HEIGHT, LINE_HEIGHT * (len(legend) + 2)))
        figure.legend(handles=legend, loc="outside right upper", frameon=False)
    return figure


def draw_sweep(rates: Floats, losses: Floats, marks: Mapping[str, float]) -> Figure:
    """Draw the losses of steps by their learning rate. marks: name → rate of a vertical line."""
    with plot_style():
        figure = Figure((6.0, CURVES_HEIGHT), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        axes.semilogx(rates, losses, color=COLOURS[0])
        for (name, rate), colour in zip(marks.items(), COLOURS[1:], strict=False):
            axes.axvline(rate, color=colour, linestyle="--", label=f"{name}: {rate:g}")
        axes.set(xlabel="learning rate", ylabel="loss per target token, nats")
        axes.legend(frameon=False)
        _clean_axes(axes)
    return figure


def _clean_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid()


CELL_SIZE, GAP = 0.16, 0.15  # inches: the least size of a token's row or column; the space between maps
MIN_MAP_SIZE = 1.1  # inches, for the labels of the axes
MIN_PAGE_WIDTH, MAX_PAGE_WIDTH = 9.0, 16.0  # inches; a single map may be wider
COLORBAR_WIDTH = 0.9  # inches, with its numbers
VECTORS_HEIGHT = 6.5  # inches


@dataclass(frozen=True)
class MapGroup:
    """Maps of the same tokens in a grid: targets are labelled once per row of the grid, sources once per column."""

    title: str
    row_label: str
    column_label: str
    targets: list[str]
    sources: list[str]
    maps: list[tuple[str, Floats]]
    """each map's title and weights (target, source)"""


def draw_maps(groups: Sequence[MapGroup], *, n_more: int = 0) -> tuple[Figure, list[SubFigure]]:
    """Returns a figure with the groups one below the other, then n_more empty parts, each VECTORS_HEIGHT high.

    The page has the width of four maps of the longest sentence, up to MAX_PAGE_WIDTH. A group has as few rows as
    possible, and then as few columns: where 7 maps fit side by side, 8 maps are 2 rows of 4.
    """
    margin = max(_label_length(group.targets) for group in groups) + 2 * LINE_HEIGHT
    narrowest = [max(CELL_SIZE * len(group.sources), MIN_MAP_SIZE) for group in groups]
    of_four = max(min(4, len(group.maps)) * (least + GAP) - GAP for group, least in zip(groups, narrowest, strict=True))
    room = max(MIN_PAGE_WIDTH - margin - COLORBAR_WIDTH, min(of_four, MAX_PAGE_WIDTH), *narrowest)
    shapes, heights = [], []
    for group, least in zip(groups, narrowest, strict=True):
        rows = math.ceil(len(group.maps) / max(1, int((room + GAP) / (least + GAP))))
        columns = math.ceil(len(group.maps) / rows)
        column = ((room + GAP) / columns - GAP) / len(group.sources)
        row = max(min(column, 2 * CELL_SIZE), CELL_SIZE)  # square, but at most twice as high as needed
        is_upright = _label_length(group.sources) > column  # labels that are too wide are rotated
        label_height = _label_length(group.sources) if is_upright else LINE_HEIGHT
        map_height = max(row * len(group.targets), MIN_MAP_SIZE)
        heights.append(rows * (map_height + LINE_HEIGHT + GAP) + label_height + 3 * LINE_HEIGHT)
        shapes.append((rows, columns, is_upright))
    heights += [VECTORS_HEIGHT] * n_more
    size = (margin + room + COLORBAR_WIDTH, sum(heights))
    figure = Figure(size, dpi=min(DPI, MAX_PIXELS / max(size)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0].tolist()
    for part, group, shape in zip(parts, groups, shapes, strict=False):
        _draw_map_group(part, group, *shape)
    return figure, parts[len(groups) :]


def _draw_map_group(part: SubFigure, group: MapGroup, rows: int, columns: int, is_upright: bool) -> None:
    part.suptitle(group.title, x=0.01, ha="left", weight="bold")
    part.supylabel(group.row_label)
    part.supxlabel(group.column_label)
    grid = part.subplots(rows, columns, squeeze=False).ravel().tolist()
    maps = grid[: len(group.maps)]
    for axes in grid[len(maps) :]:
        axes.remove()
    for index, (axes, (title, weights)) in enumerate(zip(maps, group.maps, strict=True)):
        image = axes.imshow(weights, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
        axes.set_title(title, pad=3)
        axes.set(xticks=[], yticks=[])
        if index % columns == 0:
            axes.set_yticks(range(len(group.targets)), group.targets)
        if index + columns >= len(maps):  # the last of its column
            axes.set_xticks(range(len(group.sources)), group.sources, rotation=90 if is_upright else 0)
    thin = 5 * part.bbox.height / part.dpi  # a fifth of an inch, or less
    part.colorbar(image, ax=maps, label="attention weight", fraction=0.02, pad=0.01, aspect=thin)


def _label_length(tokens: Sequence[str]) -> float:
    """Returns the approximate width of the widest token in inches, with some space."""
    return LETTER_WIDTH * max(map(display_width, tokens)) + 0.1


HALO = [withStroke(linewidth=2, foreground="white")]  # keeps a word legible on an arrow


def draw_vectors(
    groups: Sequence[MapGroup],
    *,
    title: str,
    tokens: Sequence[str],
    before: Floats,
    moved: Sequence[int],
    after: Floats,
) -> Figure:
    """Draw groups of maps, and below them a dot for each token, and an arrow to its new place if it moved.

    before (tokens, dimension), after (moved tokens, dimension). moved: the positions of the moved tokens.
    """
    from transformer_cli.adapters.study.inspection import project_2d  # imports torch, which curves do not need

    figure, (part,) = draw_maps(groups, n_more=1)
    axes = part.subplots()
    ends = before.copy()
    ends[list(moved)] = after
    flat, explained = project_2d(np.concatenate((before, ends)))
    before, ends = flat[: len(before)], flat[len(before) :]
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    labels = []
    for position, (token, start, end) in enumerate(zip(tokens, before, ends, strict=True)):
        is_repeated = token in repeated
        colour = COLOURS[repeated.index(token) % len(COLOURS)] if is_repeated else "0.4"
        axes.plot(*start, ".", color=colour)
        if position in moved:
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.7, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", end, start, arrowprops=arrow)
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        look: dict[str, Any] = {"color": colour, "path_effects": HALO, "arrowprops": leader, "in_layout": False}
        name = f"{token} ({position})" if is_repeated else token
        labels.append(axes.annotate(name, end, (4, 4), textcoords="offset points", **look))
    axes.update_datalim(ends)
    axes.margins(0.08)
    axes.autoscale_view()
    axes.set_title(f"{title}; repeated words have a colour")
    axes.set_xlabel(f"first principal component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({explained[1]:.0%})")
    _clean_axes(axes)
    figure.draw_without_rendering()  # computes places and sizes
    _place_labels(axes, labels, ends)
    return figure


def _place_labels(axes: Axes, labels: Sequence[Annotation], ends: Floats) -> None:
    """Move each label to the nearest place around its arrow's head where it covers no arrow head or earlier label.

    Places are on ellipses, inside the axes. If all are covered, the label goes to the least covered one. Lengths are in
    points of 1/72 inch; boxes are (left, bottom, right, top).
    """
    inch = 72 / axes.figure.dpi
    points = axes.transData.transform(ends) * inch
    frame = np.asarray(axes.bbox.extents) * inch
    taken = np.concatenate((points - 2.0, points + 2.0), axis=1)
    distance, angle = np.meshgrid(np.arange(0.0, 9.0, 0.5), np.linspace(0.0, 2 * np.pi, 24, endpoint=False))
    distance, along, up = distance.T.ravel(), np.cos(angle).T.ravel(), np.sin(angle).T.ravel()  # the nearest first
    for label, point in zip(labels, points, strict=True):
        extent = Text.get_window_extent(label)  # without the line
        size = np.array((extent.width, extent.height)) * inch
        left = along * (4.0 + distance * size[1]) + (along - 1.0) * size[0] / 2
        moves = np.stack((left, (up * distance - 0.4) * size[1]), axis=1)
        boxes = np.concatenate((point + moves, point + moves + size), axis=1)
        overlap = np.minimum(boxes[:, None, 2:], taken[:, 2:]) - np.maximum(boxes[:, None, :2], taken[:, :2])
        covered = np.prod(np.maximum(overlap, 0.0), axis=2).sum(axis=1)
        outside = np.maximum(frame[:2] - boxes[:, :2], 0.0) + np.maximum(boxes[:, 2:] - frame[2:], 0.0)
        best = int(np.argmin(covered + 1000.0 * outside.sum(axis=1)))  # of equal ones the nearest
        taken = np.concatenate((taken, boxes[best : best + 1]))
        label.xyann = tuple(moves[best])


def draw_attention(maps: Sequence["AttentionMap"]) -> Figure:
    """Draw attention weights as heat maps.

    maps: at least one; maps of the same kind are neighbours, as `Inspection.maps` returns them.
    """
    with plot_style([text for each in maps for text in (*each.target_tokens, *each.source_tokens)]):
        return draw_maps(_map_groups(maps))[0]


def draw_inspection(inspection: "Inspection", maps: Sequence["AttentionMap"]) -> Figure:
    """Draw attention weights, and below them the source's vectors in two dimensions."""
    with plot_style([*inspection.source_tokens, *inspection.target_tokens]):
        return draw_vectors(
            _map_groups(maps),
            title="source vectors, from before the encoder (dot) to after it (arrow head)",
            tokens=_labels(inspection.source_tokens),
            before=inspection.before.numpy(),
            moved=range(len(inspection.source_tokens)),
            after=inspection.after.numpy(),
        )


def draw_words(words: "WordAttention") -> Figure:
    """Draw the attention among word vectors, and below it the vectors in two dimensions."""
    labels = _labels(words.words)
    formula = f"softmax(QKᵀ/√{words.vectors.shape[1]})" if words.is_scaled else "softmax(QKᵀ)"
    group = MapGroup(
        title="attention of word vectors to one another, without a model (Q = K = V)",
        row_label="word …",
        column_label="… attends to word",
        targets=[labels[position] for position in words.positions],
        sources=labels,
        maps=[(formula, words.weights.numpy())],
    )
    with plot_style(words.words):
        return draw_vectors(
            [group],
            title="word vectors (dot) and the outputs of attention (arrow head)",
            tokens=labels,
            before=words.vectors.numpy(),
            moved=words.positions,
            after=words.context.numpy(),
        )


def _map_groups(maps: Sequence["AttentionMap"]) -> list[MapGroup]:
    """Returns a group for each kind of attention."""
    groups = []
    for kind, group in groupby(maps, key=lambda each: each.kind):
        heads = list(group)
        rows, columns = "source" if kind == "encoder" else "target", "target" if kind == "decoder" else "source"
        groups.append(
            MapGroup(
                title=heads[0].title,
                row_label=f"{rows} position …",
                column_label=f"… attends to {columns} position",
                targets=_labels(heads[0].target_tokens),
                sources=_labels(heads[0].source_tokens),
                maps=[(f"head {each.head}", each.weights.numpy()) for each in heads],
            )
        )
    return groups


def _labels(tokens: Sequence[str]) -> list[str]:
    """Returns tokens as labels: long ones are shortened, and control characters are made visible."""
    return [escape_controls(shorten(token, MAX_LABEL_CHARS)) for token in tokens]
