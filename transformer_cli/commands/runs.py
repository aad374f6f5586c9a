"""`tfm runs`: the folder runs/ → what is in it, and remarks on runs that are not finished."""

import json
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transformer_cli.commands.tables import Column, Form, write_table
from transformer_cli.compute.devices import in_words
from transformer_cli.config.yamltext import as_line
from transformer_cli.system.terminal import on_one_line

if TYPE_CHECKING:
    from transformer_cli.runs.listing import ListedRun

RUNS = Path("runs")
UNKNOWN = "–"
IN_COLUMNS = ("data.corpus", "data.source", "data.target", "training.epochs", "training.steps", "training.seed")
MOST_FIRST = ("saved", "bleu", "epochs", "params", "size")  # where runs are sorted by them


def runs(columns: str | None = None, sort: str | None = None, form: Form = "text", as_json: bool = False) -> None:
    """List the runs under runs/, and how good they are. It also shows their text, and how far each has been trained."""
    from transformer_cli.runs.listing import differing_settings, list_runs

    found = list_runs(RUNS)
    if sort and found:
        values = _column(sort, found).values
        told = [row for row, value in enumerate(values) if value is not None and not str(value).startswith(UNKNOWN)]
        told.sort(key=lambda row: _rank(values[row]), reverse=sort.lower() in MOST_FIRST)
        found = [found[row] for row in dict.fromkeys((*told, *range(len(found))))]  # what has no value comes last
    if as_json or form == "json":  # escaped to ASCII: a name may hold any bytes
        keys = differing_settings([run.settings or {} for run in found])
        shown = [replace(run, settings=run.settings and {key: run.settings.get(key) for key in keys}) for run in found]
        print(json.dumps({"folder": str(RUNS), "runs": [asdict(run) for run in shown]}))
    elif found:
        print(runs_as_table(found, form, columns.split(",") if columns else ()))


def runs_as_table(runs: Sequence["ListedRun"], form: Form = "text", wanted: Sequence[str] = ()) -> str:
    """Returns a line for each run, and below the table what its columns do not say. There is at least one run.

    wanted: heads or keys of settings, for the columns beside the names. By default columns tell which text BLEU is of,
    and which is scored without case (lc), where that differs; the last ones are the seed, and settings in which the
    runs differ.
    """
    from transformer_cli.runs.listing import differing_settings, in_short

    texts = {run.evaluation.text for run in runs if run.evaluation}
    cases = {_is_lowercase(run) for run in runs if run.evaluation}
    settings = [run.settings or {} for run in runs]
    told = in_short(settings, without=IN_COLUMNS)
    keys = list(dict.fromkeys(key for cells in told for key in cells))
    heads = ["run", "saved", "corpus", "params", "epochs", "loss", "BLEU", *(["of"] if len(texts) > 1 else [])]
    heads += [*(["case"] if len(cases) > 1 else []), "seed"]
    chosen = [_column(head.strip(), runs) for head in (["run", *wanted] if wanted else heads)]
    if not wanted:
        chosen += [Column(key, [cells.get(key, UNKNOWN) for cells in told]) for key in keys]
    total = f"; on disk: {in_words(sum(run.bytes for run in runs))}"
    shown = {column.head for column in chosen}
    notes = [f"loss: at the best checkpoint, on the validation text{total}"] if "loss" in shown else []
    if texts and "BLEU" in shown:
        of = f", of {next(iter(texts))}" if len(texts) == 1 else ""
        lc = "; lc: scored without case" if "case" in shown else ""
        unseen = [head for head, found in (("of", texts), ("case", cases)) if len(found) > 1 and head not in shown]
        lc += f"; not of one kind: add the columns {','.join(unseen)}" if unseen else ""
        notes.append(f"BLEU: the last that `tfm evaluate` or `tfm compare` found{of}{lc}")
    n_more = len(set(differing_settings(settings)) - set(IN_COLUMNS)) - len(keys)
    if n_more and not wanted:
        notes.append(f"{n_more} more settings differ, which `tfm runs --json` has")
    if any(run.newest for run in runs):
        notes.append("* the newest, which commands use that are given no run")
    remarks = [on_one_line(line) for line in (*(line for run in runs for line in _remarks(run)), *_twins(runs))]
    return write_table(chosen, form, "\n".join(["", *notes, *([""] if remarks else []), *remarks]))


def _is_lowercase(run: "ListedRun") -> bool:
    return bool(run.evaluation and "case:lc" in run.evaluation.bleu_signature)


def _column(head: str, runs: Sequence["ListedRun"]) -> Column:
    """Returns a column by its head, in any case, or by the key of a setting or its end, such as training.seed or seed.

    Raises BadParameter for what is neither.
    """
    dates = [run.saved or run.begun for run in runs]
    evaluations, newest = [run.evaluation for run in runs], [run.name for run in runs if run.newest]
    known = {
        "run": Column("run", [run.name for run in runs], lambda name: f"{name}{' *' * (name in newest)}"),
        "saved": Column("saved", dates, lambda date: f"{datetime.fromisoformat(date).astimezone():%Y-%m-%d}"),
        "corpus": Column("corpus", [f"{run.corpus} {run.source}→{run.target}" if run.corpus else None for run in runs]),
        "params": Column("params", [run.parameters for run in runs], _count),
        "epochs": Column("epochs", [_length(run) for run in runs]),
        "loss": Column("loss", [run.best_valid_loss for run in runs], "{:.3f}".format),
        "bleu": Column("BLEU", [each and each.bleu for each in evaluations], "{:.2f}".format),
        "of": Column("of", [each.text if each else "" for each in evaluations]),
        "case": Column("case", ["lc" if _is_lowercase(run) else "" for run in runs]),
        "size": Column("size", [run.bytes for run in runs], in_words),
    }
    keys = dict.fromkeys(key for run in runs for key in run.settings or ())
    of_key = next((key for key in keys if head in (key, key.rpartition(".")[2])), None)
    if keys and head.lower() not in known and of_key is None:
        raise typer.BadParameter(f"no column {head}; there are {', '.join(known)}, and the keys of settings")
    values = [(run.settings or {}).get(of_key or "") for run in runs]
    return replace(known.get(head.lower()) or Column(head, values, as_line), unknown=UNKNOWN)


def _rank(value: object) -> tuple[float, list[str | int]]:
    """Returns by what a value is sorted: numbers first, then text, in which 9/10 stands before 10/10, too."""
    if isinstance(value, int | float):
        return float(value), []
    parts = re.split(r"(\d+)", as_line(value).replace(",", ""))
    return math.inf, [int(part) if part.isdecimal() else part for part in parts]


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

    firsts: dict[str, ListedRun] = {}
    for run in sorted(runs, key=lambda run: run.begun or ""):
        if run.provenance:
            first = firsts.setdefault(repr((run.settings, run.provenance.get("sources"))), run)
            if other := changes(first.provenance or {}, run.provenance):
                yield f"settings and text of {first.name}, perhaps not its bits: {run.name}; {other}"


def _count(number: int) -> str:
    """Returns a number of parameters with three digits or fewer: 300, 45 k, 1.7 M, 213 M."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1e3:.0f} k"
    return f"{number / 1e6:.1f} M" if number < 99_950_000 else f"{number / 1e6:,.0f} M"
