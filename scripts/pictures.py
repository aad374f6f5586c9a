"""Draws docs/pictures.png: every picture in its hard case, with made-up numbers, on one contact sheet.

python scripts/pictures.py [FOLDER] keeps the single pictures in FOLDER, and draws the sheet there too.
"""

import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont

from transformer_cli.inspection.numbers import Inspection
from transformer_cli.inspection.plots import draw_curves, draw_inspection
from transformer_cli.model.attention import RecordedAttention

SHEET = Path(__file__).parents[1] / "docs/pictures.png"
WIDTH, MARGIN, LINE = 900, 16, 26  # pixels: of a picture on the sheet, between pictures, of a caption
GERMAN = "ein alter Mann mit einem Hut und ein Kind sitzen neben einem Hund in einem Park und essen ein Eis ; der Hund"


def history(losses: list[float], learning_rate: float = 5e-4) -> list[dict[str, Any]]:
    return [
        {
            "epoch": epoch,
            "train_loss": loss + 0.6 * math.exp(-epoch / 3) - 0.1 * epoch / len(losses),
            "valid_loss": loss,
            "valid_ppl": math.exp(loss),
            "learning_rate": learning_rate,
        }
        for epoch, loss in enumerate(losses, start=1)
    ]


def inspection(source: list[str], target: list[str], heads: int = 4) -> Inspection:
    """Random attention along the diagonal, and random vectors."""
    chance = torch.Generator().manual_seed(0)
    source, target = ["<sos>", *source, "<eos>"], ["<sos>", *target]

    def layer(rows: list[str], columns: list[str], is_causal: bool = False) -> list[RecordedAttention]:
        at = torch.arange(len(rows))[:, None] / len(rows) - torch.arange(len(columns)) / len(columns)
        scores = torch.randn(heads, len(rows), len(columns), generator=chance) - 60 * at**2
        if is_causal:
            scores = scores.masked_fill(torch.ones(len(rows), len(columns)).triu(1).bool(), -math.inf)
        return [RecordedAttention(scores, scores.softmax(-1))]

    vectors = [torch.randn(len(source), 8, generator=chance) for _ in range(4)]
    ids = [0] * len(source), [0] * len(target)
    layers = layer(source, source), layer(target, target, True), layer(target, source)
    return Inspection(" ".join(source), " ".join(target), source, ids[0], target, ids[1], *layers, *vectors)


def sentence(source: str, target: str, heads: list[int], kinds: list[Any]) -> Callable[[Path], None]:
    found = inspection(source.split(), target.split())
    return lambda path: draw_inspection(found, found.maps(kinds, heads=heads), path)


def cases() -> dict[str, Callable[[Path], None]]:
    """Returns what draws each hard case, by its caption."""
    nine = {
        f"runs/try-{index}": history(
            [3 + 2 * math.exp(-epoch / 4) - 0.12 * index * (index not in (3, 4, 5)) for epoch in range(12)],
            1e-3 / (1 + index // 3),
        )
        for index in range(9)
    }
    decades = [9.2 * math.exp(-epoch / 8) + 1.6 + 0.004 * epoch for epoch in range(40)]
    forty = " ".join((GERMAN.split() * 2)[:40])
    every: list[Any] = ["encoder", "decoder", "cross"]
    return {
        "curves: 1 epoch": lambda path: draw_curves({"runs/demo": history([3.1])}, path),
        "curves: three decades of perplexity": lambda path: draw_curves({"runs/long": history(decades)}, path),
        "curves: 9 runs, some of which coincide": lambda path: draw_curves(nine, path),
        "inspect: 40 source tokens, 5 target tokens": sentence(forty, "a man eats ice .", [], every),
        "inspect: 27 tokens": sentence(" ".join((GERMAN.split() * 2)[:27]), "an old man with a hat", [1], ["cross"]),
        "inspect: joined emoji and Hebrew": sentence(
            "👨\u200d👩\u200d👧 כלב רץ על החוף", "a dog runs 👩\u200d🚀", [1, 2], ["cross"]
        ),
        "inspect: Chinese": sentence("两 只 狗 在 雪 地 上 玩耍 。", "two dogs play in the snow .", [1, 2], ["cross"]),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if sys.argv[1:] else Path(temporary)
        drawn = []
        for index, (caption, draw) in enumerate(cases().items(), start=1):
            path = folder / f"{index}.png"
            draw(path)
            picture = Image.open(path).convert("RGB")
            size = (WIDTH, round(picture.height * WIDTH / picture.width))
            drawn.append((caption, picture.resize(size, Image.Resampling.LANCZOS)))
        sheet(drawn).save(folder / "pictures.png" if sys.argv[1:] else SHEET, optimize=True)


def sheet(pictures: list[tuple[str, Image.Image]]) -> Image.Image:
    """Returns the pictures with their captions in two columns, each picture in the column that is shorter so far."""
    heights = [MARGIN, MARGIN]
    places = []
    for _, picture in pictures:
        column = heights.index(min(heights))
        places.append((MARGIN + column * (WIDTH + MARGIN), heights[column]))
        heights[column] += LINE + picture.height + MARGIN
    page = Image.new("RGB", (2 * WIDTH + 3 * MARGIN, max(heights)), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(16)
    for (caption, picture), (left, top) in zip(pictures, places, strict=True):
        pen.text((left, top), caption, fill="#333333", font=font)
        page.paste(picture, (left, top + LINE))
    return page


if __name__ == "__main__":
    main()
