"""`tfm import`, `tfm runs`, `tfm export`, `tfm config` and `tfm doctor`."""

import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transformer_cli.commands import options, suggestions
from transformer_cli.commands.tables import Column, TableFormat, render_table
from transformer_cli.compute import devices
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.system.terminal import escape_controls

if TYPE_CHECKING:
    from transformer_cli.adapters.study.listing import ListedRun

RUNS_DIR = Path("runs")
UNKNOWN = "–"
OWN_COLUMNS = ("data.corpus", "data.source", "data.target", "training.epochs", "training.max_steps", "training.seed")
ENVIRONMENT = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)


def import_run(
    folder: Annotated[Path, typer.Argument(
        metavar="FOLDER", help="The folder of the model, from Marian (.npz, with .spm or .yml) or from Hugging Face "
        "(config.json).")],
    name: Annotated[str | None, typer.Option(
        "--name", metavar="NAME", show_default="FOLDER's", help="The name of the run.")] = None,
    source: Annotated[str | None, options.Input(
        "--source", metavar="CODE", show_default="from the files", help="The source language, such as de.")] = None,
    target: Annotated[str | None, options.Input(
        "--target", metavar="CODE", show_default="from the files", help="The target language, such as en.")] = None,
    model: Annotated[str | None, typer.Option(
        "--model", metavar="FILE", help="The weights file, if FOLDER has several.")] = None,
) -> None:  # fmt: skip
    """Import a Marian model, such as OPUS-MT, as a run.

    translate, evaluate, compare, inspect, serve and export accept the run. To fine-tune it on your own text, use
    `prepare --like` and `train --from`.
    """
    from transformer_cli.adapters.interop.importing import import_run

    print(import_run(folder, name=name, source=source, target=target, model=model).folder)


def runs(form: options.TableFormatOption = "text", as_json: options.AsJson = False) -> None:
    """List the runs under runs/, with their progress and scores."""
    from transformer_cli.adapters.study.listing import differing_settings, list_runs

    found = list_runs(RUNS_DIR)
    if as_json:  # in ASCII, since a name may have bytes that cannot be encoded
        keys = differing_settings([run.settings or {} for run in found])
        shown = [replace(run, settings=run.settings and {key: run.settings.get(key) for key in keys}) for run in found]
        print(json.dumps({"folder": str(RUNS_DIR), "runs": [asdict(run) for run in shown]}))
    elif found:
        print(runs_as_table(found, form))


def runs_as_table(runs: Sequence["ListedRun"], form: TableFormat = "text") -> str:
    """Returns a table of at least one run, with notes below it.

    The columns "of" (the text that BLEU is of) and "case" (lc: ignored) appear only if the runs differ in them. The
    last columns are the seed and differing settings. CSV has all columns and all differing settings.
    """
    from transformer_cli.adapters.study.listing import differing_settings, summarize_settings

    texts = {run.evaluation.text for run in runs if run.evaluation}
    cases = {_is_lowercase(run) for run in runs if run.evaluation}
    settings, is_csv = [run.settings or {} for run in runs], form == "csv"
    keys = [key for key in differing_settings(settings) if key not in OWN_COLUMNS]
    summaries = summarize_settings(settings, without=OWN_COLUMNS)
    heads = dict.fromkeys(head for cells in summaries for head in cells)
    evaluations, newest = [run.evaluation for run in runs], [run.name for run in runs if run.newest]
    corpora = [f"{run.corpus} {run.source}→{run.target}" if run.corpus else None for run in runs]
    columns = [
        Column("run", [run.name for run in runs], lambda name: f"{name}{' *' * (name in newest)}"),
        Column("saved", [run.saved or run.begun for run in runs], _format_date),
        Column("corpus", corpora),
        Column("params", [run.parameters for run in runs], _format_count),
        Column("epochs", [_format_progress(run) for run in runs]),
        Column("loss", [run.best_valid_loss for run in runs], "{:.3f}".format),
        Column("BLEU", [each and each.bleu for each in evaluations], "{:.2f}".format),
        *([Column("of", [each.text if each else "" for each in evaluations])] if is_csv or len(texts) > 1 else []),
        *([Column("case", ["lc" * _is_lowercase(run) for run in runs])] if is_csv or len(cases) > 1 else []),
        *([Column("bytes", [run.bytes for run in runs])] if is_csv else []),
        Column("seed", [each.get("training.seed") for each in settings]),
    ]
    if is_csv:
        columns += [Column(key, [inline_yaml(each[key]) if key in each else None for each in settings]) for key in keys]
    else:
        columns += [Column(head, [cells.get(head) for cells in summaries]) for head in heads]
    total = f"on disk: {devices.format_bytes(sum(run.bytes for run in runs))}"
    notes = [f"loss: validation loss of the best checkpoint; {total}"]
    if texts:
        of = f", of {next(iter(texts))}" if len(texts) == 1 else ""
        lc = "; lc: scored without case" if len(cases) > 1 else ""
        notes.append(f"BLEU: from the last `tfm evaluate` or `tfm compare`{of}{lc}")
    if n_more := len(keys) - len(heads):
        notes.append(f"{n_more} more settings differ; see `tfm runs --json`")
    if newest:
        notes.append("* the newest run, the default of other commands")
    remarks = [line for run in runs for line in _remarks_on(run)]
    columns = [replace(column, unknown=UNKNOWN) for column in columns]
    notes += ["", *map(escape_controls, remarks)] if remarks else []
    return render_table(columns, form, "\n".join(["", *notes]))


