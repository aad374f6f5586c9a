"""A run that was killed or stopped, and goes on by the same command, ends like one that was not: bit for bit."""

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from forked import Forks
from kinds import Tfm
from outcomes import outcome
from transformer_cli.data.dataset import Rows
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import Trainer

OFTEN = ("--set", "training.save_minutes=0.0005")  # several times in an epoch


def last_step(run: Path) -> int:
    """The step of the last save, 0 before the first."""
    pointer = run / "last"
    return int(pointer.read_text(encoding="utf-8").split("-")[1]) if pointer.exists() else 0


def kill_training(forks: Forks, step: int, *, cwd: Path, config: Path) -> tuple[int, str]:
    """Train in a process of its own, killed at the first save from `step` on: (exit code, standard error)."""
    process = forks.start("train", "--config", config, *OFTEN, cwd=cwd)
    with suppress(ProcessLookupError):  # it has ended
        while last_step(cwd / "runs/tiny") < step:
            os.kill(process, 0)
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
    return forks.end(), (cwd / "err.txt").read_text(encoding="utf-8")


def test_train_killed_again_and_again_equals_one_never_killed(
    tfm: Tfm, forks: Forks, corpus: Path, tiny: Run, prepared: Path
) -> None:
    run, config = prepared / "runs/tiny", corpus / "tiny.yaml"
    for step in (2, 17):  # in the first and in the second epoch
        resumed_from = last_step(run)
        code, err = kill_training(forks, step, cwd=prepared, config=config)
        assert code == -signal.SIGKILL, err
        assert re.findall(r"resuming from the save at step (\d+) ", err) == [str(resumed_from)] * (resumed_from > 0)
        assert step <= last_step(run) < 78
    step = last_step(run)
    code, _, err = tfm("train", "--config", config, cwd=prepared)
    assert code == 0
    assert f"resuming from the save at step {step} " in err
    found = outcome(Run.open(run))
    assert found == outcome(tiny)
    assert {path.name for path in (run / "checkpoints").iterdir()} == {found["best"], found["last"]}


def test_train_fresh_signalled_saves_and_goes_on_without_fresh(
    tfm: Tfm, corpus: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ("--config", corpus / "tiny.yaml", "--set", "training.epochs=1")
    step = Trainer.step

    def signalled(trainer: Trainer, batches: Sequence[Rows]) -> None:
        if trainer.state.step == 6:
            signal.raise_signal(signal.SIGTERM)
        step(trainer, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", signalled)
        code, _, err = tfm("train", "--fresh", *config, cwd=prepared)
    assert code == 143
    assert err.endswith("\ntfm: stopped and saved at step 7; the same command without --fresh goes on\n")
    code, _, err = tfm("train", *config, cwd=prepared)
    assert code == 0
    assert "resuming from the save at step 7 (epoch 1, 7 batches into it)" in err
    assert "in epoch 1 of 1" in err
