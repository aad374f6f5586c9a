"""As torchrun starts them, two processes train as one does, go on where one stopped, and one where two were killed."""

import json
import socket
from pathlib import Path

import pytest
from safetensors.torch import load_file

from forked import Forks
from kinds import TrainTiny
from outcomes import outcome
from transformer_cli.runs.run import Run

# 66 sentences are short enough: in the second step of an epoch one process has nothing to do.
# eps: some gradients are 0 but for rounding, and Adam would make steps of learning_rate of them.
SETTINGS = ("model.max_length=9", "training.batch_size=65", "model.dropout=0.0", "training.eps=1e-2")
# 13 sentences four times; then 13 and one, of which one process has two parts and the other one. The first alone reads
# the vectors.
ACCUMULATED = (
    *("model.max_length=9", "model.dropout=0.0", "training.eps=1e-2", "training.batch_size=13"),
    *("training.gradient_accumulation_steps=4", "training.epochs=2", "training.average_checkpoints=2"),
    "model.vectors.freeze=true",
)
# Each process cuts the text anew, and all cut it alike.
VECTORS = "".join(f"{word} {' '.join([number] * 32)}\n" for word, number in (("the", "0.5"), ("at", "-0.25")))
TWO_PROCESSES = """\
import os, signal

signal.alarm(600)  # in case that they wait for each other
os.environ.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
started = []
for rank in range(2):
    if not (process := os.fork()):
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        break
    started.append(process)
else:
    os._exit(any([os.wait()[1] for _ in started]))
"""
BEFORE_A_STEP = """
from transformer_cli.errors import DataError
from transformer_cli.training.trainer import Trainer

step = Trainer.step

def disturbed(trainer, batches):
    rank, number = trainer.world.rank, trainer.state.step
    DISTURB
    step(trainer, batches)

Trainer.step = disturbed
"""
RANK_1_IS_KILLED = BEFORE_A_STEP.replace("DISTURB", "(rank, number) == (1, 3) and os.kill(os.getpid(), signal.SIGKILL)")
BOTH_ARE_KILLED = BEFORE_A_STEP.replace("DISTURB", "number == 5 and os.kill(os.getpid(), signal.SIGKILL)")  # in epoch 2
RANK_1_HAS_NO_DATA = """
if rank == 1:
    os.mkdir("elsewhere")
    os.symlink(os.path.abspath("runs"), "elsewhere/runs")
    os.chdir("elsewhere")
"""
RANK_1_FINDS_DAMAGE = BEFORE_A_STEP.replace("DISTURB", "if rank == 1: raise DataError('train.ids.npy: damaged')")


