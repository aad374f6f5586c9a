"""Opens the run that is trained, under its lock: the one on disk with its last save, or a new one. Knows no steps."""

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
from transformer_cli.runs.provenance import provenance, provenance_changes
from transformer_cli.runs.run import (
    Run,
    find_tokenizer_run,
    free_name,
    is_new,
    move_latest,
    training_lock,
    write_config,
)
from transformer_cli.runs.state import Validation, read_validations
from transformer_cli.system.files import delete_unfinished
from transformer_cli.system.locks import exclusive_lock
from transformer_cli.text.codec import SIDES
from transformer_cli.training.callbacks import Callback
from transformer_cli.training.texts import fitting_rows

EMBEDDING_NAME = "{}_embedding.tokens.weight"  # the name of a side's token vectors in the model

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Environment:
    """Where a run is trained: on which device, with which datasets, in which processes."""

    device: torch.device
    data_dir: Path
    world: World = SINGLE_PROCESS


@dataclass(frozen=True)
class OpenedRun:
    """A run that is ready to be trained."""

    run: Run
    dataset: Dataset
    start: Checkpoint
    """the last save, or a model that has learned nothing yet"""
    validations: Sequence[Validation] = ()
    """those before `start`"""


@contextmanager
def open_run(
    folder: Path, config: Config, where: Environment, callbacks: Sequence[Callback] = (), *, fresh: bool = False
) -> Iterator[OpenedRun]:
    """Yield the run on disk if anything of it was saved, else a new one; nobody else trains it during the block.

    fresh: move an existing run aside, and make a new one. Raises DataError without a dataset, CheckpointError if a part
    of the run on disk is gone, ConfigError if it was begun with other settings or somebody else is training it,
    MemoryShortage if the memory cannot hold what training needs, and what the callbacks raise; in all of these cases
    nothing but the lock has been written, and nothing has been moved. Of several processes the first opens the run, and
    the others join it.
    """
    world = where.world
    with ExitStack() as held:
        with world.fail_together():
            if world.is_main:
                if not folder.parent.exists():
                    open_dataset(config, where, folder.parent)  # what is refused leaves no folder
                held.enter_context(_lock_run(folder))
                # a restarted process goes on with the run that this command has made
                opened = _open_on_main(folder, config, where, callbacks, fresh=fresh and not world.is_restarted)
        with world.fail_together():
            if not world.is_main:
                opened = _open_on_others(folder, where)
        yield opened


def _open_on_main(
    folder: Path, config: Config, where: Environment, callbacks: Sequence[Callback], *, fresh: bool
) -> OpenedRun:
    """Open or make the run in a folder: its settings, its dataset and codecs, its model, its state. See `open_run`."""
    begun = None if fresh or is_new(folder) else Run.open(folder)
    if begun:
        _refuse_other_settings(begun, config)  # before the dataset, which need not be there any more
    dataset = open_dataset(begun.config if begun else config, where, folder.parent)
    _refuse_other_text(dataset, config, begun)
    if begun:
        opened = load_run(begun, dataset)
        if other := provenance_changes(begun.metadata.provenance, provenance(device=device_name(where.device))):
            log.warning("%s goes on with what may change the last digits of its weights: %s", folder, other)
        data = begun.config.data.model_copy(update={"files": config.data.files})
        resolved = _resolve_config(config, data, where, begun.config.training)
        finish_save(begun, opened.start.state)  # which a kill may have cut off
        write_config(folder, resolved)
        return replace(opened, run=replace(begun, config=resolved))
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
        callback.on_new_run(run, opened.start)
    return opened


def _open_on_others(folder: Path, where: Environment) -> OpenedRun:
    """Returns the run that the first process has opened. Raises CheckpointError or DataError."""
    run = Run.open(folder)
    dataset = Dataset.open(find_dataset(run.config.data, where.data_dir))
    return load_run(run, dataset) if run.has_checkpoint("last") else new_run(run, dataset)


def open_dataset(config: Config, where: Environment, runs_dir: Path) -> Dataset:
    """Returns the dataset of a config. Raises DataError, or MemoryShortage if there is no room to train its model."""
    codec_dir = find_tokenizer_run(config.data, runs_dir) if config.data.fingerprint is None else None
    dataset = Dataset.open(find_dataset(config.data, where.data_dir, codec_dir))
    sizes = (len(dataset.codecs.source), len(dataset.codecs.target))
    check_model_memory(config.model, sizes, device=where.device, frozen=config.training.freeze)
    return dataset


def new_run(run: Run, dataset: Dataset) -> OpenedRun:
    """Returns a run with a model that has learned nothing yet."""
    model = run.new_model()
    names = map(EMBEDDING_NAME.format, model.config.pretrained if model.config.vectors.freeze else ())
    frozen_rows = {name: torch.zeros(len(model.get_parameter(name)), dtype=torch.bool) for name in names}
    return OpenedRun(run, dataset, Checkpoint(model, frozen_rows=frozen_rows))


def load_run(run: Run, dataset: Dataset) -> OpenedRun:
    """Returns a run with its last save. Raises CheckpointError if something that training needs is gone or damaged."""
    start = load_last(run)
    validations = read_validations(run, start.state)
    if start.state.n_validations and not start.state.is_best:  # else there is no best save yet, or it is the last one
        run.checkpoint("best")
    return OpenedRun(run, dataset, start, validations)


