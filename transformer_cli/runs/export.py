"""export(run): a run's best weights → a folder in CTranslate2's format, with the run's codecs and settings."""

import logging
import os
from dataclasses import replace
from pathlib import Path

from transformer_cli.compute.memory import in_words
from transformer_cli.decoding.ctranslate2 import import_ctranslate2
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.export_readme import readme
from transformer_cli.runs.export_spec import BYTES, positions_of, write_model
from transformer_cli.runs.exported import Exported, Facts, is_exported, read_export, seal_export
from transformer_cli.runs.identity import write_config
from transformer_cli.runs.pointers import steadily
from transformer_cli.runs.run import Run, find_run
from transformer_cli.runs.weights import load_weights
from transformer_cli.system.files import new_folder, write_text
from transformer_cli.system.unfinished import sweep

log = logging.getLogger(__name__)


def export(
    run: str | Path | None = None,
    output: Path | None = None,
    *,
    quantization: str = "float32",
    runs_dir: Path = Path("runs"),
) -> Exported:
    """Write the best weights of a run (None: the newest) into a new folder, if they are not there yet, and open it.

    output: None for exports/NAME, or exports/NAME-int8 and so on. quantization: how weights are kept: float32, float16,
    bfloat16, int16 or int8. Raises CheckpointError, ConfigError if CTranslate2 is not installed, something else is
    there or weights cannot be kept so, OSError.
    """
    if quantization not in BYTES:
        raise ConfigError(f"quantization: {quantization!r} is not one of {', '.join(BYTES)}")
    opened = Run.open(find_run(run, runs_dir))
    library = import_ctranslate2()
    kept = "" if quantization == "float32" else f"-{quantization}"
    place = output or Path("exports") / f"{opened.folder.resolve().name}{kept}"
    facts = Facts(
        run=opened.folder.resolve().name,
        checkpoint=opened.best_name,
        quantization=quantization,
        positions=positions_of(opened.config.model),
        written_by=library.__version__,
    )
    if is_exported(place):
        _refuse_another(place, opened, facts)
        found = Exported.open(place)
        log.info("%s: there already, as %s of %s in %s", place, facts.checkpoint, opened.folder, quantization)
        sweep(place.parent)  # a kill may have left something unfinished
        return found
    if os.path.lexists(place):
        raise ConfigError(f"{place}: there already, and not an exported model; give --output a new name")
    _write(opened, place, facts)
    found = Exported.open(place)
    size = in_words((place / "model.bin").stat().st_size)
    log.info("%s: %s of %s in %s, %s", place, found.best_name, opened.folder, quantization, size)
    return found


def _refuse_another(place: Path, run: Run, facts: Facts) -> None:
    """Raises ConfigError unless the exported model in a folder is what `facts` say, of this run."""
    identity, there = read_export(place)
    is_of_it = bool(run.identity.id) and identity.id == run.identity.id
    if not is_of_it or there != facts:
        of = f"{there.checkpoint} of {'' if is_of_it else 'another run '}{there.run} in {there.quantization}"
        raise ConfigError(
            f"{place}: there already, {of}, written by CTranslate2 {there.written_by}; give --output a new name, or "
            f"delete it first to have {facts.checkpoint} of {run.folder} in {facts.quantization}"
        )


def _write(run: Run, place: Path, facts: Facts) -> None:
    """Fill a new folder. Should training have found better weights meanwhile, it gets these."""
    checkpoint, model = steadily(run.folder / "best", lambda: _load(run.checkpoint("best"), run))
    facts = replace(facts, checkpoint=checkpoint)
    source, target = run.codecs.source.names(), run.codecs.target.names()
    with new_folder(place) as folder:
        run.codecs.save(folder)
        write_model(model, folder, source=source, target=target, quantization=facts.quantization)
        write_config(folder, run.config, run.identity)
        write_text(folder / "README.md", readme(run.config, run.codecs, facts))
        seal_export(folder, run.identity, facts)


def _load(checkpoint: Path, run: Run) -> tuple[str, Transformer]:
    return checkpoint.name, load_weights(run, checkpoint).eval()