def train_two(
    forks: Forks, cwd: Path, config: Path, overrides: tuple[str, ...], before: str = ""
) -> tuple[int, list[str]]:
    """`tfm train` in two processes: (exit code, lines of standard error). before: what both run first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ("train", "--config", config, *(part for override in overrides for part in ("--set", override)))
    code, _, err = forks.run(*command, cwd=cwd, before=TWO_PROCESSES.format(port=port) + before)
    return code, err.splitlines()


def beside(data: Path, folder: Path) -> Path:
    """A new working folder with these datasets."""
    folder.mkdir(exist_ok=True)
    (folder / "data").symlink_to(data)
    return folder


def test_two_processes_equal_one_up_to_rounding(
    train_tiny: TrainTiny, forks: Forks, corpus: Path, project: Path, tmp_path: Path
) -> None:
    config = corpus / "tiny.yaml"
    folder = beside(project / "data", tmp_path / "together")
    run = folder / "runs/tiny"

    code, lines = train_two(forks, folder, config, (*SETTINGS, "training.save_minutes=1e-9"), RANK_1_IS_KILLED)
    assert code == 1
    lost = (
        "tfm: error: rank 0: another process of this job has ended or died; "
        "run the same command again: it resumes from the last checkpoint"
    )
    assert lines[-1] == lost, lines
    assert not any(line.startswith("Traceback") for line in lines), lines
    assert (run / "last").read_text(encoding="utf-8") == "step-0000003-unvalidated\n"

    train_tiny(folder / "runs", *SETTINGS, "training.epochs=3")
    code, lines = train_two(forks, folder, config, (*SETTINGS, "training.epochs=4"))
    assert code == 0, lines
    warned = ("warning: train: left out", "warning: valid: left out", "tiny: ", "warning: valid: 13 pairs")
    said = (*warned, "resuming from the checkpoint at step 6 ", "epoch 4/4", "best ")
    assert len(lines) == len(said), lines  # once, not once by each
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True)), lines
    assert_same_but_for_rounding(run, train_tiny(tmp_path / "alone", *SETTINGS, "training.epochs=4"), steps=8)


def test_two_processes_accumulate_and_average_as_one(
    train_tiny: TrainTiny, forks: Forks, corpus: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    accumulated = (*ACCUMULATED, f"model.vectors.target={tmp_path / 'vectors.txt'}")
    folder = beside(project / "data", tmp_path / "together")
    code, lines = train_two(forks, folder, corpus / "tiny.yaml", accumulated)
    assert code == 0, lines
    alone = train_tiny(tmp_path / "alone", *accumulated)
    assert_same_but_for_rounding(folder / "runs/tiny", alone, steps=4)
    averages = [
        json.loads((each / "checkpoints/average-0000004/average.json").read_text(encoding="utf-8"))
        for each in (folder / "runs/tiny", alone.folder)
    ]
    assert [each.pop("epochs") for each in averages] == [[1, 2], [1, 2]]
    one, other = ({key: value for key, value in each.items() if value is not None} for each in averages)
    assert one == pytest.approx(other, rel=1e-5)
    assert len(json.loads((alone.folder / "frozen_rows.json").read_text())["target"]) == 2


def test_two_processes_with_shards_resume_exactly(forks: Forks, corpus: Path, project: Path, tmp_path: Path) -> None:
    shards = ("training.shards=2", "training.batch_size=67", "training.epochs=2", "training.save_minutes=1e-9")
    folders = [beside(project / "data", tmp_path / name) for name in ("whole", "killed")]
    whole, killed, resumed = (
        train_two(forks, folder, corpus / "tiny.yaml", shards, before)
        for folder, before in ((folders[0], ""), (folders[1], BOTH_ARE_KILLED), (folders[1], ""))
    )
    assert [code for code, _ in (whole, killed, resumed)] == [0, 1, 0], (whole, killed, resumed)
    assert any(line.startswith("resuming from the checkpoint at step 5 (epoch 2, 2 ") for line in resumed[1]), resumed
    assert not any("weights are not the same" in line for _, lines in (whole, resumed) for line in lines)
    one, other = (outcome(Run.open(folder / "runs/tiny")) for folder in folders)
    assert one == other


@pytest.mark.parametrize(
    ("before", "reason"),
    [(RANK_1_HAS_NO_DATA, "data/: no dataset files de→en with "), (RANK_1_FINDS_DAMAGE, "train.ids.npy: damaged")],
)
def test_two_processes_print_the_error_of_one(
    forks: Forks, corpus: Path, project: Path, tmp_path: Path, before: str, reason: str
) -> None:
    folder = beside(project / "data", tmp_path)
    code, lines = train_two(forks, folder, corpus / "tiny.yaml", (), before)
    assert code == 1
    assert any(line.startswith(f"tfm: error: rank 1: {reason}") for line in lines), lines


def assert_same_but_for_rounding(run: Path, alone: Run, *, steps: int) -> None:
    histories = [outcome(each)["history"] for each in (Run.open(run), alone)]
    assert histories[0][-1]["step"] == steps
    for found, expected in zip(*histories, strict=True):
        single = zip(found.pop("steps"), expected.pop("steps"), strict=True)
        assert all(one == pytest.approx(other, rel=1e-4) for one, other in single)
        assert found.pop("examples") == expected.pop("examples")
        assert found == pytest.approx(expected, rel=1e-5)
    for name in ("model", "state"):
        path = f"checkpoints/step-{steps:07d}/{name}.safetensors"
        found, expected = load_file(run / path), load_file(alone.folder / path)
        assert found.keys() == expected.keys()
        assert max(float((found[key].double() - expected[key].double()).abs().max()) for key in found) < 1e-5
