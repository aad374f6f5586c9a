"""scripts/benchmark.py: its table has figures, ratios and marks."""

from pathlib import Path

import pytest

import benchmark
from measure.figures import Figure
from transformer_cli.system.terminal import format_table


def test_benchmark_table_has_figures_ratios_and_marks() -> None:
    train = Figure("train", "float32", "target tokens/s", 3000.0, 1500.0)
    lines = format_table([benchmark.HEAD, *map(benchmark._row, (train, Figure("greedy", "other", "s", 0.123)))])
    assert lines.split("\n") == [
        "figure                     unit   ours  reference  ratio  mark",
        "train: float32  target tokens/s  3,000      1,500      2   ≥ 2",
        "greedy: other                 s  0.123",
    ]


def test_benchmark_section_not_measured_names_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmark.main(["--only", "greedy", "--only", "start"])
    reason = "runs/: no run yet; `tfm train` makes one (or name one)"
    assert capsys.readouterr().out.endswith(f"greedy: not measured: {reason}\nstart: not measured: {reason}\n")
