"""export(run): a run's best weights → a folder in CTranslate2's format, with the run's codecs and settings."""

import logging
import os
from dataclasses import replace
from pathlib import Path

from transformer_cli.compute.memory import in_words
from transformer_cli.decoding.ctranslate2 import import_ctranslate2
from transformer_cli.errors import ConfigError
from transformer_cli.exporting.readme import readme
from transformer_cli.exporting.spec import BYTES, positions_of, write_model
from transformer_cli.files import new_folder, write_text
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.exported import Exported, Facts, is_exported, read_export, seal_export
from transformer_cli.runs.identity import write_config
from transformer_cli.runs.pointers import steadily
from transformer_cli.runs.run import Run, find_run
from transformer_cli.runs.weights import load_weights
from transformer_cli.unfinished import sweep

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
    if opened.identity.id and is_exported(place) and (opened.identity.id, facts) == _whose(place):
        log.info("%s: there already, as %s of %s in %s", place, facts.checkpoint, opened.folder, quantization)
        sweep(place.parent)  # a kill may have left something unfinished
        return Exported.open(place)
    if os.path.lexists(place):
        raise ConfigError(f"{place}: there already, and something else; give --output a new name, or delete it first")
    _write(opened, place, facts)
    found = Exported.open(place)
    size = in_words((place / "model.bin").stat().st_size)
    log.info("%s: %s of %s in %s, %s", place, found.best_name, opened.folder, quantization, size)
    return found


def _whose(place: Path) -> tuple[str, Facts]:
    identity, facts = read_export(place)
    return identity.id, facts


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
