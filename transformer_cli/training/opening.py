"""Opens the run that is trained, under its lock: the one on disk with its last save, or a new one. Knows no steps."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from transformer_cli.adapters.finetuning.beside import encoded, keep_beside, read_beside
from transformer_cli.adapters.finetuning.pretrained import begin_with, no_frozen_rows, read_pretrained, read_weights
from transformer_cli.compute.devices import choose_lanes, choose_precision, device_name, fast_at_bfloat16
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.load import differences, settings_by_key
from transformer_cli.config.schema import Config, DataConfig, Decides, TrainingConfig, keys_that_decide
from transformer_cli.data.dataset import Dataset, EncodedSplit, Rows, find_dataset, is_text_of
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.model.size import refuse_without_room
from transformer_cli.runs.checkpoints import Checkpoint, finish_save, load_last
from transformer_cli.runs.provenance import changes, provenance
from transformer_cli.runs.run import Run, find_codec, follow_latest, free_name, is_new, training_lock, write_config
from transformer_cli.runs.state import Validation, read_validations
from transformer_cli.system.files import sweep
from transformer_cli.system.locks import exclusive
from transformer_cli.text.codec import SIDES

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Here:
    """Where a run is trained: on which device, with which datasets, in which processes."""

    device: torch.device
    data_dir: Path
    world: World = ALONE


@dataclass(frozen=True)
class ReadyToTrain:
    """A run that is ready to be trained."""

    run: Run
    dataset: Dataset
    start: Checkpoint
    """the last save, or a model that has learned nothing yet"""
    validations: Sequence[Validation] = ()
    """those before `start`"""


@contextmanager
def open_run(folder: Path, config: Config, here: Here, *, fresh: bool) -> Iterator[ReadyToTrain]:
    """Yield the run on disk if anything of it was saved, else a new one; nobody else trains it during the block.

    fresh: move an existing run aside, and make a new one. Raises DataError without a dataset, CheckpointError if a part
    of the run on disk is gone, ConfigError if it was begun with other settings or somebody else is training it,
    MemoryShortage if the memory cannot hold what training needs; in all of these cases nothing but the lock has been
    written, and nothing has been moved.
    """
    if not folder.parent.exists():
        open_dataset(config, folder.parent, here)  # what is refused leaves no folder
    with _locked(folder) as is_held:
        for place in (folder, folder / "checkpoints") if is_held else ():
            sweep(place, idle_s=0)  # nobody else writes there
        yield begin(folder, config, here, fresh=fresh) if fresh or is_new(folder) else resume(folder, config, here)


def begin(folder: Path, config: Config, here: Here, *, fresh: bool) -> ReadyToTrain:
    """Make a new run. fresh: move what is in its place aside. Raises as `open_run` does."""
    dataset = open_dataset(config, folder.parent, here)
    if config.data.fingerprint is not None:  # else it was found by its text
        _refuse_other_text(dataset, config.data, "take data.fingerprint out of the config, and run `tfm prepare`")
    longest = config.model.max_length
    # what these raise leaves the old run in place
    for split in ("train", "valid"):
        fitting_rows(dataset.split(split), split, longest)
    vectors, weights = read_pretrained(config, dataset), read_weights(config, dataset, folder.parent)
    beside = read_beside(config, dataset, folder.parent)
    rate = config.training.muon_learning_rate
    if config.training.optimizer != "muon" and rate != TrainingConfig.model_fields["muon_learning_rate"].default:
        log.warning("training.muon_learning_rate: %g changes nothing without training.optimizer: muon", rate)
    for kind, pairs in beside.items():
        for pair in pairs:  # one that fits will do: all are encoded when training begins
            alone = encoded([[side] for side in pair], dataset.codecs)
            if len(alone.rows_within(longest)):
                break
        fitting_rows(alone, kind, longest)
    if fresh and folder.exists():
        names = (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
        aside = folder.rename(next(path for path in names if not path.exists()))
        follow_latest(folder, aside)
        log.info("moved the old run to %s", aside)
    data = config.data.model_copy(update={"fingerprint": dataset.fingerprint})
    precision = choose_precision(config.training.precision, here.device)
    lanes = choose_lanes(config.training.lanes, here.world)
    run = Run.create(folder, _resolved(config, data, precision, lanes), dataset, device=device_name(here.device))
    keep_beside(run, beside)
    ready = new_run(run, dataset)
    begin_with(ready.start, vectors, weights)
    return ready


def fitting_rows(split: EncodedSplit, name: str, max_length: int | None) -> Rows:
    """Returns the rows of the pairs of a split that fit in max_length positions. Raises DataError if none does."""
    rows = split.rows_within(max_length)
    if not len(rows):
        raise DataError(f"no pair of {name} fits in model.max_length {max_length}; shorten its sentences")
    return rows


def resume(folder: Path, config: Config, here: Here) -> ReadyToTrain:
    """Load the last save of a run, with the settings of `config` that may change. Raises as `open_run` does."""
    run = Run.open(folder)
    begun = run.config
    _check_settings(run, config)  # before the dataset, which need not be there any more
    ready = load_run(run, open_dataset(begun, folder.parent, here))
    if config.data.fingerprint is None or config.data.files != begun.data.files:
        _refuse_other_text(
            ready.dataset,
            config.data,
            f"give --set name={free_name(folder)} to train another run on the new text, --fresh to move this "
            f"one aside and begin anew, or --config {folder / 'config.yaml'} to go on with the text as it was",
        )
    if other := changes(run.identity.provenance, provenance(device=device_name(here.device))):
        log.warning("%s goes on with what may change the last digits of its weights: %s", folder, other)
    data = begun.data.model_copy(update={"files": config.data.files})
    precision = _precision(begun.training.precision, config.training.precision, here.device)
    resolved = _resolved(config, data, precision, choose_lanes(begun.training.lanes, here.world))
    finish_save(run, ready.start.state)  # which a kill may have cut off
    write_config(folder, resolved)
    return replace(ready, run=replace(run, config=resolved))


def open_dataset(config: Config, runs_dir: Path, here: Here) -> Dataset:
    """Returns the dataset of a config. Raises DataError, or MemoryShortage if there is no room to train its model."""
    codec_dir = find_codec(config.data, runs_dir) if config.data.fingerprint is None else None
    dataset = Dataset.open(find_dataset(config.data, here.data_dir, codec_dir))
    sizes = (len(dataset.codecs.source), len(dataset.codecs.target))
    refuse_without_room(config.model, sizes, device=here.device, frozen=config.training.freeze)
    return dataset


def join_run(folder: Path, data_dir: Path) -> ReadyToTrain:
    """Returns the run that another process has opened with `open_run`. Raises CheckpointError or DataError."""
    run = Run.open(folder)
    dataset = Dataset.open(find_dataset(run.config.data, data_dir))
    return load_run(run, dataset) if run.has_checkpoint("last") else new_run(run, dataset)


def new_run(run: Run, dataset: Dataset) -> ReadyToTrain:
    """Returns a run with a model that has learned nothing yet."""
    model = run.new_model()
    return ReadyToTrain(run, dataset, Checkpoint(model, frozen_rows=no_frozen_rows(model)))


def load_run(run: Run, dataset: Dataset) -> ReadyToTrain:
    """Returns a run with its last save. Raises CheckpointError if something that training needs is gone or damaged."""
    start = load_last(run)
    validations = read_validations(run, start.state)
    if start.state.validations and not start.state.is_best:  # else there is no best save yet, or it is the last one
        run.checkpoint("best")
    return ReadyToTrain(run, dataset, start, validations)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Make sure that nobody else trains the run in `folder` during the block. Raises ConfigError if somebody does.

    Yields whether that is sure: some file systems have no locks.
    """
    with ExitStack() as locks:
        try:
            # of a link both names: --fresh moves the link aside, and makes a folder of that name
            paths = sorted({training_lock(folder), folder.with_name(f".{folder.name}.lock")})
            are_held = [locks.enter_context(exclusive(path)) for path in paths]
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is being trained by another process; wait for it, or give --set name={free_name(folder)} to "
                "train another run"
            ) from None
        yield all(are_held)