def _move_aside(folder: Path) -> None:
    """Rename a run's folder, to multi30k.old-1 for example, and let `latest` follow it."""
    names = (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
    aside = folder.rename(next(path for path in names if not path.exists()))
    move_latest(folder, aside)
    log.info("moved the old run to %s", aside)


@contextmanager
def _lock_run(folder: Path) -> Iterator[None]:
    """Make sure that nobody else trains the run in `folder` during the block. Raises ConfigError if somebody does.

    What a killed process left unfinished there is deleted, unless the file system has no locks.
    """
    with ExitStack() as locks:
        try:
            # of a link both names: --fresh moves the link aside, and makes a folder of that name
            paths = sorted({training_lock(folder), folder.with_name(f".{folder.name}.lock")})
            are_held = [locks.enter_context(exclusive_lock(path)) for path in paths]
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is being trained by another process; wait for it, or give --set name={free_name(folder)} to "
                "train another run"
            ) from None
        for place in (folder, folder / "checkpoints") if all(are_held) else ():
            delete_unfinished(place, idle_s=0)  # nobody else writes there
        yield


def _resolve_config(
    config: Config, data: DataConfig, where: Environment, begun: TrainingConfig | None = None
) -> Config:
    """Returns the config as a run keeps it: with its name, its dataset, and the precision and shards that are chosen.

    begun: of a run that goes on, the settings with which it was begun: it keeps their precision and shards.
    """
    precision = _choose_precision(begun.precision if begun else "auto", config.training.precision, where.device)
    shards = choose_shards((begun or config.training).shards, where.world)
    training = config.training.model_copy(update={"precision": precision, "shards": shards})
    return config.model_copy(update={"name": config.run_name, "data": data, "training": training})


def _choose_precision(before: str, wanted: str, device: torch.device) -> str:
    """Returns the precision of a run: the one that it has had, unless the config names another one.

    before: auto for a new run, or if somebody has edited the run's config.yaml.
    """
    if before == "auto":
        return choose_precision(wanted, device)
    if wanted not in ("auto", before):
        log.warning("training.precision: %s until now, %s from here on", before, wanted)
        return wanted
    if wanted == "auto" and before == "bfloat16" and not bfloat16_unit(device):
        log.warning(
            "training goes on in bfloat16, as it began, which is slow on %s; --set training.precision=float32 "
            "provenance_changes it",
            device,
        )
    return before


def _refuse_other_settings(run: Run, config: Config) -> None:
    """Raises ConfigError if the run was begun with other settings, except for the settings that may change.

    Whether files have another text is seen later, by their content.
    """
    ignore = [*keys_affecting(Affects.NOTHING), *_moved_vectors(run.config, config)]
    if run.config.data.files and config.data.files:
        ignore += [
            key for each in (run.config, config) for key in settings_by_key(each) if key.startswith("data.files.")
        ]
    if config.data.fingerprint is None:
        ignore.append("data.fingerprint")
    if config.training.shards is None:
        ignore.append("training.shards")
    if config.data.lowercased == run.config.data.lowercased:  # null means one of both
        ignore.append("data.lowercase")
    changed = differences(run.config, config, ignore)
    if changed:
        raise ConfigError(
            f"{run.folder} was begun with other settings ({'; '.join(changed)}): give the old ones to go on, "
            f"--set name={free_name(run.folder)} to train another run, or --fresh to move this one aside and begin anew"
        )
    begun, (unit, number) = run.config.training, config.training.end
    if begun.needs_horizon and (unit, number) != begun.end:
        over = f"{begun.end[1]} {begun.end[0]}"
        raise ConfigError(
            f"training.{config.training.end_key}: {number}, but the {begun.schedule} schedule of {run.folder} is "
            f"planned over {over}; give that to go on, --set name={free_name(run.folder)} to train another run, or "
            "--fresh to begin anew"
        )


def _refuse_other_text(dataset: Dataset, config: Config, begun: Run | None) -> None:
    """Raises ConfigError if the user's own files have other text now than the dataset was made from.

    begun: the run that goes on with it. A dataset that was found by its text need not be compared.
    """
    data = config.data
    if begun:
        is_known = data.fingerprint is not None and data.files == begun.config.data.files
        remedy = (
            f"give --set name={free_name(begun.folder)} to train another run on the new text, --fresh to move this one "
            f"aside and begin anew, or --config {begun.folder / 'config.yaml'} to go on with the text as it was"
        )
    else:
        is_known = data.fingerprint is None
        remedy = "take data.fingerprint out of the config, and run `tfm prepare`"
    if data.files and not is_known and not is_made_from(dataset.manifest, data):
        raise ConfigError(f"{dataset.folder} was made before the text of data.files was changed; {remedy}")


def _moved_vectors(old: Config, new: Config) -> list[str]:
    """Returns the keys of vectors whose file has another place now, and the same name, and is gone from its old place.

    They are in the weights since the run was begun, and are not read again.
    """
    keys = []
    for side in SIDES:
        before, now = getattr(old.model.vectors, side), getattr(new.model.vectors, side)
        if before and now and Path(before).name == Path(now).name and not Path(before).exists():
            keys.append(f"model.vectors.{side}")
    return keys