def _is_lowercase(run: "ListedRun") -> bool:
    return bool(run.evaluation and "case:lc" in run.evaluation.bleu_signature)


def _format_date(date: str) -> str:
    return f"{datetime.fromisoformat(date).astimezone():%Y-%m-%d}"


def _format_progress(run: "ListedRun") -> str:
    """Returns the progress of training, such as 3/10 (epochs) or 500/2,000 steps."""
    done, end, unit = (run.epochs_done, run.epochs, "") if run.steps is None else (run.steps_done, run.steps, " steps")
    return f"{UNKNOWN if done is None else f'{done:,}'}/{end:,}{unit}" if end else UNKNOWN


def _remarks_on(run: "ListedRun") -> list[str]:
    """Returns remarks on a run that is not finished, is broken, or has outdated scores."""
    lines = {
        "new": [f"no checkpoint yet: {run.name}"],
        "training": [f"in training: {run.name}"],
        "unfinished": [f"unfinished: {run.name}; `{run.resume}` resumes it"],
        "finished": [],
        "broken": [f"broken: {run.problem}"],
    }[run.state]
    if run.evaluation and not run.evaluation_is_current:
        lines.append(f"BLEU of other weights: {run.name}; `tfm evaluate --run {shlex.quote(run.name)}` updates it")
    return lines


