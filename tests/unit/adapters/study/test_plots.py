"""Learning curves and attention: what is drawn, not how it looks."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from transformer_cli.adapters.study import plots
from transformer_cli.adapters.study.inspection import Inspection, WordAttention
from transformer_cli.adapters.study.plots import draw_attention, draw_curves, draw_inspection, draw_words
from transformer_cli.model.attention import RecordedAttention


def history(*losses: float) -> list[dict[str, Any]]:
    keys = ("epoch", "step", "learning_rate", "train_loss", "valid_loss", "valid_ppl")
    rows = ((epoch, 10 * epoch, 1 / epoch, loss + 0.5, loss, 2**loss) for epoch, loss in enumerate(losses, start=1))
    return [dict(zip(keys, row, strict=True)) for row in rows]


def heights(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def laid_out(figure: Figure) -> Figure:
    """The same figure, laid out as if it had been saved; that takes a part of the time of pixels."""
    with plots.plot_style():
        figure.draw_without_rendering()
    return figure


def test_draw_curves_shows_loss_perplexity_rate_and_the_best() -> None:
    drawn = laid_out(draw_curves({"mine": history(3.0, 1.0, 2.0)}))
    loss, perplexity, rate, _ = drawn.axes
    lines = {line.get_linestyle(): heights(line) for line in loss.lines}
    assert lines == {":": [3.5, 1.5, 2.5], "-": [3.0, 1.0, 2.0], "None": [1.0]}
    assert [heights(line) for line in perplexity.lines] == [[8.0, 2.0, 4.0], [2.0]]
    assert [heights(line) for line in rate.lines] == [[1.0, 1 / 2, 1 / 3]]
    assert [axes.get_xlabel() for axes in drawn.axes] == ["epoch"] * 4
    labels = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert labels == ["mine: 1 in epoch 2", "training", "validation", "best validation loss"]
    assert drawn.bbox.width > 1000
    assert drawn.bbox.height > 300
    large = laid_out(draw_curves({"mine": history(12.0, 9.0)})).axes[1]  # perplexities of 4096 and 512
    assert {1000, 2000, 5000} <= {*large.get_yticks()}


def test_draw_curves_shows_rate_and_gradient_of_single_steps() -> None:
    entries = history(3.0, 1.0)
    for entry, steps in zip(entries, ((5, 10), (15,)), strict=True):
        entry["steps"] = [{"step": step, "learning_rate": step / 100, "gradient_norm": 1 / step} for step in steps]
    _, _, rate, norm = laid_out(draw_curves({"mine": entries})).axes
    assert [np.asarray(line.get_xdata()).tolist() for line in (*rate.lines, *norm.lines)] == [[0.5, 1.0, 1.5]] * 2
    assert [heights(line) for line in (*rate.lines, *norm.lines)] == [[0.05, 0.1, 0.15], [1 / 5, 1 / 10, 1 / 15]]


def test_draw_curves_several_validations_per_epoch_by_step() -> None:
    one, other = history(3.0, 1.0, 2.0), history(2.0)
    for step, entry in zip((500, 1000, 1500), one, strict=True):
        entry.update(epoch=1, step=step)
    drawn = laid_out(draw_curves({"mine": one, "other": [{**other[0], "step": 700}]}))
    assert [axes.get_xlabel() for axes in drawn.axes] == ["step"] * 4
    assert np.asarray(drawn.axes[0].lines[0].get_xdata()).tolist() == [500, 1000, 1500]
    assert drawn.legends[0].get_texts()[0].get_text() == "mine: 1 at step 1,000"


def test_draw_curves_several_runs_look_different() -> None:
    names = ("runs/a\x1b[31m", "runs/\udcff", "runs/$x", "runs/\u200f", *map(str, range(5)))
    drawn = laid_out(draw_curves({name: history(3.0 - index / 9, 2.0) for index, name in enumerate(names)}))
    looks = [(line.get_color(), line.get_marker()) for line in drawn.axes[1].lines[::2]]  # without rings
    assert len(set(looks)) == 9
    assert [(line.get_color(), line.get_marker()) for line in drawn.legends[0].get_lines()[:9]] == looks
    legend = drawn.legends[0].get_window_extent()
    boxes = [box for axes in drawn.axes if (box := axes.get_tightbbox())]
    assert len(boxes) == 4
    assert max(box.x1 for box in boxes) <= legend.x0  # beside the plots
    assert_nothing_is_cut_off_or_of_another_size(drawn)


SOURCE = ["<sos>", "ein", "$x$", "_", "ein", "donaudampfschifffahrtsgesellschaft", "<eos>"]
TARGET = ["<sos>", "a", "$x$", "<unk>"]


@pytest.fixture
def inspection() -> Inspection:
    """Random numbers: two layers of six heads, seven source tokens, four target tokens."""
    chance = torch.Generator().manual_seed(0)

    def layers(target: list[str], source: list[str]) -> list[RecordedAttention]:
        scores = [torch.randn(6, len(target), len(source), generator=chance) for _ in range(2)]
        return [RecordedAttention(each, each.softmax(-1)) for each in scores]

    encoder, decoder = layers(SOURCE, SOURCE), layers(TARGET, TARGET)
    return Inspection(
        sentence="Ein …",
        translation="a …",
        source_tokens=SOURCE,
        source_ids=list(range(7)),
        target_tokens=TARGET,
        target_ids=list(range(4)),
        attention={"encoder": encoder, "decoder": decoder, "cross": layers(TARGET, SOURCE)},
        without_positions=torch.randn(7, 8, generator=chance),
        stages={name: torch.randn(7, 8, generator=chance) for name in ("source_embedding", "encoder")},
    )


def test_draw_inspection_heads_share_one_colour_scale(inspection: Inspection) -> None:
    drawn = laid_out(draw_inspection(inspection, inspection.maps(["encoder", "cross"], layer=1)))
    maps = [axes for axes in drawn.axes if axes.images]
    assert [axes.get_title() for axes in maps] == [f"head {head}" for head in range(1, 7)] * 2
    for index, axes in enumerate(maps):
        (shown,) = axes.images
        layer = inspection.attention["encoder" if index < 6 else "cross"][0]
        assert np.array_equal(np.asarray(shown.get_array()), layer.weights[index % 6].numpy())
        assert shown.get_clim() == (0.0, 1.0)
    beside = [[label.get_text() for label in axes.get_yticklabels()] for axes in maps]
    assert [beside[index] for index in (0, 3)] == [SOURCE] * 2  # the first of each row
    assert [beside[index] for index in (6, 9)] == [TARGET] * 2
    below = [[label.get_text() for label in axes.get_xticklabels()] for axes in maps]
    assert [below[index] for index in (3, 4, 5)] == [SOURCE] * 3  # of each column
    assert_nothing_is_cut_off_or_of_another_size(drawn)
    encoder, cross, _ = drawn.subfigs
    assert (encoder.get_supylabel(), cross.get_supylabel()) == ("source position …", "target position …")
    assert encoder.get_supxlabel() == cross.get_supxlabel() == "… attends to source position"


@pytest.mark.parametrize(
    ("name", "start", "times"),
    [("x.svg", b"<?xml", 2), ("x.pdf", b"%PDF", 2), ("x.PNG", b"\x89PNG", 1), ("/dev/stdout", b"\x89PNG", 1)],
)
def test_save_format_follows_extension(
    inspection: Inspection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: bytes, times: int
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(plots, "write_bytes", lambda path, content, follow: written.append(content))
    for _ in range(times):
        plots.save(draw_attention(inspection.maps(["cross"], heads=[1])), tmp_path / name)
    assert written[0].startswith(start)
    assert written[0] == written[-1]  # the same picture is the same bytes


def test_draw_inspection_repeated_words_share_colour(inspection: Inspection) -> None:
    maps = inspection.maps(["cross"], heads=[1])
    drawn = laid_out(draw_inspection(inspection, maps))
    vectors = drawn.axes[-1]
    colours = {text.get_text(): text.get_color() for text in vectors.texts if text.get_text()}
    assert list(colours) == ["<sos>", "ein (1)", "$x$", "_", "ein (4)", SOURCE[5], "<eos>"]
    assert colours["ein (1)"] == colours["ein (4)"] != colours["$x$"] == colours["<sos>"]
    assert len([text for text in vectors.texts if not text.get_text()]) == len(vectors.lines) == 7
    alone = laid_out(draw_attention(maps))  # the same map
    assert len(alone.axes) == len(drawn.axes) - 1
    one, other = (figure.axes[0] for figure in (drawn, alone))
    assert one.get_title() == other.get_title() == "head 1"
    assert np.array_equal(np.asarray(one.images[0].get_array()), np.asarray(other.images[0].get_array()))
    for figure in (drawn, alone):
        assert_nothing_is_cut_off_or_of_another_size(figure)


WORDS = ["the", "cat", "$x$", "the", "donaudampfschifffahrtsgesellschaft"]


def word_attention(words: list[str], positions: list[int], dimension: int = 6) -> WordAttention:
    vectors = torch.randn(len(words), dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = vectors[positions] @ vectors.T
    weights = scores.softmax(-1)
    return WordAttention(words, [], positions, True, vectors, scores, weights, weights @ vectors)


def test_draw_words_has_heat_map_and_all_words() -> None:
    positions = [0, 3]
    words = word_attention(WORDS, positions)
    drawn = laid_out(draw_words(words))
    laid_out(draw_words(word_attention(["a"], [0], 1)))  # which spans no plane
    heat_map, _, vectors = drawn.axes
    assert heat_map.get_title() == "softmax(QKᵀ/√6)"
    assert np.array_equal(np.asarray(heat_map.images[0].get_array()), words.weights.numpy())
    assert [label.get_text() for label in heat_map.get_yticklabels()] == [WORDS[position] for position in positions]
    assert [label.get_text() for label in heat_map.get_xticklabels()] == WORDS
    labels = [text.get_text() for text in vectors.texts if text.get_text()]
    assert labels == ["the (0)", "cat", "$x$", "the (3)", WORDS[4]]
    assert len(vectors.lines) == len(WORDS)
    assert len([text for text in vectors.texts if not text.get_text()]) == len(positions)  # arrows
    boxes = [Text.get_window_extent(text) for text in vectors.texts if text.get_text()]
    assert sum(one.shrunk(0.9, 0.7).overlaps(other) for one, other in combinations(boxes, 2)) == 0
    assert_nothing_is_cut_off_or_of_another_size(drawn)


ODD = [
    *(("\u200d", "\u200d"), ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧")),  # joiner of emoji
    *(("\x1b[31m", "\\x1b[31m"), ("\udcff", "\\xff"), ("a\nb", "a\\nb"), ("$\\frac{", "$\\frac{")),
    *(("\U0010ffff", "\U0010ffff"), ("a" * 4000, "a" * 49 + "…")),  # the first is not a character
]


def test_draw_words_unusual_tokens_fit(caplog: pytest.LogCaptureFixture) -> None:
    tokens, labels = (list(each) for each in zip(*ODD, strict=True))
    drawn = laid_out(draw_words(word_attention(tokens, [0, 5])))
    heat_map, _, vectors = drawn.axes
    assert [label.get_text() for label in heat_map.get_xticklabels()] == labels
    assert [text.get_text() for text in vectors.texts if text.get_text()] == labels
    (message,) = caplog.messages
    assert message.startswith("no font here has ")
    assert "👨" in message


def assert_nothing_is_cut_off_or_of_another_size(figure: Figure) -> None:
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() and text.get_visible()]
    assert len(texts) > 10
    assert {text.get_fontsize() for text in texts} == {9}
    drawn_in, page = figure.get_tightbbox(), figure.bbox_inches
    assert page.x0 <= drawn_in.x0 <= drawn_in.x1 <= page.x1
    assert page.y0 <= drawn_in.y0 <= drawn_in.y1 <= page.y1
