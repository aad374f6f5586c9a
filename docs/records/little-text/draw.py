"""Draws the learning curves from results.jsonl: python draw.py CURVE.svg

Each point is a run with the weights of its last step, searched greedily, with its 95 % interval. The lines join the
means of the seeds.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROWS = [json.loads(row) for row in (Path(__file__).parent / "results.jsonl").read_text(encoding="utf-8").splitlines()]
LAST_OF_2000 = ("de-en-2000-s1-prepare", 690)
LINES = {"de": ("German→English", "#0b62a4", 0.985), "en": ("English→German", "#c25700", 1.015)}


def is_point(row: dict) -> bool:
    """Whether a row belongs to the curve: a run of the rule on the page, or the demo."""
    is_last = row["name"].endswith("-curve") or row["name"] == "demo" or (row["name"], row.get("step")) == LAST_OF_2000
    return is_last and row["split"] == "valid" and row["beam_size"] == 1


points = [row for row in ROWS if is_point(row)]
sizes = sorted({row["pairs"] for row in points})
plt.rcParams.update({"font.size": 10, "svg.hashsalt": "little-text", "svg.fonttype": "none"})
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for source, (label, colour, shift) in LINES.items():  # shifted, so that intervals do not hide each other
    scores = {size: [row for row in points if (row["source"], row["pairs"]) == (source, size)] for size in sizes}
    scores = {size: rows for size, rows in scores.items() if rows}
    means = [sum(row["bleu"] for row in rows) / len(rows) for rows in scores.values()]
    axes.plot([size * shift for size in scores], means, color=colour, label=label)
    for size, rows in scores.items():
        for number, row in enumerate(rows):
            place = size * shift ** (1 + 2 * number)
            style = {"color": colour, "fmt": "o", "markersize": 4, "capsize": 3, "linewidth": 1}
            axes.errorbar(place, row["bleu"], yerr=row["bleu_half_interval"], **style)
axes.set_xscale("log")
axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
axes.minorticks_off()
axes.set_ylim(0, 40)
axes.set_xlabel("pairs of training text")
axes.set_ylabel("BLEU on the validation split")
axes.grid(alpha=0.3)
axes.legend(frameon=False, loc="upper left")
figure.savefig(sys.argv[1], metadata={"Date": None})
