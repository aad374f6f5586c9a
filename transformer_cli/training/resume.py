"""Opens a run for training, and locks it: resumes the one on disk, or makes a new one, as decision.py decides."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transformer_cli.compute.devices import choose_precision, choose_shards, device_name
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, find_dataset, is_made_from
from transformer_cli.errors import ConfigError
from transformer_cli.model.size import check_model_memory
from transformer_cli.runs.checkpoints import Checkpoint, finish_save, load_last
from transformer_cli.runs.finding import move_aside
from transformer_cli.runs.folder import free_name, is_new, lock_run
from transformer_cli.runs.metadata import write_config
from transformer_cli.runs.provenance import provenance, provenance_changes
from transformer_cli.runs.run import Run, find_tokenizer_run
from transformer_cli.runs.state import Validation, read_validations
from transformer_cli.scoring.losses import warn_if_losses_changed
from transformer_cli.training.callbacks import Callback
from transformer_cli.training.decision import decide
from transformer_cli.training.texts import TrainingTexts, read_texts

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """A run that is ready to be trained."""

    run: Run
    dataset: Dataset
    texts: TrainingTexts
    checkpoint: Checkpoint
    """the last one, or a new model"""
    validations: Sequence[Validation] = ()
    """those before the checkpoint"""


@contextmanager
def open_run(
    folder: Path,
    config: Config,
    callbacks: Sequence[Callback] = (),
    *,
    device: torch.device,
    data_dir: Path,
    world: World = SINGLE_PROCESS,
    fresh: bool = False,
) -> Iterator[OpenedRun]:
    """Yields the run in a folder, resumed if it has a checkpoint, else a new one. It is locked during the block.

    The main process opens or makes the run, and then the others open it. fresh: move an old run aside, and make a new
    one. Raises DataError without a dataset, CheckpointError for a damaged run, ConfigError if the run has other
    settings or another process trains it, MemoryShortage if the model does not fit, and what callbacks raise. On an
    error, nothing but the lock has been written, and nothing has been moved.
    """
    with ExitStack() as lock:
        with world.fail_together():
            if world.is_main:
                lock.enter_context(lock_run(folder))
                # when torchrun restarts the processes, the run that this command has made is resumed
                fresh = fresh and not world.is_restarted
                opened = _open_on_main(folder, config, callbacks, device, data_dir, world, fresh=fresh)
        with world.fail_together():
            if not world.is_main:
                run = Run.open(folder)
                opened = load_run(run, Dataset.open(find_dataset(run.config.data, data_dir)))
        yield opened


def _open_on_main(
    folder: Path,
    config: Config,
    callbacks: Sequence[Callback],
    device: torch.device,
    data_dir: Path,
    world: World,
    *,
    fresh: bool,
) -> OpenedRun:
    """Open or make the run in a folder; see `open_run`."""
    old = None if fresh or is_new(folder) else Run.open(folder)
    vectors = old.config.model.pretrained.values() if old else ()
    decision = decide(
        config,
        old.config if old else None,
        precision=choose_precision("auto", device),
        shards=choose_shards(None, world),
        lost=[path for path in vectors if not Path(path).exists()],
    )
    another = f"--set name={free_name(folder)} to train another run"
    if decision.kind == "refuse":
        raise ConfigError(
            f"{folder} was begun with other settings ({decision.why}): give the old ones to resume it, {another}, or "
            "--fresh to move this one aside and begin anew"
        )
    config, data = decision.config, decision.config.data
    codec_dir = find_tokenizer_run(data, folder.parent) if data.fingerprint is None else None
    dataset = Dataset.open(find_dataset(data, data_dir, codec_dir))
    if decision.compares_text and not is_made_from(dataset.manifest, data):
        remedy = "take data.fingerprint out of the config, and run `tfm prepare`"
        if old:
            remedy = f"give {another} on the new text, --fresh to move this one aside and begin anew, or --config "
            remedy += f"{folder / 'config.yaml'} to resume it with the old text"
        raise ConfigError(f"{dataset.folder} was made before the text of data.files was changed; {remedy}")
    sizes = (len(dataset.codecs.source), len(dataset.codecs.target))
    check_model_memory(config.model, sizes, device=device, frozen=config.training.freeze)
    data = data.model_copy(update={"fingerprint": dataset.fingerprint})
    config = config.model_copy(update={"data": data})
    texts = read_texts(dataset, config.model.max_length)
    if old:
        opened = load_run(old, dataset, texts)
        if decision.warning:
            log.warning("%s", decision.warning)
        if changes := provenance_changes(old.metadata.provenance, provenance(device=device_name(device))):
            log.warning("%s: these changes may alter the last digits of the weights: %s", folder, changes)
        warn_if_losses_changed(opened.checkpoint.model, old.checkpoint("last"))
        finish_save(old, opened.checkpoint.state)
        write_config(folder, config)
        return replace(opened, run=replace(old, config=config))
    for callback in callbacks:  # each may find something wrong
        callback.before_new_run(config, dataset, folder.parent)
    if fresh and folder.exists():
        move_aside(folder)
    opened = load_run(Run.create(folder, config, dataset, device=device_name(device)), dataset, texts)
    for callback in callbacks:
        callback.on_new_run(opened.run, opened.checkpoint)
    return opened


def load_run(run: Run, dataset: Dataset, texts: TrainingTexts | None = None) -> OpenedRun:
    """Returns a run with its last checkpoint, or with a new model if it has none.

    texts: those of the dataset, if they have been read. Raises DataError, and CheckpointError if anything that training
    needs is damaged.
    """
    texts = texts or read_texts(dataset, run.config.model.max_length)
    if not run.has_checkpoint("last"):
        return OpenedRun(run=run, dataset=dataset, texts=texts, checkpoint=Checkpoint(run.new_model()))
    checkpoint = load_last(run)
    if checkpoint.state.n_validations and not checkpoint.state.is_best:
        run.checkpoint("best")  # raises if it is gone
    validations = read_validations(run, checkpoint.state)
    return OpenedRun(run=run, dataset=dataset, texts=texts, checkpoint=checkpoint, validations=validations)
