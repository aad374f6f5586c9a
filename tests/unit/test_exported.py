"""scripts/exported.py: each of its shapes is one that can be exported, and its row of a tiny run."""

from pathlib import Path

import pytest

import exported
from transformer_cli.config.load import load_config
from transformer_cli.runs.run import Run


def test_its_shapes_are_six_different_ones() -> None:
    shapes = [load_config(exported.CONFIG, overrides).model for overrides in exported.SHAPES.values()]
    assert len({shape.model_dump_json() for shape in shapes}) == 6


def test_a_row_compares_a_run_with_its_exports(tiny: Run, project: Path) -> None:
    row = exported.compared("tiny", tiny, "test", data_dir=project / "data")
    assert (row.sentences, row.same) == (30, 1.0)
    assert 0 < row.log_prob < 5e-3
    assert row.losses[1] == pytest.approx(row.losses[0], rel=1e-5)
    assert row.bleu[0] == row.bleu[1]
    assert row.megabytes[1] < row.megabytes[0]
    assert "tiny" in row.verdict
