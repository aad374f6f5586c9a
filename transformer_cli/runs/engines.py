"""What translates with the weights of a folder: the engine of a run, of several together, or of an exported run."""

import logging
from collections.abc import Sequence
from typing import cast

import torch

from transformer_cli.decoding.engine import Engine, TransformerEngine
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoints import load_named_best
from transformer_cli.runs.exported import Exported
from transformer_cli.runs.run import Run, differing_codecs

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
        return _exported(first, device), [first.best_name]
    for run in runs:
        if isinstance(run, Exported):
            raise ConfigError(
                f"{run.folder}: an exported model translates alone; make an ensemble of the runs themselves"
            )
        if run.codecs != first.codecs:
            differing = differing_codecs(first.config.data, run.config.data) or "other vocabularies"
            raise ConfigError(
                f"{first.folder} and {run.folder} cannot translate together, because their codecs differ "
                f"({differing}); name runs of one dataset"
            )
    names, models = zip(*(load_named_best(cast(Run, each), device) for each in runs), strict=True)
    return TransformerEngine(models, batches_at_a_time=batches_at_a_time), [*names]


def _exported(run: Exported, device: torch.device) -> Engine:
    from transformer_cli.decoding.ctranslate2 import CTranslate2Engine

    engine = CTranslate2Engine(
        run.folder,
        device,
        positions=run.facts.positions,
        source=run.codecs.source.names(),
        target=run.codecs.target.names(),
    )
    kept, now = run.facts.quantization, engine.computes_in
    if kept not in now:
        log.info(
            "%s: weights in %s, in which this %s is slow or inexact: computes in %s", run.folder, kept, device, now
        )
    return engine
