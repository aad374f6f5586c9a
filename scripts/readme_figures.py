"""Prints each figure of README.md's section "Results" beside the line of the record from which it comes.

tests/unit/readme_figures.txt names the record of each and words of its line; tests/unit/test_docs.py compares them.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]

for source in (ROOT / "tests/unit/readme_figures.txt").read_text(encoding="utf-8").splitlines():
    figure, record, words = source.split(" ", 2)
    path = ROOT / f"docs/records/{record}.md"
    lines = path.read_text(encoding="utf-8").splitlines()
    number, line = next((at, each) for at, each in enumerate(lines, start=1) if words in each)
    print(f"{figure:>6}  {path.relative_to(ROOT)}:{number}: {line}")
