"""Draws the learning curve from results.jsonl: python draw.py CURVE.svg

Each point is a run with the weights of its last step, searched greedily, with its 95 % interval.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

TEXT = (Path(__file__).parent / "results.jsonl").read_text(encoding="utf-8")
COLOUR = "#0b62a4"


def is_point(row: dict) -> bool:
    """Whether a row belongs to the curve: a run of the rule on the page, or the demo."""
    is_last = row["name"].endswith("-curve") or row["name"] == "demo" or (row["name"], row["step"]) == LAST_OF_2000
    return is_last and row["split"] == "test_2016_flickr" and row["beam_size"] == 1


LAST_OF_2000 = ("de-en-2000-s1-prepare", 690)
points = [row for row in map(json.loads, TEXT.splitlines()) if "step" in row and is_point(row)]
sizes = sorted({row["pairs"] for row in points})
scores = {size: [row["bleu"] for row in points if row["pairs"] == size] for size in sizes}

plt.rcParams.update({"font.size": 10, "svg.hashsalt": "little-text", "svg.fonttype": "none"})
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(sizes, [sum(scores[size]) / len(scores[size]) for size in sizes], color=COLOUR)
for row in points:
    shift = 1.02 if row["seed"] == 2 else 1  # so that two seeds do not hide each other
    axes.errorbar(
        row["pairs"] * shift,
        row["bleu"],
        yerr=row["bleu_half_interval"],
        color=COLOUR,
        fmt="o",
        markersize=4,
        capsize=3,
        linewidth=1,
    )
axes.set_xscale("log")
axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
axes.minorticks_off()
axes.set_ylim(0, 40)
axes.set_xlabel("pairs of training text")
axes.set_ylabel("BLEU on test_2016_flickr, German→English")
axes.grid(alpha=0.3)
figure.savefig(sys.argv[1], metadata={"Date": None})
