"""A signal ends any command with one line and exit code 128 + n, also during imports; training saves first."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forked import Forks

NOTHING = Path(os.devnull)
EPOCHS = ("--set", "training.epochs=2", "--set", "training.batch_size=100")  # of two steps each
LONG = """\
import time
from pathlib import Path
from transformer_cli.training.learner import Learner

gradient = Learner.backward

def long(learner, *arguments, step):
    if step == {at}:
        Path("reached").touch()
        while not Path("go").exists():
            time.sleep(0.01)
    return gradient(learner, *arguments, step=step)

Learner.backward = long
"""


def long_step(step: int) -> str:
    """Code that writes the file "reached" when a step begins, which then waits for the file "go"."""
    return LONG.format(at=step)


@pytest.fixture
def train(forks: Forks, corpus: Path, project: Path, tmp_path: Path) -> Callable[..., int]:
    """train(before=…): start training in a folder with the project's data; returns when a step is "reached"."""
    (tmp_path / "data").symlink_to(project / "data")

    def start(before: str, **options: Any) -> int:
        command = ("train", "--config", corpus / "tiny.yaml", *EPOCHS)
        process = forks.start(*command, cwd=tmp_path, before=before, **options)
        while not (tmp_path / "reached").exists():
            os.kill(process, 0)  # raises if it has ended
            time.sleep(0.01)
        return process

    return start


def said(folder: Path) -> list[str]:
    return (folder / "err.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_train_ctrl_c_after_a_signal_ends_at_once(
    forks: Forks, train: Callable[..., int], tmp_path: Path, first: signal.Signals
) -> None:
    process = train(long_step(4))
    os.kill(process, first)
    with suppress(ProcessLookupError):  # it has ended
        while True:  # of two signals at once, Python handles SIGINT first
            os.kill(process, signal.SIGINT)
            time.sleep(0.1)
    assert forks.end() == -signal.SIGINT
    assert (tmp_path / "runs/tiny/last").read_text(encoding="utf-8").split()[0] == "step-0000002"


@pytest.mark.parametrize(("number", "times"), [(signal.SIGUSR1, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 2)])
def test_train_signal_finishes_the_step_and_saves(
    forks: Forks, train: Callable[..., int], tmp_path: Path, number: signal.Signals, times: int
) -> None:
    process = train(long_step(3))
    for _ in range(times):  # twice as by `timeout`: to the process, and to its group
        os.kill(process, number)
        time.sleep(0.05)
    (tmp_path / "go").touch()
    assert forks.end() == 128 + number
    assert said(tmp_path)[-1] == "tfm: stopped and saved at step 3; the same command resumes it"
    assert (tmp_path / "runs/tiny/last").read_text(encoding="utf-8").split()[0] == "step-0000003-unvalidated"


def test_train_hangup_under_nohup_is_ignored(forks: Forks, train: Callable[..., int], tmp_path: Path) -> None:
    nohup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    os.kill(train(nohup + long_step(3)), signal.SIGHUP)
    (tmp_path / "go").touch()
    assert forks.end() == 0


def test_train_closed_terminal_saves(forks: Forks, train: Callable[..., int], tmp_path: Path) -> None:
    main_end, terminal = os.openpty()
    name = Path(os.ttyname(terminal))
    process = train(long_step(3), streams=(NOTHING, tmp_path / "out.txt", name))
    os.close(terminal)
    os.close(main_end)  # writing to the terminal is an error from here on
    os.kill(process, signal.SIGHUP)
    (tmp_path / "go").touch()
    assert forks.end() == 129
    assert (tmp_path / "runs/tiny/last").read_text(encoding="utf-8").split()[0] == "step-0000003-unvalidated"


def test_translate_signal_is_one_line(forks: Forks, project: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(project / "runs")
    os.mkfifo(tmp_path / "sentences")
    streams = (tmp_path / "sentences", tmp_path / "out.txt", tmp_path / "err.txt")
    process = forks.start("translate", cwd=tmp_path, streams=streams)
    with (tmp_path / "sentences").open("w") as sentences:
        sentences.write("\n" * 1000)
        sentences.flush()
        out = tmp_path / "out.txt"
        while not out.exists() or out.stat().st_size < 1000:  # until it waits for further sentences
            time.sleep(0.01)
        os.kill(process, signal.SIGUSR1)
        assert forks.end() == 128 + signal.SIGUSR1
    assert said(tmp_path) == ["tfm: stopped by SIGUSR1"]


@pytest.mark.parametrize("module", ["typer", "torch"])
def test_ctrl_c_during_imports_is_one_line(project: Path, module: str) -> None:
    program = (
        "import builtins, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "original = builtins.__import__\n"
        "def slow(name, *rest):\n"
        f"    if name == {module!r}:\n"
        "        builtins.__import__ = original\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return original(name, *rest)\n"
        "builtins.__import__ = slow\n"
        "from transformer_cli.__main__ import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, "translate", "Hallo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tfm: stopped by SIGINT\n")
