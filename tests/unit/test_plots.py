"""Learning curves: what is drawn, not how it looks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from transformer_cli.plots import draw_curves


def history(*losses: float) -> list[dict[str, Any]]:
    return [
        {"epoch": epoch, "train_loss": loss + 0.5, "valid_loss": loss, "valid_ppl": 2**loss, "learning_rate": 1 / epoch}
        for epoch, loss in enumerate(losses, start=1)
    ]


def heights(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_loss_perplexity_and_rate_are_drawn_and_the_best_is_marked(tmp_path: Path, drawn: list[Figure]) -> None:
    draw_curves({"mine": history(3.0, 1.0, 2.0)}, tmp_path / "curves.png")
    loss, perplexity, rate = drawn[0].axes
    lines = {str(line.get_label()): heights(line) for line in loss.lines}
    assert lines == {"training": [3.5, 1.5, 2.5], "validation": [3.0, 1.0, 2.0], "best: 1 in epoch 2": [1.0]}
    assert [heights(line) for line in perplexity.lines] == [[8.0, 2.0, 4.0], [2.0]]
    assert [heights(line) for line in rate.lines] == [[1.0, 1 / 2, 1 / 3]]
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["epoch"] * 3
    height, width, _ = image.imread(tmp_path / "curves.png").shape
    assert width > 1000
    assert height > 300


def test_several_runs_lie_over_each_other_in_colours_of_their_own(tmp_path: Path, drawn: list[Figure]) -> None:
    draw_curves({"one": history(3.0, 2.0), "two": history(1.0)}, tmp_path / "curves.png")
    loss = drawn[0].axes[0]
    colours = {str(line.get_label()): line.get_color() for line in loss.lines}
    assert colours["one: validation"] == colours["one: training"] != colours["two: validation"]


def test_an_old_picture_is_replaced_only_by_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "curves.png"
    path.write_bytes(b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_curves({"mine": history(1.0)}, path)
    assert path.read_bytes() == b"old"
