"""Opens what translates: the best weights of a run, of several as an ensemble, or an exported model.

Imports torch for runs alone.
"""

import logging
from collections.abc import Sequence

from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Facts, Run, differing_codecs
from transformer_cli.search.interface import Engine

log = logging.getLogger(__name__)


def open_engine(runs: Sequence[Run], device: str) -> tuple[Engine, list[str]]:
    """Load the best weights of a run, or of several that translate together. Returns also their checkpoints' names.

    Raises CheckpointError, DeviceError, and ConfigError if codecs differ or if one of
    several is exported.
    """
    first, *others = runs
    if first.exported and not others:
        return _exported(first, first.exported, device), [first.best_name]
    for run in runs:
        if run.exported:
            raise ConfigError(
                f"{run.folder}: an exported model translates alone; make an ensemble of the runs themselves"
            )
        if run.codecs != first.codecs:
            differing = differing_codecs(first.config.data, run.config.data) or "other vocabularies"
            raise ConfigError(
                f"{first.folder} and {run.folder} cannot translate together, because their codecs differ "
                f"({differing}); name runs of one dataset"
            )
    from transformer_cli.compute.devices import choose_device
    from transformer_cli.runs.checkpoints import load_named_best
    from transformer_cli.search.decoder import TransformerEngine

    chosen = choose_device(device)
    names, models = zip(*(load_named_best(each, chosen) for each in runs), strict=True)
    return TransformerEngine(models), [*names]


def _exported(run: Run, facts: Facts, device: str) -> Engine:
    from transformer_cli.adapters.interop.ctranslate2 import CTranslate2Engine

    engine = CTranslate2Engine(
        run.folder,
        device,
        positions=facts.positions,
        source=run.codecs.source.names(),
        target=run.codecs.target.names(),
    )
    kept, now = facts.quantization, engine.computes_in
    if kept not in now:
        why = f"in which this {engine.device} is slow or inexact"
        log.info("%s: weights in %s, %s: computes in %s", run.folder, kept, why, now)
    return engine
