"""What is kept and where: `tfm import`, `tfm runs`, `tfm export`, `tfm config` and `tfm doctor`."""

import json
import math
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from transformer_cli.commands.options import find_runs, refuse_without_folder
from transformer_cli.commands.tables import Column, Form, write_table
from transformer_cli.compute import devices
from transformer_cli.config.yamltext import as_line
from transformer_cli.system.terminal import on_one_line

if TYPE_CHECKING:
    from transformer_cli.runs.listing import ListedRun

RUNS = Path("runs")
UNKNOWN = "–"
IN_COLUMNS = ("data.corpus", "data.source", "data.target", "training.epochs", "training.steps", "training.seed")
MOST_FIRST = ("saved", "bleu", "epochs", "params", "size")  # where runs are sorted by them
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)


def import_run(
    folder: Path,
    name: str | None = None,
    positions: Literal["marian", "sinusoidal"] | None = None,
    source: str | None = None,
    target: str | None = None,
    model: str | None = None,
) -> None:
    """Make a run of a translator of Marian's, such as OPUS-MT's.

    Every command takes the run: translate, evaluate, compare, inspect, serve, export; `--like` and `--from` teach it
    your own text.
    """
    from transformer_cli.adapters.interop.importing import import_run

    run = import_run(folder, name=name, positions=positions, source=source, target=target, model=model)
    print(run.folder)


def runs(columns: str | None = None, sort: str | None = None, form: Form = "text", as_json: bool = False) -> None:
    """List the runs under runs/, and how good they are. It also shows their text, and how far each has been trained."""
    from transformer_cli.runs.listing import differing_settings, list_runs

    if columns and (as_json or form == "json"):
        raise typer.BadParameter("--columns is about tables; leave it out with --json")
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
        chosen += [Column(key, [cells.get(key) for cells in told], unknown=UNKNOWN) for key in keys]
    total = f"; on disk: {devices.in_words(sum(run.bytes for run in runs))}"
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
        "size": Column("size", [run.bytes for run in runs], devices.in_words),
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
    parts = re.split(r"(\d+)", (value if isinstance(value, str) else as_line(value)).replace(",", ""))
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


def export(
    named: str | None = None,
    run: str | None = None,
    output: Path | None = None,
    quantization: Literal["float32", "float16", "bfloat16", "int16", "int8"] = "float32",
    to: Literal["ctranslate2", "huggingface"] = "ctranslate2",
) -> None:
    """Write a run's best model for CTranslate2 or Hugging Face.

    In CTranslate2's it translates faster, with tfm or without it. Needs the extra `ctranslate2`. `--run DIR` opens the
    folder in translate, evaluate, score and serve (compare takes it as an argument), and its README.md shows how to use
    it from Python without tfm. With `--to huggingface`, transformers' MarianMTModel opens the folder.
    """
    (folder,) = find_runs(named, run)
    if output and output.parent != Path("exports"):
        refuse_without_folder(output)
    if to == "huggingface":
        if quantization != "float32":
            raise typer.BadParameter("--quantization is about CTranslate2's format; leave it out with --to huggingface")
        from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face

        print(export_to_hugging_face(folder, output))
        return
    from transformer_cli.adapters.interop.to_ctranslate2 import export  # imports torch

    print(export(folder, output, quantization=quantization).folder)


def config(
    base: str | None = None,
    overrides: list[str] | None = None,
    list_names: bool = False,
) -> None:
    """Print every setting with its value and a comment. The output is YAML that --config takes."""
    if list_names and (base is not None or overrides):
        raise typer.BadParameter("--list prints names; it cannot be used with a config or --set")
    from transformer_cli.config import load

    if list_names:
        shipped = load.shipped_configs()
        width = max(map(len, shipped))
        for each, path in shipped.items():
            first, *_ = load.heading(load.read_config_text(path)).split("\n")
            print(f"{each:{width}}  {first.removeprefix('# ')}")
        return
    chosen = load.load_config(base, overrides or ())
    path = load.SHIPPED / load.PATTERN if base is None else load.find_config(base)
    text = load.read_config_text(path) if path.parent == load.SHIPPED else ""
    if path == load.SHIPPED / load.PATTERN:  # its comments are the schema's
        text = load.heading(text)
    print(load.as_commented_yaml(chosen, text=text, title=f"The settings of {path}"), end="")


def doctor() -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    from transformer_cli.adapters.corpora.multi30k import cache_folder
    from transformer_cli.compute.threads import available_cores
    from transformer_cli.runs.provenance import provenance

    made_by, free = provenance(), devices.free_memory()
    influencing = (f"{name} {value}" for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name))
    _say("tfm", f"{made_by['tfm'] or '–'} in {Path(__file__).parents[1]}")
    _say("python", f"{made_by['python']}, {platform.platform()}")
    _say("packages", _packages())
    _say("variables", ", ".join(influencing))
    _say("folder", f"{Path.cwd()}, {devices.in_words(shutil.disk_usage(Path.cwd()).free)} free")
    _say("downloads", str(cache_folder()))
    _say("processor", f"{made_by['processor']}, {available_cores()} cores")
    _say("memory free", "–" if free is None else devices.in_words(free))
    try:  # with torch, which takes long
        device = devices.choose_device("auto")
    except (ImportError, OSError) as error:  # it is not installed, or damaged
        _say("device", f"no torch ({' '.join(str(error).split())}): exported models alone can be used")
        return
    fast = devices.fast_at_bfloat16(device)
    _say("device", devices.describe(device))
    _say(
        "precision",
        f"{devices.choose_precision('auto', device)}: {f'fast here by {fast}' if fast else 'bfloat16 is slow here'}",
    )


def _say(label: str, found: str) -> None:
    print(f"{label:20}{found}", flush=True)


def _packages() -> str:
    """Returns what tfm and its extras need and what of it is installed, with versions."""
    from importlib import metadata

    from transformer_cli.runs.provenance import DISTRIBUTIONS

    needed, found = [*DISTRIBUTIONS.values()], dict[str, str]()
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed += metadata.requires(DISTRIBUTIONS["tfm"]) or []  # gensim>=4.3; extra == "vectors"
    for name in (re.split(r"[^\w.-]", each)[0] for each in needed if 'extra == "dev"' not in each):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items() if name != DISTRIBUTIONS["tfm"])
