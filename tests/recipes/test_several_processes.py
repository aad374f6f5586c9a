"""torchrun: two processes train as one does, go on where one stopped, and one goes on where two were killed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from transformer_cli.config.load import load_config
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import train

TrainTiny = Callable[..., Run]

# 66 sentences are short enough: in the second step of an epoch one process has nothing to do.
# eps: some gradients are 0 but for rounding, and Adam would make steps of learning_rate of them.
SETTINGS = ("model.max_length=9", "training.batch_size=65", "model.dropout=0.0", "training.eps=1e-2")
# 13 sentences four times; then 13 and one, of which one process has two parts and the other one. The first alone reads
# the vectors.
ACCUMULATED = (
    *SETTINGS,
    "training.batch_size=13",
    "training.accumulate=4",
    "training.epochs=2",
    "training.average=2",
    "model.vectors.freeze=true",
)
# Each process cuts the text anew, and all cut it alike.
SAMPLED = (*SETTINGS, "model.max_length=48", "data.subwords.dropout=0.1", "training.epochs=2")
VECTORS = "".join(f"{word} {' '.join([number] * 32)}\n" for word, number in (("the", "0.5"), ("at", "-0.25")))
KILLED_IN_ITS_FOURTH_STEP = """\
import os, signal
from pathlib import Path
from transformer_cli.commands.app import main
from transformer_cli.config.load import load_config
from transformer_cli.training.trainer import Trainer, train

train(load_config({config!r}, {accumulated!r}), runs_dir=Path("accumulated"))
train(load_config({subwords!r}, {sampled!r}), data_dir=Path({subword_data!r}), runs_dir=Path("sampled"))
step = Trainer.step

def die(trainer, batches):
    if trainer.world.rank == 1 and trainer.state.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(trainer, batches)

Trainer.step = die
main()
"""
RANK_1_HAS_NO_DATA = """\
import os
from pathlib import Path
from transformer_cli.commands.app import main

if os.environ["RANK"] == "1":
    Path("elsewhere").mkdir()
    Path("elsewhere/runs").symlink_to(Path("runs").absolute())
    os.chdir("elsewhere")
main()
"""
RANK_1_DIES_ONCE = """\
import os, signal
import torch
from transformer_cli.commands.app import main
from transformer_cli.training.trainer import Trainer

step = Trainer.step

def die(trainer, batches):
    if os.environ["RANK"] == "1" and trainer.state.step == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    step(trainer, batches)
    if os.environ["RANK"] == "1" and trainer.state.step in (6, 7):  # as if it had rounded differently
        bias = trainer.learner.model.output.bias.detach()
        bias[0] = torch.nextafter(bias[0], torch.tensor(9.0))

Trainer.step = die
main()
"""
RANK_1_FINDS_DAMAGE = """\
from transformer_cli.commands.app import main
from transformer_cli.errors import DataError
from transformer_cli.training.trainer import Trainer

step = Trainer.step

def fail(trainer, batches):
    if trainer.world.rank == 1:
        raise DataError("train.ids.npy: damaged")
    return step(trainer, batches)

Trainer.step = fail
main()
"""


def torchrun(*arguments: object, cwd: Path, config: Path, overrides: tuple[str, ...]) -> tuple[int, list[str]]:
    """`tfm train` in two processes: (exit code, lines of standard error)."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    command += ["train", "--config", config]
    for override in overrides:
        command += ["--set", override]
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    return done.returncode, done.stderr.splitlines()


def history(run: Path) -> list[dict[str, Any]]:
    """All but the seconds."""
    entries = map(json.loads, (run / "history.jsonl").read_text(encoding="utf-8").splitlines())
    return [{key: value for key, value in entry.items() if not key.endswith("_seconds")} for entry in entries]


