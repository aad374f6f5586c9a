"""Opens a run for training, and locks it: resumes from its last checkpoint, or makes a new run. Knows no steps."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from transformer_cli.compute.devices import bfloat16_unit, choose_precision, choose_shards, device_name
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.config.load import differences, settings_by_key
from transformer_cli.config.schema import Affects, Config, DataConfig, TrainingConfig, keys_affecting
from transformer_cli.data.dataset import Dataset, find_dataset, is_made_from
from transformer_cli.errors import ConfigError
from transformer_cli.model.size import check_model_memory
from transformer_cli.runs.checkpoints import Checkpoint, finish_save, load_last
from transformer_cli.runs.finding import move_latest
from transformer_cli.runs.folder import free_name, is_new, training_lock
from transformer_cli.runs.metadata import write_config
from transformer_cli.runs.provenance import provenance, provenance_changes
from transformer_cli.runs.run import Run, find_tokenizer_run
from transformer_cli.runs.state import Validation, read_validations
from transformer_cli.system.files import delete_unfinished
from transformer_cli.system.locks import exclusive_lock
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES
from transformer_cli.training.callbacks import Callback
from transformer_cli.training.texts import fitting_rows

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Environment:
    """The device, the folder of the datasets, and the processes of training."""

    device: torch.device
    data_dir: Path
    world: World = SINGLE_PROCESS


@dataclass(frozen=True)
class OpenedRun:
    """A run that is ready to be trained."""

    run: Run
    dataset: Dataset
    checkpoint: Checkpoint
    """the last one, or a new model"""
    validations: Sequence[Validation] = ()
    """those before the checkpoint"""


@contextmanager
def open_run(
    folder: Path, config: Config, where: Environment, callbacks: Sequence[Callback] = (), *, fresh: bool = False
) -> Iterator[OpenedRun]:
    """Yields the run in a folder, resumed if it has a checkpoint, else a new one. It is locked during the block.

    The main process opens or makes the run, and then the others open it. fresh: move an old run aside, and make a new
    one. Raises DataError without a dataset, CheckpointError for a damaged run, ConfigError if the run has other
    settings or another process trains it, MemoryShortage if the model does not fit, and what callbacks raise. On an
    error, nothing but the lock has been written, and nothing has been moved.
    """
    world = where.world
    with ExitStack() as lock:
        with world.fail_together():
            if world.is_main:
                if not folder.parent.exists():
                    open_dataset(config, where, folder.parent)  # raises before the lock makes runs/
                lock.enter_context(_lock_run(folder))
                # when torchrun restarts the processes, the run that this command has made is resumed
                opened = _open_on_main(folder, config, where, callbacks, fresh=fresh and not world.is_restarted)
        with world.fail_together():
            if not world.is_main:
                opened = _open_on_others(folder, where)
        yield opened


def _open_on_main(
    folder: Path, config: Config, where: Environment, callbacks: Sequence[Callback], *, fresh: bool
) -> OpenedRun:
    """Open or make the run in a folder; see `open_run`."""
    old = None if fresh or is_new(folder) else Run.open(folder)
    if old:
        _refuse_other_settings(old, config)  # before the dataset is opened, which may be gone
    dataset = open_dataset(old.config if old else config, where, folder.parent)
    _refuse_other_text(dataset, config, old)
    if old:
        opened = load_run(old, dataset)
        if changes := provenance_changes(old.metadata.provenance, provenance(device=device_name(where.device))):
            log.warning("%s: these changes may alter the last digits of the weights: %s", folder, changes)
        data = old.config.data.model_copy(update={"files": config.data.files})
        resolved = _resolve_config(config, data, where, old.config.training)
        finish_save(old, opened.checkpoint.state)
        write_config(folder, resolved)
        return replace(opened, run=replace(old, config=resolved))
    for split in ("train", "valid"):
        fitting_rows(dataset.split(split), split, config.model.max_length)
    for callback in callbacks:
        callback.before_new_run(config, dataset, folder.parent)
    if folder.exists() and fresh:
        _move_aside(folder)
    data = config.data.model_copy(update={"fingerprint": dataset.fingerprint})
    run = Run.create(folder, _resolve_config(config, data, where), dataset, device=device_name(where.device))
    opened = new_run(run, dataset)
    for callback in callbacks:
        callback.on_new_run(run, opened.checkpoint)
    return opened


def _open_on_others(folder: Path, where: Environment) -> OpenedRun:
    """Open the run that the main process has opened or made. Raises CheckpointError or DataError."""
    run = Run.open(folder)
    dataset = Dataset.open(find_dataset(run.config.data, where.data_dir))
    return load_run(run, dataset) if run.has_checkpoint("last") else new_run(run, dataset)


def open_dataset(config: Config, where: Environment, runs_dir: Path) -> Dataset:
    """Open the dataset of a config. Raises DataError, or MemoryShortage if its model is too large to be trained."""
    codec_dir = find_tokenizer_run(config.data, runs_dir) if config.data.fingerprint is None else None
    dataset = Dataset.open(find_dataset(config.data, where.data_dir, codec_dir))
    sizes = (len(dataset.codecs.source), len(dataset.codecs.target))
    check_model_memory(config.model, sizes, device=where.device, frozen=config.training.freeze)
    return dataset


def new_run(run: Run, dataset: Dataset) -> OpenedRun:
    """Returns a run with a new model."""
    return OpenedRun(run, dataset, Checkpoint(run.new_model()))


def load_run(run: Run, dataset: Dataset) -> OpenedRun:
    """Returns a run with its last checkpoint. Raises CheckpointError if anything that training needs is damaged."""
    checkpoint = load_last(run)
    validations = read_validations(run, checkpoint.state)
    if checkpoint.state.n_validations and not checkpoint.state.is_best:
        run.checkpoint("best")  # raises if it is gone
    return OpenedRun(run, dataset, checkpoint, validations)


def _move_aside(folder: Path) -> None:
    """Rename a run's folder, for example to multi30k.old-1. If `latest` names the run, updates `latest`."""
    names = (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
    aside = folder.rename(next(path for path in names if not path.exists()))
    move_latest(folder, aside)
    log.info("moved the old run to %s", aside)


@contextmanager
def _lock_run(folder: Path) -> Iterator[None]:
    """Lock a run for training during the block. Raises ConfigError if another process trains it.

    Deletes the unfinished files of a killed process, unless the file system has no locks.
    """
    with ExitStack() as locks:
        try:
            # two for a symbolic link, since --fresh renames the link and makes a folder in its place
            paths = sorted({training_lock(folder), folder.with_name(f".{folder.name}.lock")})
            are_held = [locks.enter_context(exclusive_lock(path)) for path in paths]
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is being trained by another process; wait for it, or give --set name={free_name(folder)} to "
                "train another run"
            ) from None
        for each in (folder, folder / "checkpoints") if all(are_held) else ():
            delete_unfinished(each, idle_s=0)
        yield


