"""A command that is interrupted says so, and given again it ends as if nothing had happened: bit for bit.

Training is killed, stopped by a signal, and cut off before each kind of file appears. And each operation on the disk
fails once, for five commands: every kind of operation (such as "write .json", "rename step-…"), as it does on a full
disk, on one that has become read-only, without permission, and with an error of the hardware, in turns. `make test`
takes every ninth kind, and `make long` all of them. What was there before stays, and nothing unfinished is left.
"""

import errno
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from disturb import Disturbance, disturbed, fail_at
from forked import Forks
from kinds import Tfm, TrainTiny
from outcomes import outcome, power_cut
from torture import lasting
from transformer_cli.adapters.study import plots
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import HeldOutConfig
from transformer_cli.data.dataset import Rows
from transformer_cli.runs.run import Run
from transformer_cli.scoring import metrics
from transformer_cli.training.trainer import Trainer

Settings = tuple[str, ...]


def training(*changes: str) -> Settings:
    return tuple(f"training.{change}" for change in changes)


PLAIN = training("batch_size=100", "epochs=2")  # an epoch of two steps
ACCUMULATED = training("batch_size=20", "epochs=1", "gradient_accumulation_steps=3")
COSINE = training("batch_by=tokens", "batch_size=300", "epochs=3", "schedule=cosine")
MUON = (*PLAIN, *training("optimizer=muon", "freeze=[decoder]"))
AVERAGED = training("batch_size=100", "epochs=4", "average_checkpoints=3", "learning_rate=1e-1")
OFTEN = training("batch_size=25", "validate_every=3")  # an epoch of 8 steps
PATIENT = (*OFTEN, *training("average_checkpoints=2", "epochs=2", "learning_rate=1e-30", "patience=2"))
BY_STEPS = (*OFTEN, *training("max_steps=13", "average_checkpoints=5", "schedule=cosine"))  # of all 5 validations
FIVE_STEPS = training("batch_size=10", "max_steps=5")

CASES: list[tuple[Settings, list[tuple[str, int]]]] = [  # cut off before the nth file of a name; again and again
    (PLAIN, [("run.json", 1), ("last", 1), ("step-0000002", 1), ("best", 1), ("best", 2)]),
    (PLAIN, [("state.json", 2), ("last", 2)]),
    (PLAIN, [("history.jsonl", 2)]),  # the first is the empty one of a run that begins
    (ACCUMULATED, [("last", 3)]),
    ((*COSINE, "training.warmup_steps=2"), [("last", 3), ("last", 5)]),
    (MUON, [("last", 2)]),
    (AVERAGED, [("validation-0004", 1), ("average-0000008", 1), ("average", 1), ("best", 2)]),  # that of the mean
    (PATIENT, [("step-0000004-unvalidated", 1), ("step-0000006", 1), ("step-0000008-unvalidated", 1)]),
    (BY_STEPS, [("step-0000004-unvalidated", 1), ("step-0000006", 1), ("step-0000008-unvalidated", 1)]),
    (FIVE_STEPS, [("step-0000005", 1)]),  # before the last validation
]


@pytest.mark.parametrize(("settings", "cuts"), CASES, ids=str)
def test_train_killed_before_any_file_resumes_exactly(
    train_tiny: TrainTiny,
    uncut: Callable[..., dict[str, Any]],
    tmp_path: Path,
    settings: Settings,
    cuts: list[tuple[str, int]],
) -> None:
    for file, number in cuts:
        with power_cut(tmp_path, file, number):
            train_tiny(tmp_path, *settings, "training.save_minutes=1e-9")  # after every step
    assert outcome(train_tiny(tmp_path, *settings)) == uncut(*settings)


SAVING = ("--set", "training.save_minutes=0.0005")  # several times in an epoch


def last_step(run: Path) -> int:
    """The step of the last save, 0 before the first."""
    pointer = run / "last"
    return int(pointer.read_text(encoding="utf-8").split("-")[1]) if pointer.exists() else 0


def kill_training(forks: Forks, step: int, *, cwd: Path, config: Path) -> tuple[int, str]:
    """Train in a process of its own, killed at the first save from `step` on: (exit code, standard error)."""
    process = forks.start("train", "--config", config, *SAVING, cwd=cwd)
    with suppress(ProcessLookupError):  # it has ended
        while last_step(cwd / "runs/tiny") < step:
            os.kill(process, 0)
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
    return forks.end(), (cwd / "err.txt").read_text(encoding="utf-8")


