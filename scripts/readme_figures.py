"""Prints each figure of README.md's section "Results" beside the line of the record from which it comes.

python scripts/readme_figures.py

The exit code is 1 if a figure has no record, or if the record does not have it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {  # figure → record, and words of its line that have the figure, or its inverse (a speed → a time)
    "1.679": ("results", "| 0 | fast | 9 | 1.679 | 1.729 | 5.636 | 1.679 |"),
    "36.04": ("results", "| 1.679 | 35.90 | 36.04 |"),
    "35.90": ("results", "| 1.679 | 35.90 | 36.04 |"),
    "1.671": ("results", "tutorial 6, same set | 1.671 |"),
    "36.52": ("results", "tutorial 6, same set | 1.671 | 5.316 | | | 36.52 |"),
    "40.25": ("results", "| de→en | beam 5 | 39.79 ± 1.59 | 40.00 ± 1.61 | **40.25** |"),
    "40.00": ("results", "| de→en | beam 5 | 39.79 ± 1.59 | 40.00 ± 1.61 |"),
    "42.56": ("results", "| the config | beam 5 | 42.37 ± 1.61 | 61.67 | 42.56 |"),
    "42.37": ("results", "| the config | beam 5 | 42.37 ± 1.61 |"),
    "33.33": ("results", "3 epochs, 136 s | test_2016_flickr | 33.33 ± 1.51 |"),
    "2.23": ("benchmarks", "3,250      1,457   2.23"),
    "2.71": ("benchmarks", "2,344        865    2.71"),
    "41.4": ("benchmarks", "4,373        106    41.4"),
    "1.02": ("benchmarks", "778        793   0.981"),
    "1.09": ("benchmarks", "0.927 and 0.918"),
}


def figures() -> list[str]:
    """Returns the figures of README's section, but for counts of parameters."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Results\n")[2].partition("\n## ")[0]
    return re.findall(r"(?<![\w.])\d+\.\d+(?! M parameters)(?!\d)", section)


def find_source(figure: str) -> str:
    """Returns the place and the line of a figure's record; "" if there is none that has the figure."""
    record, words = SOURCES.get(figure, ("results", "?"))
    numbers = [float(each) for each in re.findall(r"\d+\.\d+", words)]
    digits = len(figure.partition(".")[2])
    path = ROOT / f"docs/records/{record}.md"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if words in line and any(figure in (f"{each:.{digits}f}", f"{1 / each:.{digits}f}") for each in numbers):
            return f"{path.relative_to(ROOT)}:{number}: {line}"
    return ""


if __name__ == "__main__":
    found = {figure: find_source(figure) for figure in figures()}
    for figure, place in found.items():
        print(f"{figure:>6}  {place or 'no record has this figure'}")
    sys.exit(not all(found.values()))
