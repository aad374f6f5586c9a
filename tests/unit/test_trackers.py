"""The callbacks for trackers in docs/train.md, where the trackers are installed: offline, into files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/train.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
OFFLINE = {"WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": "file:mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}


@pytest.fixture
def example(request: pytest.FixtureRequest) -> str:
    """The example for the tracker that is the test's parameter. Skips the test if it is not installed."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    (found,) = (each for each in EXAMPLE.findall(PAGE.read_text(encoding="utf-8")) if f"import {request.param}" in each)
    return str(found)


def train_twice(example: str, workspace: Path, corpus: Path) -> list[dict[str, Any]]:
    """Runs an example with the tiny run, of two epochs, then of three. Returns the run's history."""
    for epochs in (2, 3):
        config = f'load_config("{corpus}/tiny.yaml", name="tracked", training={{"epochs": {epochs}, "patience": None}})'
        program = example.replace('load_config("demo-captions")', config)
        assert program != example
        command, environment = [sys.executable, "-c", program], {**os.environ, **OFFLINE, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    lines = (workspace / "runs/tracked/history.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("example", ["mlflow"], indirect=True)
def test_mlflow_example_logs_validations_and_steps(example: str, workspace: Path, corpus: Path) -> None:
    """The second run of the tracker, of the resumed training, has all figures from the beginning."""
    history = train_twice(example, workspace, corpus)
    written = sorted((workspace / "mlruns").rglob("metrics/valid_loss"), key=lambda path: len(path.read_text()))
    found = [[line.split() for line in path.read_text().splitlines()] for path in written]
    wanted = [(each["step"], each["valid_loss"]) for each in history]
    assert [[(int(step), float(loss)) for _, loss, step in lines] for lines in found] == [wanted[:2], wanted]
    assert (written[1].parent / "gradient_norm").read_text().count("\n") == sum(len(each["steps"]) for each in history)


@pytest.mark.parametrize("example", ["wandb"], indirect=True)
def test_wandb_example_logs_validations_and_steps(example: str, workspace: Path, corpus: Path) -> None:
    """Numbers are JSON in W&B's files of offline runs."""
    history = train_twice(example, workspace, corpus)
    files = sorted((path.read_bytes() for path in (workspace / "wandb").glob("offline-run-*/*.wandb")), key=len)
    for content, validations in zip(files, (history[:2], history), strict=True):
        for each in validations:
            assert json.dumps(each["valid_loss"]).encode() in content
            assert json.dumps(each["steps"][0]["gradient_norm"]).encode() in content