def test_train_killed_repeatedly_ends_the_same(tfm: Tfm, forks: Forks, corpus: Path, tiny: Run, prepared: Path) -> None:
    run, config = prepared / "runs/tiny", corpus / "tiny.yaml"
    for step in (2, 17):  # in the first and in the second epoch
        resumed_from = last_step(run)
        code, err = kill_training(forks, step, cwd=prepared, config=config)
        assert code == -signal.SIGKILL, err
        resumed = re.findall(r"resuming from the checkpoint at step (\d+) ", err)
        assert resumed == [str(resumed_from)] * (resumed_from > 0)
        assert step <= last_step(run) < 78
    step = last_step(run)
    code, _, err = tfm("train", "--config", config, cwd=prepared)
    assert code == 0
    assert f"resuming from the checkpoint at step {step} " in err
    found = outcome(Run.open(run))
    assert found == outcome(tiny)
    assert {path.name for path in (run / "checkpoints").iterdir()} == {found["best"], found["last"]}


def test_train_fresh_interrupted_resumes_without_fresh(
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
    assert err.endswith("\ntfm: stopped and saved at step 7; the same command without --fresh resumes it\n")
    code, _, err = tfm("train", *config, cwd=prepared)
    assert code == 0
    assert "resuming from the checkpoint at step 7 (epoch 1, 7 batches into it)" in err
    assert "in epoch 1 of 1" in err


def test_back_translation_killed_in_each_phase_ends_the_same(tfm: Tfm, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "text"

    def begin() -> None:
        folder.mkdir()
        for name in ("train.de", "train.en"):
            shutil.copy(corpus / name, folder)
        lines = "".join((corpus / name).read_text(encoding="utf-8") for name in ("valid.en", "train.en"))
        (folder / "more.en").write_text(f"\n{lines}", encoding="utf-8")  # a blank line, and what is held out

    command = ["prepare", "train.de", "train.en", "--source", "de", "--target", "en", "--name", "a"]
    command += ["--set", "training.epochs=8", "--set", "training.batch_size=150", "--set", "data.clean=[duplicates]"]
    command += [f"-smodel.{each}" for each in ("d_model=16", "d_ff=16", "num_encoder_layers=1")]
    begin()
    (folder / "pairs.tsv").write_text("Hund\tdog\nBall\tball\n", encoding="utf-8")
    code, _, err = tfm(*command, "--monolingual", "pairs.tsv", cwd=folder)
    assert (code, "pairs.tsv: not a text of one sentence per line; name another file" in err) == (1, True)
    (folder / "pairs.tsv").unlink()
    code, out, err = tfm(*command, "--monolingual", "more.en", "--json", cwd=folder)
    assert code == 0, err
    manifest, wanted = json.loads(out), state(folder)
    assert manifest["cleaning"]["left_out"].keys() >= {"empty", "held_out"}
    assert manifest["overlap"]["valid"] == {"pairs": 0, "sources": 0, "references": 0}
    (made,) = folder.glob("runs/a-back/machine-made-*.de.txt")
    n_lines = len((folder / "more.en").read_text(encoding="utf-8").split("\n"))
    assert len(made.read_text(encoding="utf-8").split("\n")) == n_lines
    files = load_config(folder / "a.yaml").data.files
    assert files is not None
    assert [each.source.name for each in files["train"]] == ["train.source.txt", made.name]  # type: ignore[union-attr]
    assert load_config(folder / "a.yaml").data.held_out == HeldOutConfig()
    shutil.rmtree(folder)
    begin()
    for file, number in (("a-back.yaml", 1), ("state.json", 2), ("best", 2), (made.name, 1), ("a.yaml", 1)):
        with power_cut(folder, file, number):
            tfm(*command, "--monolingual", "more.en", cwd=folder)
    assert tfm(*command, "--monolingual", "more.en", cwd=folder)[0] == 0
    assert json.dumps(state(folder)) == json.dumps(wanted)
    code, _, err = tfm(*command, "--monolingual", "more.en", cwd=folder)
    assert (code, "--minutes and --monolingual are for a new config, but a.yaml exists" in err) == (2, True)


REASONS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)
REFUSED = re.compile(
    r"tfm: error: \S+: (No space left on device; free disk space, or raise the quota|Read-only file system; correct "
    r"the path or its permissions|Permission denied; .* belongs to user \d+; change them, or be that user|Input/output "
    r"error; check the device or the network share that it is on|cannot be written: .*; name another file)"
    r"|tfm: error: \S+ could not be deleted to be written anew .*"
)
WARNED = re.compile(r"(curves\.png could not be drawn|\S+: this result is not saved|.* could not be deleted)")
# a model of a few numbers, and a step for each of two epochs
SMALL = ("d_model=8", "num_heads=1", "d_ff=8", "max_length=9")
BRIEF = ("--set", "training.epochs=2", "--set", "training.batch_size=200", *(f"-smodel.{each}" for each in SMALL))
TRAIN = ("train", "--config", "CORPUS/tiny.yaml", *BRIEF, "--set", "training.average_checkpoints=2")
COMMANDS = {
    "prepare": ("prepare", "--config", "CORPUS/tiny.yaml"),
    "train": (*TRAIN, "--set", "training.save_minutes=1e-6"),
    "evaluate": ("evaluate", "--split", "valid", "--output", "out/a.txt", "--output-tokens", "out/b.txt"),
    "export": ("export", "tiny", "--quantization", "int8", "--output", "out/tiny"),
    "draw": ("inspect", "--attention", "cross", "--layer", "1", "--head", "1", "--output", "out/a.png", "Hund"),
}
NEEDS = {"prepare": (), "train": ("data",), "export": ("runs",)}
SECONDS = re.compile(r'"(train_seconds|valid_seconds|date|seconds|[a-z_]+_per_second)": ?("[^"]*"|[\d.e+-]+)')


def state(folder: Path) -> dict[str, str]:
    """Folders and files that are not unfinished, without seconds and dates; of pictures only that they are there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".lock") or ".unfinished-" in str(path):
            continue
        content = "a folder" if path.is_dir() else SECONDS.sub(r"\1", lasting(path).decode("latin-1"))
        if path.name == "evaluations.jsonl":  # a second call has appended the same, behind a part of a line perhaps
            content = "\n".join(sorted({line for line in content.split("\n") if line.endswith("}")}))
        found[str(path.relative_to(folder))] = content
    return found


def kind(operation: str) -> str:
    """Which operations are of one kind: those of one function on files of one suffix, and on each pointer and folder.

    Pointers are written like other small files, and their kinds differ only once they appear.
    """
    what, name = operation.split()
    if suffix := Path(name).suffix:
        return f"{what} {suffix}"
    return what if what in ("open", "write", "fsync") else f"{what} {re.sub(r'[0-9]+', '…', name)}"


@pytest.mark.no_cover  # other tests run the same lines; counting them is slow
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", COMMANDS)
def test_full_disk_at_any_write_is_one_line_and_resumes(
    tfm: Tfm, corpus: Path, project: Path, tmp_path: Path, name: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "RESAMPLES", 2)
    monkeypatch.setattr(plots, "draw_inspection", lambda inspection, maps: Figure((1, 1)))
    command = [part.replace("CORPUS", str(corpus)) for part in COMMANDS[name]]
    numbers = itertools.count()

    def begin() -> Path:
        folder = tmp_path / str(next(numbers))
        (folder / "out").mkdir(parents=True)
        for part in NEEDS.get(name, ("data", "runs")):
            if part == "data":
                (folder / part).symlink_to(project / part)
            else:
                shutil.copytree(project / part, folder / part)
        return folder

    whole = begin()
    with disturbed(Disturbance(whole)) as undisturbed:
        assert tfm(*command, cwd=whole)[0] == 0
    wanted = state(whole)
    counted = {"refused": 0, "harmless": 0}
    first = {kind(operation): number for number, operation in reversed([*enumerate(undisturbed.operations, 1)])}
    for number, reason in zip(sorted(first.values())[::every], itertools.cycle(REASONS), strict=False):
        folder = begin()
        before = state(folder)
        case = f"{undisturbed.operations[number - 1]}: {errno.errorcode[reason]}"
        with disturbed(Disturbance(folder, fail_at(number, reason))) as seen:
            code, _, err = tfm(*command, cwd=folder)
        lines = err.rstrip("\n").split("\n")
        assert seen.hits, case
        assert ".unfinished" not in err, case
        if code:
            assert code == 1, f"{case}: {err}"
            assert REFUSED.fullmatch(lines[-1]), f"{case}: {err}"
            counted["refused"] += 1
        else:
            assert state(folder) == wanted or any(map(WARNED.search, lines)), f"{case}: {err}"
            counted["harmless"] += 1
        after = state(folder)
        for path, content in before.items():
            assert after.get(path) in (content, wanted.get(path)), case
        if code and after == before and not [*folder.rglob("*.unfinished-*")]:  # it would begin as above
            shutil.rmtree(folder)
            continue
        if reason in (errno.EACCES, errno.EIO) and code:  # the others do not even let it delete what is unfinished
            assert not [*folder.rglob("*.unfinished-*")], case
        for left in folder.rglob(".*.unfinished-*"):  # of what has no owner only what is a day old is deleted
            os.utime(left, (0, 0))
            for inner in left.rglob("*"):
                os.utime(inner, (0, 0))
        code, _, err = tfm(*command, cwd=folder)
        assert code == 0, f"{case}: {err}"
        assert json.dumps(state(folder)) == json.dumps(wanted), case
        assert not [*folder.rglob("*.unfinished-*")], case
        shutil.rmtree(folder)
    sys.stdout.write(f"{name}: {sum(counted.values())} tried, {counted}, missed: 0\n")  # shown by pytest -s
    assert counted["refused"] > 3 // every
