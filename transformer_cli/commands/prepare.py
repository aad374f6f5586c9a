"""`tfm prepare`: parallel text → a dataset under data/."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.commands.options import ConfigOption, JsonOption, SetOption, read_config
from transformer_cli.output.datasets import prepared_as_json, prepared_as_table

log = logging.getLogger(__name__)


def prepare(
    config: ConfigOption = None,
    overrides: SetOption = None,
    source_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="A folder with Multi30k's files, instead of the download; or set TFM_MULTI30K_DIR."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch, tokenise, count and encode parallel text into data/."""
    from transformer_cli.data.prepare import prepare

    chosen = read_config(config, overrides)
    codec_dir = None
    if chosen.data.codec is not None:
        from transformer_cli.runs.run import find_codec

        codec_dir = find_codec(chosen.data)
    prepared = prepare(chosen, source_dir=source_dir, codec_dir=codec_dir)
    if not prepared.created:
        log.info("%s: nothing has changed, nothing to do", prepared.folder)
    print(prepared_as_json(prepared) if as_json else prepared_as_table(prepared))
