"""A run that was cut off at any moment, and goes on by the same command, ends bit for bit like one that was not.

tests/recipes/test_resume.py kills real processes; here each case is cut off before a file appears.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinds import TrainTiny
from outcomes import outcome, power_cut

Settings = tuple[str, ...]

PLAIN = ("training.batch_size=100", "training.epochs=2")  # an epoch of two steps
ACCUMULATED = ("training.batch_size=20", "training.epochs=1", "training.accumulate=3")
COSINE = ("training.batch_by=tokens", "training.batch_size=300", "training.epochs=3", "training.schedule=cosine")
MUON = (*PLAIN, "training.optimizer=muon", "training.freeze=[decoder]")
AVERAGED = ("training.batch_size=50", "training.epochs=5", "training.average=3", "training.learning_rate=1e-1")
OFTEN = ("training.batch_size=10", "training.validate_every=3", "training.average=2")  # an epoch of 20 steps
PATIENT = (*OFTEN, "training.epochs=1", "training.learning_rate=1e-30", "training.patience=2")
BY_STEPS = (*OFTEN, "training.steps=31", "training.average=11", "training.schedule=cosine")  # of all 11 validations
FIVE_STEPS = ("training.batch_size=10", "training.steps=5")

CASES: list[tuple[Settings, list[tuple[str, int]]]] = [  # cut off before the nth file of a name; again and again
    (PLAIN, [("run.json", 1), ("last", 1), ("step-0000002", 1), ("best", 1), ("best", 2)]),
    (PLAIN, [("state.json", 2), ("last", 2)]),
    (PLAIN, [("history.jsonl", 2)]),  # the first is the empty one of a run that begins
    (ACCUMULATED, [("last", 3)]),
    ((*COSINE, "training.warmup_steps=2"), [("last", 3), ("last", 5)]),
    (MUON, [("last", 2)]),
    (AVERAGED, [("validation-0005", 1), ("average-0000020", 1), ("average", 1)]),
    (AVERAGED, [("best", 6)]),  # that of the mean
    (PATIENT, [("step-0000004-unvalidated", 1), ("step-0000006", 1), ("step-0000008-unvalidated", 1)]),
    (BY_STEPS, [("step-0000004-unvalidated", 1), ("step-0000006", 1), ("step-0000008-unvalidated", 1)]),
    (FIVE_STEPS, [("step-0000005", 1)]),  # before the last validation
]


@pytest.mark.parametrize(("settings", "cuts"), CASES, ids=str)
def test_train_cut_off_before_a_file_appears_then_resumed_equals_uncut(
    train_tiny: TrainTiny,
    uncut: Callable[..., dict[str, Any]],
    tmp_path: Path,
    settings: Settings,
    cuts: list[tuple[str, int]],
) -> None:
    for file, time in cuts:
        with power_cut(tmp_path, file, time):
            train_tiny(tmp_path, *settings, "training.save_minutes=1e-9")  # after every step
    assert outcome(train_tiny(tmp_path, *settings)) == uncut(*settings)