def test_the_number_of_processes_changes_nothing_but_rounding(
    train_tiny: TrainTiny, corpus: Path, project: Path, subword_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to(project / "data")
    config, subwords = corpus / "tiny.yaml", corpus / "subwords.yaml"
    script = tmp_path / "killed.py"
    (tmp_path / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    accumulated = (*ACCUMULATED, f"model.vectors.target={tmp_path / 'vectors.txt'}")
    killed = KILLED_IN_ITS_FOURTH_STEP.format(
        config=str(config),
        accumulated=accumulated,
        subwords=str(subwords),
        sampled=SAMPLED,
        subword_data=str(subword_data),
    )
    script.write_text(killed, encoding="utf-8")
    run = tmp_path / "runs/tiny"

    code, lines = torchrun(script, cwd=tmp_path, config=config, overrides=(*SETTINGS, "training.save_minutes=1e-9"))
    assert code == 1
    lost = (
        "tfm: error: rank 0: another process of this job has ended or died; "
        "start the same command again: it goes on from the last save"
    )
    assert [line for line in lines if line.startswith("tfm: ")] == [lost], lines
    assert lines.count("Traceback (most recent call last):") == 1, lines  # torchrun's
    assert (run / "last").read_text(encoding="utf-8") == "step-0000003\n"

    train_tiny(tmp_path / "runs", *SETTINGS, "training.epochs=3")
    code, lines = torchrun(
        "-m", "transformer_cli", cwd=tmp_path, config=config, overrides=(*SETTINGS, "training.epochs=4")
    )
    assert code == 0, lines
    said = ("warning: train", "warning: valid", "tiny: ", "resuming from the save at step 6 ", "epoch 4/4", "best ")
    assert len(lines) == len(said), lines  # once, not once by each
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True)), lines

    assert_same_but_for_rounding(run, train_tiny(tmp_path / "alone", *SETTINGS, "training.epochs=4"), steps=8)
    alone = train_tiny(tmp_path / "accumulated alone", *accumulated)
    assert_same_but_for_rounding(tmp_path / "accumulated/tiny", alone, steps=4)
    averages = [
        json.loads((each / "checkpoints/average-0000004/average.json").read_text(encoding="utf-8"))
        for each in (tmp_path / "accumulated/tiny", alone.folder)
    ]
    assert [each.pop("epochs") for each in averages] == [[1, 2], [1, 2]]
    assert averages[0] == pytest.approx(averages[1], rel=1e-5)
    sampled = train(load_config(subwords, SAMPLED), data_dir=subword_data, runs_dir=tmp_path / "sampled alone")
    assert_same_but_for_rounding(tmp_path / "sampled/tiny", sampled, steps=8)
    assert int(load_file(alone.checkpoint("last") / "model.safetensors")["target_embedding.frozen"].sum()) == 2


def test_a_reason_that_only_one_process_knows_is_said(corpus: Path, project: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(project / "data")
    script = tmp_path / "without_data.py"
    script.write_text(RANK_1_HAS_NO_DATA, encoding="utf-8")
    code, lines = torchrun(script, cwd=tmp_path, config=corpus / "tiny.yaml", overrides=())
    assert code == 1
    (said,) = [line for line in lines if line.startswith("tfm: ")]
    assert said.startswith("tfm: error: rank 1: data/: no dataset files de→en with fingerprint "), lines


def test_a_reason_that_one_process_finds_while_it_trains_is_said_first(
    corpus: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to(project / "data")
    script = tmp_path / "damaged.py"
    script.write_text(RANK_1_FINDS_DAMAGE, encoding="utf-8")
    code, lines = torchrun(script, cwd=tmp_path, config=corpus / "tiny.yaml", overrides=())
    assert code == 1
    assert next(line for line in lines if line.startswith("tfm: ")) == "tfm: error: rank 1: train.ids.npy: damaged"


def test_what_dies_is_started_again_and_goes_on_from_the_last_save(
    train_tiny: TrainTiny, corpus: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to(project / "data")
    script = tmp_path / "dies.py"
    script.write_text(RANK_1_DIES_ONCE, encoding="utf-8")
    overrides = (*SETTINGS, "training.epochs=4")
    saving = (*overrides, "training.save_minutes=1e-9")
    config = corpus / "tiny.yaml"
    code, lines = torchrun("--max-restarts", 1, script, cwd=tmp_path, config=config, overrides=saving)
    assert code == 0, lines
    assert any(line.startswith("resuming from the save at step 3 ") for line in lines), lines
    differ = "warning: the processes' weights are not the same at step 6: "
    assert [line.startswith(differ) for line in lines if "weights are not" in line] == [True], lines
    alone = train_tiny(tmp_path / "alone", *overrides)
    assert_same_but_for_rounding(tmp_path / "runs/tiny", alone, steps=8)


def assert_same_but_for_rounding(run: Path, alone: Run, *, steps: int) -> None:
    assert history(run)[-1]["step"] == steps
    for found, expected in zip(history(run), history(alone.folder), strict=True):
        assert found == pytest.approx(expected, rel=1e-5)
    for name in ("model", "state"):
        path = f"checkpoints/step-{steps:07d}/{name}.safetensors"
        found, expected = load_file(run / path), load_file(alone.folder / path)
        assert found.keys() == expected.keys()
        assert max(float((found[key].double() - expected[key].double()).abs().max()) for key in found) < 1e-5
