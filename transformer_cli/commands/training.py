"""`tfm prepare`, `tfm train` and `tfm curves`."""

import json
import logging
import math
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.adapters.study.picture_files import picture_format
from transformer_cli.commands import options, suggestions
from transformer_cli.errors import DataError
from transformer_cli.system.terminal import format_table, shorten

if TYPE_CHECKING:
    from transformer_cli.adapters.corpora.corpora import CleaningReport
    from transformer_cli.data.make_dataset import PreparedDataset

LENGTH_KEYS = ("training.epochs", "training.max_steps")

log = logging.getLogger(__name__)


def prepare(
    files: Annotated[list[Path] | None, typer.Argument(
        metavar="[FILE]...", show_default=False, help="Training text: TMX, XLIFF, .po, TSV, CSV or JSON lines; or two "
        "text files with one side each, such as a.de and a.en.")] = None,
    config: options.ConfigName = None,
    overrides: options.Overrides = None,
    source: Annotated[str | None, options.Input(
        "--source", metavar="CODE", help="The source language of FILEs, such as de; not needed with --like.")] = None,
    target: Annotated[str | None, options.Input(
        "--target", metavar="CODE", help="The target language of FILEs, such as en; not needed with --like.")] = None,
    name: Annotated[str | None, typer.Option(
        "--name", metavar="NAME", show_default="FILE's", help="The name of the run, and of its config file "
        "(NAME.yaml).")] = None,
    to: options.ToLanguage = None,
    columns: Annotated[str | None, options.Input(
        "--columns", metavar="A,B", help="The source and target columns of a table: names, or numbers counted from "
        "1.")] = None,
    like: Annotated[str | None, typer.Option(
        "--like", metavar="RUN", autocompletion=suggestions.runs, help="Prepare text for fine-tuning this run: use its "
        "languages, tokenizers and model shape.")] = None,
    minutes: Annotated[float | None, typer.Option(
        "--minutes", metavar="N", min=0.1, max=100_000.0, show_default="15", help="How long training may take on this "
        "machine; the settings of training in a new NAME.yaml follow from this, by a short trial.")] = None,
    monolingual: Annotated[Path | None, typer.Option(
        "--monolingual", metavar="FILE", help="Sentences of the target language, one per line: a model of the other "
        "direction is trained and translates them, and the result is training text, too.")] = None,
    both_directions: Annotated[bool, typer.Option(
        "--both-directions", help="Train one model that also translates from --target to --source, which `--to` then "
        "chooses.")] = False,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Print which pairs cleaning would leave out, and write nothing.")] = False,
    multi30k_dir: Annotated[Path | None, typer.Option(
        "--multi30k-dir", metavar="FOLDER", help="Read Multi30k's files from this folder instead of downloading them; "
        "the variable TFM_MULTI30K_DIR does the same.")] = None,
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Tokenise parallel text and write a dataset under data/.

    With FILEs, also clean the text, hold some of it out for validation, and write the config NAME.yaml for `tfm train`,
    with the model of the config `demo` by default. If NAME.yaml exists, only its list of files is replaced.
    """
    for file in files or ():
        if not file.exists() and (meant := suggestions.suggest_option(str(file), ["--config", "--set", "--like"])):
            raise typer.BadParameter(f"there is no file {file}; did you mean {meant}?")
    file_options: dict[str, tuple[Any, str]] = {
        "data.source": (source, f"--source {source}"),
        "data.target": (target, f"--target {target}"),
        "data.to": (to, f"--to {to}"),
        "data.both_directions": (both_directions or None, "--both-directions"),
        "name": (name, f"--name {name}"),
        "data.columns": (None if columns is None else [*map(str.strip, columns.split(","))], f"--columns {columns}"),
    }
    settings_given = {key: each for key, each in file_options.items() if each[0] is not None}
    if settings_given and not files:
        raise typer.BadParameter(f"{next(iter(settings_given.values()))[1]} needs FILEs; name them, or use --set")
    bases = [f"{option} {value}" for option, value in (("--config", config), ("--like", like)) if value]
    lengths = [f"--set {each}" for each in overrides or () if each.strip().startswith(LENGTH_KEYS)]
    for option, value, conflicts in (
        ("--minutes", minutes, bases + lengths),
        ("--monolingual", monolingual, bases + ["--both-directions"] * both_directions + [f"--to {to}"] * bool(to)),
        ("--both-directions", both_directions or None, [f"--like {like}"] * bool(like)),
    ):
        if value is not None and (conflicts or not files):
            what = f"cannot be used with {conflicts[0]}; leave one of them out" if files else "needs FILEs; name them"
            raise typer.BadParameter(f"{option} {what}")
    if minutes is not None and math.isnan(minutes):
        raise typer.BadParameter("--minutes is not a number; give a number of minutes, such as 30")
    if source is not None and source == target:
        raise typer.BadParameter(f"--source and --target are both {source}; name two languages")
    from transformer_cli.adapters.corpora.configs import commented_yaml, config_for_files
    from transformer_cli.adapters.corpora.corpora import clean_and_split, open_corpus
    from transformer_cli.adapters.corpora.formats import read_one_side
    from transformer_cli.adapters.finetuning.settings import finetuning_settings
    from transformer_cli.api import prepare
    from transformer_cli.config.load import load_config
    from transformer_cli.data.dataset import Dataset
    from transformer_cli.runs.run import Run
    from transformer_cli.system.files import write_bytes

    inherited, config_path, choose = finetuning_settings(like) if like else None, None, None
    if files:
        held_out = Run.load(like).config.data.held_out if like else None
        settings, config_path, choose = config_for_files(
            files,
            options=settings_given,
            base=config,
            overrides=overrides or (),
            inherited=inherited,
            held_out=held_out,
        )
    else:
        settings = load_config(config, overrides or (), inherited=inherited)
    if choose is None and (minutes or monolingual):
        what = f"{config_path} exists, with settings of its own; give another --name"
        raise typer.BadParameter(f"--minutes and --monolingual are for a new config, but {what}, or leave them out")
    if monolingual and settings.data.to:  # by --set
        raise typer.BadParameter("--monolingual cannot be used with data.both_directions or data.to; leave them out")
    if monolingual:
        read_one_side("--monolingual", monolingual, settings.data)
    if dry_run:
        report = clean_and_split(open_corpus(settings.data, multi30k_dir=multi30k_dir), None)
        print(json.dumps(asdict(report), ensure_ascii=False) if as_json else format_cleaning(report))
        return
    prepared = prepare(settings, multi30k_dir=multi30k_dir)
    reason = ""
    if choose:  # only then torch is imported
        from transformer_cli.adapters.corpora.recipe import DEFAULT_MINUTES, FEW_PAIRS, choose_training
        from transformer_cli.commands.back_translation import BACK_SHARE, add_back_translations

        n_pairs = prepared.manifest["splits"]["train"]["sentences"]
        minutes = None if lengths else minutes or DEFAULT_MINUTES
        if monolingual:
            real = Dataset.open(prepared.folder)
            settings = add_back_translations(settings, real, monolingual, minutes, choose)
            prepared, minutes = prepare(settings), minutes and (1 - BACK_SHARE) * minutes
        settings, reason = choose_training(settings, Dataset.open(prepared.folder), minutes, choose)
        if n_pairs < FEW_PAIRS * (1 + settings.data.both_directions):
            what = "tip: if OPUS-MT has a translator %s→%s, begin with it: `tfm import`, then --like"
            log.info(what, settings.data.source, settings.data.target)
    if not prepared.created:
        log.info("%s: already prepared", prepared.folder)
    is_written = config_path is not None and not (config_path.exists() and load_config(config_path) == settings)
    if config_path and is_written:
        write_bytes(config_path, commented_yaml(settings, config_path, reason).encode())
    print(json.dumps(prepared.manifest, ensure_ascii=False) if as_json else format_prepared(prepared))
    if reason:
        log.info("%s", reason)
    if like and config_path:
        log.info("tip: with --replay FILE, sentences of the kind that %s was trained on, it forgets less of that", like)
    if config_path and not as_json:
        print(f"{f'wrote {config_path}; ' if is_written else ''}next: tfm train --config {config_path}")


def format_cleaning(report: "CleaningReport") -> str:
    """Returns lines with the number of pairs read, left out by each rule (with examples), and in each split."""
    from transformer_cli.adapters.corpora.corpora import MAX_EXAMPLE_CHARS

    lines = [f"{report.read:>11,}  pairs read"]
    for rule, n_pairs in report.left_out.items():
        lines.append(f"{-n_pairs:>11,}  {rule}")
        for where, *sides in report.examples[rule]:
            lines.append(f"{'':13}{where}: {' | '.join(shorten(side, MAX_EXAMPLE_CHARS) for side in sides)}")
    changes = (
        (report.encoding_mended, "with a wrong encoding mended, such as Ã¤ for ä"),
        (report.entities_decoded, "with entities decoded, such as &amp;"),
        (report.kept_together, "moved to the split of pairs with the same source or target"),
    )
    counts = [(n_pairs, what) for n_pairs, what in changes if n_pairs]
    counts += [(n_pairs, split) for split, n_pairs in report.splits.items()]
    return "\n".join([*lines, *(f"{n_pairs:>11,}  {what}" for n_pairs, what in counts)])


def format_prepared(prepared: "PreparedDataset") -> str:
    """Returns the dataset's folder, a table of its splits, and a note on its vocabularies."""
    from transformer_cli.adapters.corpora.corpora import CleaningReport

    manifest = prepared.manifest
    settings = manifest["settings"]
    languages = {side: settings[side] for side in ("source", "target")}
    rows = [("split", "sentences", "side", "tokens", "unknown", "longest")]
    for name, counts in manifest["splits"].items():
        for side, language in languages.items():
            tokens, unknown, longest = (counts[side][key] for key in ("tokens", "unknown_rate", "longest"))
            rows.append((name, f"{counts['sentences']:,}", language, f"{tokens:,}", f"{unknown:.2%}", str(longest)))
    sizes = ", ".join(f"{language} {manifest['vocabulary'][side]:,}" for side, language in languages.items())
    if settings.get("tokens") == "subwords":
        tokenizer = manifest["tokenizer"]
        which = "one for both languages" if settings["joint_vocabulary"] else "one for each language"
        notes = [f"subwords ({tokenizer['algorithm']}, SentencePiece {tokenizer['version']}, {which}): {sizes}"]
    else:
        restored = manifest["detokenizer"]["valid_restored"]
        notes = [
            f"vocabulary (min_freq {settings['min_freq']}): {sizes}",
            f"validation references restored exactly by detokenising: {restored:.1%}",
        ]
    if settings.get("both_directions"):
        both = "train has each pair in both directions: `tfm translate` writes {target}; with --to {source}, {source}"
        notes.append(both.format(**languages))
    cleaning = [format_cleaning(CleaningReport(**manifest["cleaning"]))] if "cleaning" in manifest else []
    return "\n".join([str(prepared.folder), *cleaning, format_table(rows), *notes])


def train(
    config: options.ConfigName = None,
    overrides: options.Overrides = None,
    initial_run: Annotated[str | None, typer.Option(
        "--from", metavar="RUN", autocompletion=suggestions.runs, help="Fine-tune this run: start from its best "
        "weights, and copy the settings that must not differ, such as the model's shape.")] = None,
    extra_valid: Annotated[list[str] | None, typer.Option(
        "--extra-valid", metavar="FILE", help="With --from: also validate on this text, e.g. of the old domain. At the "
        "end, initial and fine-tuned weights are interpolated, to forget less of it. A file of sentence pairs, or the "
        "name of a split or a run (its validation text). Repeatable.")] = None,
    replay: Annotated[list[str] | None, typer.Option(
        "--replay", metavar="FILE", help="With --from: take half of each epoch from this text. A file of sentence "
        "pairs, the name of a split, a run, whose training split it is, or a file of source sentences, which the "
        "initial model translates first. Repeatable.")] = None,
    fresh: Annotated[bool, typer.Option(
        "--fresh", help="Start a new run, and move an existing one of this name aside.")] = False,
    check: Annotated[bool, typer.Option(
        "--check", help="Train for two minutes on trial: print some pairs, time and memory of a step, a learning rate, "
        "and whether 16 pairs can be learned by heart. Leaves NAME-check.png only.")] = False,
) -> None:  # fmt: skip
    """Train a model on a prepared dataset, as a run under runs/.

    The same command continues an interrupted run from its last checkpoint.
    """
    from transformer_cli.adapters.finetuning.settings import finetuning_settings
    from transformer_cli.config.load import load_config

    inherited = None if initial_run is None else finetuning_settings(initial_run)
    texts = {"extra_valid": ("--extra-valid", extra_valid), "replay": ("--replay", replay)}
    given = {f"training.{key}": (files, f"{option} {files[0]}") for key, (option, files) in texts.items() if files}
    settings = load_config(config, overrides or (), options=given, inherited=inherited)
    from transformer_cli import api
    from transformer_cli.compute.world import World
    from transformer_cli.system.memory import keep_freed_memory

    keep_freed_memory()
    if check:
        if fresh or World.from_environment().size > 1:
            raise typer.BadParameter("--check makes no run, and takes one process: leave out --fresh and torchrun")
        from transformer_cli.adapters.study.check import Check, CheckEnded
        from transformer_cli.runs.finding import run_names

        picture = Path(f"{settings.run_name}-check.png")
        options.check_writable(picture)
        with TemporaryDirectory() as runs, suppress(CheckEnded):
            for name in {*run_names(Path("runs"))} - {settings.run_name}:  # which the settings may name
                Path(runs, name).symlink_to(Path("runs", name).resolve())
            api.train(settings, runs_dir=Path(runs), callbacks=[Check(picture, partial(print, flush=True))])
        return
    run = api.train(settings, fresh=fresh)
    if World.from_environment().is_main:
        if run.config.data.tokens == "subwords":
            log.info("tip: `tfm export %s` makes single sentences start faster (no PyTorch)", run.folder)
        if run.config.training.extra_valid:
            rows, verdicts = api.finetuning_table(run)
            print("\n".join([format_table(rows), *verdicts]))


def curves(
    run_arguments: options.RunArguments = None,
    run: options.SeparateRuns = None,
    output: Annotated[Path, options.Output(
        "--output", "-o", metavar="FILE", help="The picture to write: .svg, .pdf or .png.")] = Path("curves.png"),
) -> None:  # fmt: skip
    """Draw the learning curves of runs.

    Several runs share one picture, which names the settings in which they differ.
    """
    picture_format(output)
    options.check_writable(output)
    folders = options.find_runs(run_arguments, run)
    from transformer_cli.adapters.study import plots
    from transformer_cli.adapters.study.listing import summarize_settings
    from transformer_cli.config.load import settings_by_key
    from transformer_cli.runs.run import Run
    from transformer_cli.runs.state import validations_so_far

    opened = [Run.open(folder) for folder in folders]
    differing = summarize_settings([settings_by_key(each.config) for each in opened])
    histories = {}
    for each, settings in zip(opened, differing, strict=True):
        history = [asdict(validation) for validation in validations_so_far(each)]
        if not history:
            raise DataError(f"{each.folder}: no validation to draw yet; train on")
        differences = ", ".join(f"{key} {value}" for key, value in settings.items())
        histories[f"{each.folder} ({differences})" if differences else str(each.folder)] = history
    with options.name_in_errors(output):
        plots.save(plots.draw_curves(histories), output)
    print(output)