def _resolve_config(config: Config, data: DataConfig, where: Environment, old: TrainingConfig | None = None) -> Config:
    """Returns the config to write into the run's folder: name, dataset, precision and shards are filled in.

    old: the settings of a resumed run, which keeps its precision and its shards.
    """
    precision = _choose_precision(old.precision if old else "auto", config.training.precision, where.device)
    shards = choose_shards((old or config.training).shards, where.world)
    training = config.training.model_copy(update={"precision": precision, "shards": shards})
    return config.model_copy(update={"name": config.run_name, "data": data, "training": training})


def _choose_precision(before: str, wanted: str, device: torch.device) -> str:
    """Returns the precision of a run: as before, unless the config names another one.

    before: "auto" for a new run, or if the user has edited the run's config.yaml.
    """
    if before == "auto":
        return choose_precision(wanted, device)
    if wanted not in ("auto", before):
        log.warning("training.precision: %s until now, %s from here on", before, wanted)
        return wanted
    if wanted == "auto" and before == "bfloat16" and not bfloat16_unit(device):
        log.warning(
            "training resumes in bfloat16, as it began, which is slow on %s; change it by --set "
            "training.precision=float32",
            device,
        )
    return before


def _refuse_other_settings(run: Run, config: Config) -> None:
    """Raises ConfigError if the run has other settings, except for those that may change.

    Paths of data.files are not compared: `_refuse_other_text` compares their content.
    """
    ignore = [*keys_affecting(Affects.NOTHING), *_moved_vectors(run.config, config)]
    if run.config.data.files and config.data.files:
        keys = (*settings_by_key(run.config), *settings_by_key(config))
        ignore += [key for key in keys if key.startswith("data.files.")]
    if config.data.fingerprint is None:
        ignore.append("data.fingerprint")
    if config.training.shards is None:
        ignore.append("training.shards")
    if config.data.lowercased == run.config.data.lowercased:  # null in one of them may mean the same as true or false
        ignore.append("data.lowercase")
    changed = differences(run.config, config, ignore)
    if changed:
        raise ConfigError(
            f"{run.folder} was begun with other settings ({'; '.join(changed)}): give the old ones to resume it, "
            f"--set name={free_name(run.folder)} to train another run, or --fresh to move this one aside and begin anew"
        )
    old, (unit, number) = run.config.training, config.training.end
    if old.needs_horizon and (unit, number) != old.end:
        raise ConfigError(
            f"training.{config.training.end_key}: {number}, but the {old.schedule} schedule of {run.folder} is planned "
            f"over {pluralize(old.end[1], old.end[0][:-1])}; give that to resume it, "
            f"--set name={free_name(run.folder)} to train another run, or --fresh to begin anew"
        )


def _refuse_other_text(dataset: Dataset, config: Config, old: Run | None) -> None:
    """Raises ConfigError if the text of data.files has changed since the dataset was made. old: the resumed run."""
    data = config.data
    if old:
        is_unchanged = data.fingerprint is not None and data.files == old.config.data.files
        remedy = (
            f"give --set name={free_name(old.folder)} to train another run on the new text, --fresh to move this one "
            f"aside and begin anew, or --config {old.folder / 'config.yaml'} to resume it with the old text"
        )
    else:
        is_unchanged = data.fingerprint is None  # the dataset was found by its text
        remedy = "take data.fingerprint out of the config, and run `tfm prepare`"
    if data.files and not is_unchanged and not is_made_from(dataset.manifest, data):
        raise ConfigError(f"{dataset.folder} was made before the text of data.files was changed; {remedy}")


def _moved_vectors(old: Config, new: Config) -> list[str]:
    """Returns the keys of vectors whose file is in another folder now. A resumed run does not read them."""
    keys = []
    for side in SIDES:
        before, now = getattr(old.model.vectors, side), getattr(new.model.vectors, side)
        if before and now and Path(before).name == Path(now).name and not Path(before).exists():
            keys.append(f"model.vectors.{side}")
    return keys
