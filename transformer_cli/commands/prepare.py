"""`tfm prepare`: parallel text → a dataset under data/."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.commands.options import ConfigOption, JsonOption, SetOption
from transformer_cli.commands.tables import table

if TYPE_CHECKING:
    from transformer_cli.data.prepare import Prepared

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
    from transformer_cli.config.load import load_config
    from transformer_cli.runs.prepare import prepare

    prepared = prepare(load_config(config, overrides or ()), source_dir=source_dir)
    if not prepared.created:
        log.info("%s: nothing has changed, nothing to do", prepared.folder)
    print(json.dumps(prepared.manifest, ensure_ascii=False) if as_json else prepared_as_table(prepared))


def prepared_as_table(prepared: "Prepared") -> str:
    """Returns a table of the splits, between the dataset's folder and what is said of its vocabularies."""
    manifest = prepared.manifest
    settings = manifest["settings"]
    languages = {side: settings[side] for side in ("source", "target")}
    rows = [("split", "sentences", "side", "tokens", "unknown", "longest")]
    for name, counts in manifest["splits"].items():
        for side, language in languages.items():
            tokens, unknown, longest = (counts[side][key] for key in ("tokens", "unknown_rate", "longest"))
            rows.append((name, f"{counts['sentences']:,}", language, f"{tokens:,}", f"{unknown:.2%}", str(longest)))
    sizes = ", ".join(f"{language} {manifest['vocabulary'][side]:,}" for side, language in languages.items())
    if settings.get("tokens") == "subwords":
        tokenizer = manifest["tokenizer"]
        which = "one for both languages" if settings["joint_vocabulary"] else "one for each language"
        notes = [f"subwords ({tokenizer['algorithm']}, SentencePiece {tokenizer['version']}, {which}): {sizes}"]
    else:
        restored = manifest["joins"]["valid_restored"]
        notes = [
            f"vocabulary (min_freq {settings['min_freq']}): {sizes}",
            f"validation references that come back exactly from their tokens: {restored:.1%}",
        ]
    return "\n".join([str(prepared.folder), table(rows), *notes])
