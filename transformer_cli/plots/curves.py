"""Learning curves of one run, or of several laid over each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from transformer_cli.plots.style import DPI, drawing, save, visible

History = Sequence[Mapping[str, Any]]


def draw_curves(histories: Mapping[str, History], path: Path) -> None:
    """Draw loss, perplexity and learning rate by epoch, for one run or for several laid over each other.

    histories: a run's name → its validations, as in history.jsonl, at least one per run. Replaces `path` by a PNG.
    """
    with drawing(path):
        figure = Figure(figsize=(13, 4), dpi=DPI, layout="constrained")
        loss, perplexity, rate = figure.subplots(1, 3)
        for index, (run, history) in enumerate(histories.items()):
            name = visible(run).replace("$", r"\$")  # else a legend would typeset mathematics
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
        save(figure, path)


def _line(axes: Axes, history: History, key: str, label: str, colour: str, style: str) -> None:
    epochs = [entry["epoch"] for entry in history]
    marker = "." if len(history) == 1 else None  # a line with a single point is invisible
    axes.plot(epochs, [entry[key] for entry in history], style, color=colour, label=label, marker=marker)


def _mark_best(axes: Axes, history: History, key: str, colour: str) -> None:
    best = min(history, key=lambda entry: float(entry["valid_loss"]))
    label = f"best: {best[key]:.3g} in epoch {best['epoch']}"
    axes.plot(best["epoch"], best[key], "o", color=colour, fillstyle="none", markersize=9, label=label)
