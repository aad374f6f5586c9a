"""Learning curves of one run, or of several laid over each other, with the legend beside them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from transformer_cli.inspection.style import COLOURS, DPI, LINE, drawing, save, text_width, visible

History = Sequence[Mapping[str, Any]]

MARKERS = "os^DvPX<>"  # another number than of colours, so that 63 runs differ in one or the other
PLOTS_WIDTH, HEIGHT = 12.0, 3.6  # inches
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
        size = (PLOTS_WIDTH + beside, max(HEIGHT, LINE * (len(legend) + 2)))
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
