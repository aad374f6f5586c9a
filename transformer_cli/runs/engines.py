"""What translates with the weights of a folder: the engine of a run, of several together, or of an exported run."""

import logging
from collections.abc import Sequence
from typing import cast

import torch

from transformer_cli.config.yamltext import as_line
from transformer_cli.data.codec import codec_files
from transformer_cli.decoding.engine import Engine, TransformerEngine
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoints import load_named_best
from transformer_cli.runs.exported import Exported
from transformer_cli.runs.run import Opened, Run
from transformer_cli.system.sums import read_sums

log = logging.getLogger(__name__)


def open_engine(
    runs: Sequence[Run | Exported], device: torch.device, *, batches_at_a_time: int | None = None
) -> tuple[Engine, list[str]]:
    """Load the best weights of a run, or of several that translate together. Returns also their checkpoints' names.

    batches_at_a_time: see `TransformerEngine`. Raises CheckpointError, and ConfigError if codecs differ or if one of
    several is exported.
    """
    first, *others = runs
    if isinstance(first, Exported) and not others:
        return _exported(first, device, batches_at_a_time), [first.best_name]
    for run in runs:
        if isinstance(run, Exported):
            raise ConfigError(
                f"{run.folder}: an exported model translates alone; make an ensemble of the runs themselves"
            )
        if run.codecs != first.codecs:
            raise _other_codecs(first, run)
    names, models = zip(*(load_named_best(cast(Run, each), device) for each in runs), strict=True)
    return TransformerEngine(models, batches_at_a_time=batches_at_a_time), [*names]


def _exported(run: Exported, device: torch.device, batches_at_a_time: int | None) -> Engine:
    from transformer_cli.decoding.ctranslate2 import CTranslate2Engine

    engine = CTranslate2Engine(
        run.folder,
        device,
        positions=run.facts.positions,
        source=run.codecs.source.names(),
        target=run.codecs.target.names(),
        batches_at_a_time=batches_at_a_time,
    )
    kept, now = run.facts.quantization, engine.computes_in
    if kept not in now:
        log.info("%s: weights in %s, which this %s is slow at or lacks: computes in %s", run.folder, kept, device, now)
    return engine


def _other_codecs(run: Opened, other: Opened) -> ConfigError:
    """Returns the error for runs whose codecs differ; it names the settings and the files that do."""
    ours, theirs = run.config.data.of_codecs, other.config.data.of_codecs
    differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]  # each kind of tokens has own keys
    what = [f"{key}: {as_line(ours[key])} and {as_line(theirs[key])}" for key in differing]
    if not what:
        sums, other_sums = read_sums(run.folder), read_sums(other.folder)
        what = [name for name in codec_files(run.config.data) if sums.get(name) != other_sums.get(name)]
    return ConfigError(
        f"{run.folder} and {other.folder} cannot translate together, because their codecs differ "
        f"({'; '.join(what)}); name runs of one dataset"
    )
