"""The short form of scripts/torture.py: training and `tfm prepare` are killed, go on, and end as if they never were."""

import subprocess
import sys
from pathlib import Path

import pytest

import torture

SCRIPT = Path(torture.__file__)


@pytest.mark.long  # make test cuts training off before each file (test_trainer.py) and kills it (test_resume.py)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_torture_ends_bit_for_bit_as_without_kills() -> None:
    command = [sys.executable, str(SCRIPT), "--short", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *table, last = done.stdout.splitlines()
    assert first == "torture with --seed 0"
    assert last.startswith("all identical")
    assert sum(line.count("identical") for line in table) > 5


def test_torture_notices_another_weight_another_loss_and_half_a_dataset(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole", tmp_path / "other"
    for folder, seconds, loss in ((whole, 1, 2.5), (other, 9, 2.5)):
        (folder / "data" / "set").mkdir(parents=True)
        (folder / "history.jsonl").write_text(f'{{"train_seconds": {seconds}, "train_loss": {loss}}}\n')
        (folder / "model.safetensors").write_bytes(bytes(8))
        (folder / "data" / "set" / "ids").write_bytes(bytes(8))
    assert torture.differences(whole, other) == torture.half_made(other, whole) == set()
    (other / "history.jsonl").write_text('{"train_seconds": 9, "train_loss": 2.50001}\n')
    (other / "model.safetensors").write_bytes(bytes(7) + b"\1")
    (other / "data" / "set" / "ids").unlink()
    assert torture.differences(whole, other) == {"history.jsonl", "model.safetensors", "data/set/ids"}
    assert torture.half_made(other, whole) == {"data/set/ids"}
