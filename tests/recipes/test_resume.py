"""A run that was killed or stopped, and goes on by the same command, ends like one that was not: bit for bit."""

import json
import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forked import Forks
from kinds import Tfm
from transformer_cli.data.lengths import Rows
from transformer_cli.training.trainer import Trainer

OFTEN = ("--set", "training.save_minutes=0.0005")  # several times in an epoch


def history(run: Path) -> list[dict[str, Any]]:
    """All but the seconds."""
    entries = map(json.loads, (run / "history.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    return [{key: value for key, value in entry.items() if not key.endswith("_seconds")} for entry in entries]


def checkpoint(run: Path, pointer: str) -> tuple[str, bytes, bytes]:
    """Its name, weights and moments."""
    name = (run / pointer).read_text(encoding="utf-8").split()[0]
    folder = run / "checkpoints" / name
    return name, (folder / "model.safetensors").read_bytes(), (folder / "state.safetensors").read_bytes()


def weights(run: Path) -> dict[str, bytes]:
    """All weights and moments, and what the pointers say."""
    names = ("checkpoints/*/*.safetensors", "best", "last", "average")
    return {str(path.relative_to(run)): path.read_bytes() for name in names for path in run.glob(name)}


def assert_same_run(one: Path, other: Path) -> None:
    assert history(one) == history(other)
    assert checkpoint(one, "best") == checkpoint(other, "best")
    assert checkpoint(one, "last") == checkpoint(other, "last")


def last_step(run: Path) -> int:
    """The step of the last save, 0 before the first."""
    pointer = run / "last"
    return int(pointer.read_text(encoding="utf-8").split("-")[1]) if pointer.exists() else 0


def kill_training(forks: Forks, step: int, *options: str, cwd: Path, config: Path) -> tuple[int, str]:
    """Train in a process of its own, killed at the first save from `step` on: (exit code, standard error)."""
    process = forks.start("train", "--config", config, *options, *OFTEN, cwd=cwd)
    with suppress(ProcessLookupError):  # it has ended
        while last_step(cwd / "runs/tiny") < step:
            os.kill(process, 0)
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
    return forks.end(), (cwd / "err.txt").read_text(encoding="utf-8")


@pytest.fixture
def prepared(project: Path, tmp_path: Path) -> Path:
    """A working folder with the project's data and no run."""
    (tmp_path / "data").symlink_to(project / "data")
    return tmp_path


def test_killed_again_and_again_training_ends_as_if_it_never_was(
    tfm: Tfm, forks: Forks, corpus: Path, project: Path, prepared: Path
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
    assert_same_run(run, project / "runs/tiny")
    assert {path.name for path in (run / "checkpoints").iterdir()} == {checkpoint(run, p)[0] for p in ("best", "last")}


def test_killed_where_text_is_cut_anew_and_weights_are_averaged_it_ends_as_if_it_never_was_on_other_threads(
    tfm: Tfm, forks: Forks, corpus: Path, subword_data: Path, tmp_path: Path
) -> None:
    config = corpus / "subwords.yaml"
    options = [
        part
        for setting in ("data.subwords.dropout=0.1", "training.average=2", "training.epochs=3", "training.lanes=2")
        for part in ("--set", setting)
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        (folder / "data").symlink_to(subword_data)
    more_threads = (*options, "--set", "training.num_threads=2")
    assert kill_training(forks, 17, *more_threads, cwd=cut, config=config)[0] == -signal.SIGKILL
    step = last_step(cut / "runs/tiny")
    assert 17 <= step < 39
    for folder in (whole, cut):
        code, _, err = tfm("train", "--config", config, *options, cwd=folder)
        assert code == 0
    assert f"resuming from the save at step {step} (epoch {step // 13 + 1}, {step % 13} batches into it)" in err
    assert history(whole / "runs/tiny") == history(cut / "runs/tiny")
    assert weights(whole / "runs/tiny") == weights(cut / "runs/tiny")


@pytest.mark.parametrize(
    ("option", "command"), [((), "the same command"), (("--fresh",), "the same command without --fresh")]
)
@pytest.mark.parametrize(("stop", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_at_the_end_of_its_step_and_training_goes_on(
    tfm: Tfm,
    corpus: Path,
    prepared: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: signal.Signals,
    expected: int,
    option: tuple[str, ...],
    command: str,
) -> None:
    config = ("--config", corpus / "tiny.yaml", "--set", "training.epochs=1")
    step = Trainer.step

    def signalled(trainer: Trainer, batches: Sequence[Rows]) -> None:
        if trainer.state.step == 6:
            signal.raise_signal(stop)
        step(trainer, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", signalled)
        code, _, err = tfm("train", *option, *config, cwd=prepared)
    assert code == expected
    assert err.endswith(f"\ntfm: stopped and saved at step 7; {command} goes on\n")
    code, _, err = tfm("train", *config, cwd=prepared)
    assert code == 0
    assert "resuming from the save at step 7 (epoch 1, 7 batches into it)" in err
