"""`tfm runs`: the folder runs/ → what is in it, and remarks on runs that are not finished."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.compute.memory import in_words
from transformer_cli.system.terminal import on_one_line, table

if TYPE_CHECKING:
    from transformer_cli.runs.listing import ListedRun

RUNS = Path("runs")
UNKNOWN = "–"
IN_COLUMNS = ("data.corpus", "data.source", "data.target", "training.epochs", "training.steps")


def runs(as_json: bool = False) -> None:
    """List the runs under runs/, and how good they are. It also shows their text, and how far each has been trained."""
    from transformer_cli.runs.listing import list_runs

    found = list_runs(RUNS)
    if as_json:  # escaped to ASCII: a name may hold any bytes
        print(json.dumps({"folder": str(RUNS), "runs": [asdict(run) for run in found]}))
    elif found:
        print(runs_as_table(found))


def runs_as_table(runs: Sequence["ListedRun"]) -> str:
    """Returns a line for each run, and below the table what its columns do not say. There is at least one run.

    If not all are of one text, a column tells which text BLEU is of; if some are scored without case, "lc" marks them.
    The last columns are settings in which the runs differ.
    """
    from transformer_cli.runs.listing import in_short

    texts = {run.evaluation.text for run in runs if run.evaluation}
    heads = ["run", "saved", "corpus", "params", "epochs", "loss", "BLEU", *(["of"] if len(texts) > 1 else []), "size"]
    cases = {_is_lowercase(run) for run in runs if run.evaluation}
    told = in_short([run.settings or {} for run in runs], without=IN_COLUMNS)
    keys = list(dict.fromkeys(key for cells in told for key in cells))
    rows = [[*heads, *keys]]
    for run, cells in zip(runs, told, strict=True):
        row = _row(run, with_text=len(texts) > 1, with_case=len(cases) > 1)
        rows.append([*row, *(cells.get(key, UNKNOWN) for key in keys)])
    total = f", {in_words(sum(run.bytes for run in runs))} in all" if len(runs) > 1 else ""
    notes = [f"loss: the lowest on the validation text; size: on disk{total}"]
    if texts:
        of = f", of {next(iter(texts))}" if len(texts) == 1 else ""
        lc = "; lc: scored without case" if len(cases) > 1 else ""
        notes.append(f"BLEU: the last that `tfm evaluate` found{of}{lc}")
    n_more = len({key for run in runs for key in run.settings or ()} - set(IN_COLUMNS)) - len(keys)
    if n_more:
        notes.append(f"{n_more} more settings differ, which `tfm runs --json` has")
    if any(run.newest for run in runs):
        notes.append("* the newest, which commands use that are given no run")
    remarks = [on_one_line(line) for line in (*(line for run in runs for line in _remarks(run)), *_twins(runs))]
    return "\n".join([table(rows), "", *notes, *([""] if remarks else []), *remarks])


def _is_lowercase(run: "ListedRun") -> bool:
    return bool(run.evaluation and "case:lc" in run.evaluation.bleu_signature)


def _row(run: "ListedRun", *, with_text: bool, with_case: bool) -> list[str]:
    date = run.saved or run.begun
    evaluation = run.evaluation
    return [
        f"{run.name}{' *' if run.newest else ''}",
        f"{datetime.fromisoformat(date).astimezone():%Y-%m-%d}" if date else UNKNOWN,
        f"{run.corpus} {run.source}→{run.target}" if run.corpus else UNKNOWN,
        _count(run.parameters) if run.parameters is not None else UNKNOWN,
        _length(run),
        f"{run.best_valid_loss:.3f}" if run.best_valid_loss is not None else UNKNOWN,
        f"{evaluation.bleu:.2f}{' lc' if with_case and _is_lowercase(run) else ''}" if evaluation else UNKNOWN,
        *([evaluation.text if evaluation else ""] if with_text else []),
        in_words(run.bytes),
    ]


def _length(run: "ListedRun") -> str:
    """Returns how far training has come, and where it ends: 3/10, or 500/2,000 steps."""
    done, end, unit = (run.epochs_done, run.epochs, "") if run.steps is None else (run.steps_done, run.steps, " steps")
    return f"{UNKNOWN if done is None else f'{done:,}'}/{end:,}{unit}" if end else UNKNOWN


def _remarks(run: "ListedRun") -> list[str]:
    """Returns what a user may want to do about a run, or should know of it."""
    lines = {
        "new": [f"nothing saved yet: {run.name}"],
        "training": [f"in training: {run.name}"],
        "unfinished": [f"unfinished: {run.name}; `{run.resume}` goes on"],
        "finished": [],
        "broken": [f"broken: {run.problem}"],
    }[run.state]
    if run.evaluation and not run.evaluation_is_current:
        lines.append(
            f"BLEU of earlier weights: {run.name}; `tfm evaluate --run {shlex.quote(run.name)}` judges its best ones"
        )
    return lines


def _twins(runs: Sequence["ListedRun"]) -> Iterator[str]:
    """Yield a line for each run that was trained like one before, but by what may change the bits of its weights."""
    from transformer_cli.runs.provenance import changes

    begun = [run for run in sorted(runs, key=lambda run: run.begun or "") if run.provenance]
    alike = [(run.settings, (run.provenance or {}).get("sources")) for run in begun]
    for run, each in zip(begun, alike, strict=True):
        first = begun[alike.index(each)]
        if other := changes(first.provenance or {}, run.provenance or {}):
            yield f"settings and text of {first.name}, perhaps not its bits: {run.name}; {other}"


def _count(number: int) -> str:
    """Returns a number of parameters with three digits or fewer: 300, 45 k, 1.7 M, 213 M."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1e3:.0f} k"
    return f"{number / 1e6:.1f} M" if number < 99_950_000 else f"{number / 1e6:,.0f} M"
