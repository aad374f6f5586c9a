"""scripts/benchmark.py: what it prints, and that each kind of section still runs. No figure is judged."""

import json
from pathlib import Path

import pytest

import benchmark
from measure import commands, figures
from measure.figures import Figure
from transformer_cli.config.load import load_config
from transformer_cli.system.terminal import table


def test_benchmark_table_has_a_row_for_each_figure_with_its_ratio_and_its_mark() -> None:
    train = Figure("train", "float32", "target tokens/s", 3000.0, 1500.0)
    lines = table([benchmark.HEAD, *map(benchmark._row, (train, Figure("greedy", "other", "s", 0.123)))])
    assert lines.split("\n") == [
        "figure                     unit   ours  reference  ratio  mark",
        "train: float32  target tokens/s  3,000      1,500      2   ≥ 2",
        "greedy: other                 s  0.123",
    ]


def test_benchmark_section_that_cannot_be_measured_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmark.main(["--only", "greedy", "--only", "start"])
    reason = "runs/: no run yet; `tfm train` makes one (or name one)"
    assert capsys.readouterr().out.endswith(f"greedy: not measured: {reason}\nstart: not measured: {reason}\n")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux only")
def test_benchmark_runs_each_kind_of_section(
    corpus: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With configs of our own in place of Multi30k's."""
    tiny = str(corpus / "tiny.yaml")
    sections = ["greedy", "ctranslate2", "busy", "train", "memory"]
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(figures, "PAUSE_S", 0.0)
    monkeypatch.setattr(benchmark, "load_config", lambda path=tiny: load_config(path))
    monkeypatch.setattr(
        benchmark, "training_memory", lambda name, data: commands.training_memory(name, data, "--config", tiny)
    )
    monkeypatch.setattr(commands, "STEPS", 3)
    benchmark.main(["--json", *(word for section in sections for word in ("--only", section))])
    found = json.loads(capsys.readouterr().out)
    assert found["not_measured"] == {}
    assert {each["section"] for each in found["figures"]} == set(sections)
    marked = {key for key in benchmark.MARKS if key[0] in ("greedy", "ctranslate2")}
    assert marked <= {(each["section"], each["name"]) for each in found["figures"]}
    alike = {each["name"]: each["ours"] for each in found["figures"] if each["unit"] == "%"}
    assert alike["the same translations as the reference"] == alike["the same translations, float32"] == 100
    assert alike["the same translations, int8"] > 80
