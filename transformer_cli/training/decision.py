"""Decides what is trained: a new run, the run on disk, or nothing, because that was begun with other settings.

Pure: reads no file and asks no device. resume.py reads what is on disk, and does what was decided.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer_cli.config.load import differences, settings_by_key
from transformer_cli.config.schema import Affects, Config, keys_affecting
from transformer_cli.text.codec import SIDES


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do with a run's folder."""

    kind: Literal["new", "resume", "refuse"]
    config: Config
    """what to train, and to write into the folder: with a name, a precision and a number of shards"""
    compares_text: bool
    """whether the dataset may have been made from other text than that of data.files"""
    why: str = ""
    """with refuse: the settings that differ, such as "training.seed: 0 → 1; model.d_ff: 64 → 32" """
    warning: str = ""
    """with resume: what to know about the precision, if anything"""


def decide(
    wanted: Config, found: Config | None, *, precision: str, shards: int, lost: Collection[str] = ()
) -> Decision:
    """Returns what to do with a run's folder.

    found: the config of the run in it; None if there is none, or if it is to be moved aside. precision, shards: what
    suits the machine, where the settings leave that open. lost: the files named by `found` that are gone.
    """
    data, training, before = wanted.data, wanted.training, (found or wanted).training
    so_far = before.precision if found else "auto"  # also if the user has edited the run's config
    chosen = next(each for each in (training.precision, so_far, precision) if each != "auto")
    training = training.model_copy(update={"precision": chosen, "shards": before.shards or shards})
    if found is None:
        is_same_text = data.fingerprint is None  # then the dataset is found by its text
    else:
        is_same_text = data.fingerprint is not None and data.files == found.data.files
        data = found.data.model_copy(update={"files": data.files})
    warning = _about_precision(so_far, wanted.training.precision, precision)
    changed = _changes(found, wanted, lost) if found else []
    return Decision(
        kind="refuse" if changed else "resume" if found else "new",
        config=wanted.model_copy(update={"name": wanted.run_name, "data": data, "training": training}),
        compares_text=bool(data.files) and not is_same_text,
        why="; ".join(changed),
        warning=warning,
    )


def _changes(found: Config, wanted: Config, lost: Collection[str]) -> list[str]:
    """Returns the differences of two configs that forbid to resume one with the other.

    Paths of data.files are not compared: their content will be.
    """
    ignore = [*keys_affecting(Affects.NOTHING)]
    for side in SIDES:
        before, now = getattr(found.model.vectors, side), getattr(wanted.model.vectors, side)
        if before in lost and now and Path(before).name == Path(now).name:  # a resumed run does not read its vectors
            ignore.append(f"model.vectors.{side}")
    if found.data.files and wanted.data.files:
        keys = (*settings_by_key(found), *settings_by_key(wanted))
        ignore += [key for key in keys if key.startswith("data.files.")]
    if wanted.data.fingerprint is None:
        ignore.append("data.fingerprint")
    if wanted.training.shards is None:
        ignore.append("training.shards")
    if wanted.data.lowercased == found.data.lowercased:  # null in one of them may mean the same as true or false
        ignore.append("data.lowercase")
    changed = differences(found, wanted, ignore)
    old, new = found.training, wanted.training
    if old.needs_horizon and old.end != new.end:
        key = "" if old.end_key == new.end_key else f"training.{new.end_key}: "
        end = f"training.{old.end_key}: {old.end[1]} → {key}{new.end[1]}"
        changed.append(f"{end}, the end of its {old.schedule} schedule")
    return changed


def _about_precision(before: str, wanted: str, machine: str) -> str:
    """Returns a warning of another precision than before, or of one that is slow on this machine; "" for none."""
    if before == "auto":
        return ""
    if wanted not in ("auto", before):
        return f"training.precision: {before} until now, {wanted} from here on"
    if (before, wanted, machine) == ("bfloat16", "auto", "float32"):
        what = "training resumes in bfloat16, as it began, which is slow on this device; change it by"
        return f"{what} --set training.precision=float32"
    return ""