def _format_count(number: int) -> str:
    """Formats a number of parameters: 300, 45 k, 1.7 M, 213 M."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1e3:.0f} k"
    return f"{number / 1e6:.1f} M" if number < 99_950_000 else f"{number / 1e6:,.0f} M"


def export(
    run_arguments: options.RunArgument = None,
    run: options.OneRun = None,
    output: Annotated[Path | None, options.Output(
        "--output", "-o", metavar="DIR", show_default="exports/RUN, or exports/RUN-int8 and so on",
        help="The folder to write.")] = None,
    quantization: Annotated[Literal["float32", "float16", "bfloat16", "int16", "int8"], options.Output(
        "--quantization", "-q", help="The data type of the weights; int8 is the smallest, and on CPUs with VNNI the "
        "fastest.")] = "float32",
    to: Annotated[Literal["ctranslate2", "huggingface"], options.Output(
        "--format", help="The format of the folder.")] = "ctranslate2",
) -> None:  # fmt: skip
    """Export a run's best model for CTranslate2 or Hugging Face.

    CTranslate2 translates faster, and without PyTorch; this export needs the extra `ctranslate2`. Use the folder as a
    run: `--run DIR` in translate, evaluate, score and serve, DIR in compare. Its README.md shows how to use it from
    Python without tfm. A folder for Hugging Face can be loaded by transformers' MarianMTModel.
    """
    (folder,) = options.find_runs(run_arguments, run)
    if output and output.parent != Path("exports"):
        options.check_parent_folder(output)
    if to == "huggingface":
        if quantization != "float32":
            raise typer.BadParameter("--quantization cannot be used with --format huggingface; leave it out")
        from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face

        print(export_to_hugging_face(folder, output))
        return
    from transformer_cli.adapters.interop.to_ctranslate2 import export  # imports torch

    print(export(folder, output, quantization=quantization).folder)


def config(
    base: Annotated[str | None, typer.Argument(
        metavar="[NAME|FILE]", show_default="the built-in settings", autocompletion=suggestions.configs,
        help="The config to print: a name that comes with tfm, or a YAML file.")] = None,
    overrides: options.Overrides = None,
    list_names: Annotated[bool, typer.Option("--list", "-l", help="List the configs that come with tfm.")] = False,
) -> None:  # fmt: skip
    """Print every setting with its value and a comment.

    The output is YAML, which --config accepts.
    """
    if list_names and (base is not None or overrides):
        raise typer.BadParameter("--list prints names; it cannot be used with a config or --set")
    from transformer_cli.config import comments, load

    if list_names:
        shipped = load.shipped_configs()
        width = max(map(len, shipped))
        for each, path in shipped.items():
            first, *_ = comments.header_comment(load.read_config_text(path)).split("\n")
            print(f"{each:{width}}  {first.removeprefix('# ')}")
        return
    chosen = load.load_config(base, overrides or ())
    path = load.SHIPPED / load.DEFAULTS_FILE if base is None else load.find_config(base)
    text = load.read_config_text(path) if path.parent == load.SHIPPED else ""
    if path == load.SHIPPED / load.DEFAULTS_FILE:  # its comments are the schema's
        text = comments.header_comment(text)
    print(comments.commented_settings(chosen, text=text, title=f"The settings of {path}"), end="")


def doctor() -> None:
    """Print what a bug report needs: versions, paths and hardware."""
    from transformer_cli.adapters.corpora.multi30k import cache_folder
    from transformer_cli.compute.threads import available_cores
    from transformer_cli.runs.provenance import provenance

    facts, free, python = provenance(), devices.free_memory(), Path(sys.executable).resolve()
    is_private = python.parts[1] in ("home", "root") or any(
        not folder.stat().st_mode & 0o001 for folder in (*python.parents, *Path(sys.executable).parents)
    )
    variables = (f"{name} {value}" for name, value in sorted(os.environ.items()) if ENVIRONMENT.fullmatch(name))
    _print_row("tfm", f"{facts['tfm'] or '–'} in {Path(__file__).parents[1]}")
    _print_row("python", f"{facts['python']}, {platform.platform()}")
    _print_row("interpreter", f"{python}{' (private: a service of another user cannot start it)' * is_private}")
    _print_row("packages", _installed_packages())
    _print_row("variables", ", ".join(variables))
    _print_row("folder", f"{Path.cwd()}, {devices.format_bytes(shutil.disk_usage(Path.cwd()).free)} free")
    _print_row("downloads", str(cache_folder()))
    _print_row("processor", f"{facts['processor']}, {available_cores()} cores")
    _print_row("memory free", "–" if free is None else devices.format_bytes(free))
    try:  # imports torch, which takes long
        device = devices.choose_device("auto")
    except (ImportError, OSError) as error:  # not installed, or damaged
        _print_row("device", f"no torch ({' '.join(str(error).split())}): only exported models can be used")
        return
    unit = devices.bfloat16_unit(device)
    speed = f"fast here by {unit}" if unit else "bfloat16 is slow here"
    _print_row("device", devices.describe_device(device))
    _print_row("precision", f"{devices.choose_precision('auto', device)}: {speed}")


def _print_row(label: str, found: str) -> None:
    print(f"{label:20}{found}", flush=True)


def _installed_packages() -> str:
    """Returns the packages that tfm and its extras need, as far as they are installed, with versions."""
    from importlib import metadata

    from transformer_cli.runs.provenance import DISTRIBUTIONS

    needed, found = [*DISTRIBUTIONS.values()], dict[str, str]()
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed += metadata.requires(DISTRIBUTIONS["tfm"]) or []  # tensorboard>=2.18; extra == "tensorboard"
    for name in (re.split(r"[^\w.-]", each)[0] for each in needed if 'extra == "dev"' not in each):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items() if name != DISTRIBUTIONS["tfm"])
