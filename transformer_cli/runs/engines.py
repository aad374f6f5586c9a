"""What translates with the weights of a folder: the engine of a run, of several together, or of an exported run."""

import logging
from collections.abc import Sequence

import torch

from transformer_cli.data.codec import codec_sums
from transformer_cli.decoding.engine import Engine, TransformerEngine
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoints import load_named_best
from transformer_cli.runs.exported import Exported
from transformer_cli.runs.run import Run
from transformer_cli.system.reading import say_once

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
    ours = [_refuse_exported(each) for each in runs]
    for other in ours[1:]:
        _refuse_other_codecs(ours[0], other)
    names, models = zip(*(load_named_best(each, device) for each in ours), strict=True)
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
    if run.facts.quantization not in engine.computes_in:
        kept, now = run.facts.quantization, engine.computes_in
        say_once(
            log, f"{run.folder}: weights in {kept}, which this {device.type} is slow at or lacks: computes in {now}"
        )
    return engine


def _refuse_exported(run: Run | Exported) -> Run:
    if isinstance(run, Exported):
        raise ConfigError(f"{run.folder}: an exported model translates alone; make an ensemble of the runs themselves")
    return run


def _refuse_other_codecs(run: Run, other: Run) -> None:
    """Raises ConfigError, which names what differs, unless two runs have the same codecs. Their models may differ."""
    ours, theirs = _settings(run), _settings(other)
    differences = [f"{key}: {ours[key]} and {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    if not differences:
        sums, other_sums = (codec_sums(each.folder, each.config.data) for each in (run, other))
        differences = sorted(name for name in sums | other_sums if sums.get(name) != other_sums.get(name))
    if differences:
        raise ConfigError(
            f"{run.folder} and {other.folder} cannot translate together, because their codecs differ "
            f"({'; '.join(differences)}); name runs of one dataset"
        )


def _settings(run: Run) -> dict[str, str]:
    """The settings that a codec is loaded with."""
    data = run.config.data
    return {
        "data.source": data.source,
        "data.target": data.target,
        "data.tokens": data.tokens,
        "data.lowercase": str(data.lowercased).lower(),
    }