def _resolved(config: Config, data: DataConfig, precision: str, lanes: int) -> Config:
    """Returns the config as the run keeps it: with its name, the dataset, precision and lanes that were chosen."""
    training = config.training.model_copy(update={"precision": precision, "lanes": lanes})
    return config.model_copy(update={"name": config.run_name, "data": data, "training": training})


def _precision(before: str, wanted: str, device: torch.device) -> str:
    """Returns the precision of a run that goes on: the one it has had, unless the config names another one."""
    if before == "auto":  # somebody has edited the run's config.yaml
        return choose_precision(wanted, device)
    if wanted not in ("auto", before):
        log.warning("training.precision: %s until now, %s from here on", before, wanted)
        return wanted
    if wanted == "auto" and before == "bfloat16" and not fast_at_bfloat16(device):
        log.warning(
            "training goes on in bfloat16, as it began, which is slow on %s; --set training.precision=float32 "
            "changes it",
            device,
        )
    return before


def _check_settings(run: Run, config: Config) -> None:
    """Raises ConfigError if the run was begun with other settings, except for the settings that may change.

    Whether files have another text is seen later, by their content.
    """
    ignore = [*keys_that_decide(Config, Decides.FREE), *_moved_vectors(run.config, config)]
    if run.config.data.files and config.data.files:
        ignore += [
            key for each in (run.config, config) for key in settings_by_key(each) if key.startswith("data.files.")
        ]
    if config.data.fingerprint is None:
        ignore.append("data.fingerprint")
    if config.training.lanes is None:
        ignore.append("training.lanes")
    if config.data.lowercased == run.config.data.lowercased:  # null means one of both
        ignore.append("data.lowercase")
    changed = differences(run.config, config, ignore)
    if changed:
        raise ConfigError(
            f"{run.folder} was begun with other settings ({'; '.join(changed)}): give the old ones to go on, "
            f"--set name={free_name(run.folder)} to train another run, or --fresh to move this one aside and begin anew"
        )
    begun, (unit, number) = run.config.training, config.training.end
    if begun.is_planned_to_the_end and (unit, number) != begun.end:
        over = f"{begun.end[1]} {begun.end[0]}"
        raise ConfigError(
            f"training.{unit}: {number}, but the {begun.schedule} schedule of {run.folder} is planned "
            f"over {over}; give that to go on, --set name={free_name(run.folder)} to train another "
            "run, or --fresh to begin anew"
        )


def _refuse_other_text(dataset: Dataset, data: DataConfig, remedy: str) -> None:
    """Raises ConfigError if the user's own files have other text now than a dataset was made from."""
    if data.files and not is_text_of(dataset.manifest, data):
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
