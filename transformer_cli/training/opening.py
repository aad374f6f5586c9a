"""Which run is trained: the one on disk, or a new one. Knows settings and folders, nothing of steps."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from transformer_cli.compute.devices import choose_precision
from transformer_cli.config.load import differences, dump_config
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import ConfigError
from transformer_cli.files import exclusive, write_text
from transformer_cli.runs.run import Run, is_new
from transformer_cli.training.pretrained import Rows, read_pretrained

log = logging.getLogger(__name__)

MAY_CHANGE = tuple(
    f"training.{key}" for key in ("epochs", "patience", "save_minutes", "tensorboard", "device", "num_threads")
)


def open_run(
    folder: Path, config: Config, *, device: torch.device, data_dir: Path, fresh: bool
) -> tuple[Run, Dataset, list[Rows]]:
    """The run on disk if anything of it was saved, else a new one; its dataset; and vectors to begin with.

    fresh: move a run that is there aside. Raises DataError without a dataset, ConfigError if the run on disk was begun
    with other settings, CheckpointError if a part of it is gone; then it is left as it is.
    """
    if not fresh and not is_new(folder):
        run = _resume(Run.open(folder), config)
        dataset, pretrained = Dataset.open(find_dataset(run.config.data, data_dir)), []
    else:
        dataset = Dataset.open(find_dataset(config.data, data_dir))
        pretrained = read_pretrained(config, dataset)  # its errors leave the old run in place
        if fresh and folder.exists():
            log.info("moved the old run to %s", _move_aside(folder))
        run = Run.create(folder, _resolve(config, dataset, device), dataset)
    write_text(folder.with_name("latest"), f"{config.name}\n")
    return run, dataset, pretrained


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else trains the run in `folder` during the block. Raises ConfigError if somebody does."""
    with ExitStack() as locks:
        try:
            locks.enter_context(exclusive(folder.with_name(f".{folder.name}.lock")))
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is being trained by another process; wait for it, or choose another name"
            ) from None
        yield


def _resolve(config: Config, dataset: Dataset, device: torch.device) -> Config:
    """The config as the run keeps it: the dataset and the precision that were chosen."""
    precision = choose_precision(config.training.precision, device)
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={"fingerprint": dataset.fingerprint}),
            "training": config.training.model_copy(update={"precision": precision}),
        }
    )


def _resume(run: Run, config: Config) -> Run:
    """The run, with those settings that may change taken from `config`. Raises ConfigError, CheckpointError."""
    ignore = [*MAY_CHANGE]
    if config.data.fingerprint is None:
        ignore.append("data.fingerprint")
    if config.training.precision == "auto":
        ignore.append("training.precision")
    changed = differences(run.config, config, ignore)
    if changed:
        raise ConfigError(
            f"{run.folder} was begun with other settings ({'; '.join(changed)}): give the old ones to go on, "
            "another name, or --fresh to move the old run aside and begin anew"
        )
    if run.config.training.schedule == "cosine" and config.training.epochs != run.config.training.epochs:
        raise ConfigError(
            f"training.epochs: {config.training.epochs}, but the cosine schedule of {run.folder} falls to 0 over "
            f"{run.config.training.epochs}; give that to go on, another name, or --fresh to begin anew"
        )
    run.check_saved()
    update = {key.split(".")[1]: getattr(config.training, key.split(".")[1]) for key in MAY_CHANGE}
    resolved = run.config.model_copy(update={"training": run.config.training.model_copy(update=update)})
    write_text(run.folder / "config.yaml", dump_config(resolved))
    return replace(run, config=resolved)


def _move_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside
