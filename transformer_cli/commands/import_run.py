"""`tfm import`: a translator that Marian or Hugging Face's transformers wrote → a run."""

from pathlib import Path
from typing import Literal


def import_run(
    folder: Path,
    name: str | None = None,
    positions: Literal["marian", "sinusoidal"] | None = None,
    source: str | None = None,
    target: str | None = None,
    model: str | None = None,
) -> None:
    """Make a run of a translator of Marian's, such as OPUS-MT's.

    Every command takes the run: translate, evaluate, compare, inspect, serve, export; `--like` and `--from` teach it
    your own text.
    """
    from transformer_cli.importing.importing import import_run

    run = import_run(folder, name=name, positions=positions, source=source, target=target, model=model)
    print(run.folder)
