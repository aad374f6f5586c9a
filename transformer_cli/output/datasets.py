"""A prepared dataset → JSON and a table."""

import json
from typing import TYPE_CHECKING, Any

from transformer_cli.output.tables import table
from transformer_cli.system import terminal

if TYPE_CHECKING:
    from transformer_cli.data.prepare import Prepared


def prepared_as_json(prepared: "Prepared") -> str:
    """Returns the dataset's manifest, which is a plain dict already."""
    return json.dumps(prepared.manifest, ensure_ascii=False)


def prepared_as_table(prepared: "Prepared") -> str:
    """Returns a table of the splits, between the dataset's folder and the sizes of its vocabularies."""
    manifest = prepared.manifest
    languages = {side: manifest["settings"][side] for side in ("source", "target")}
    rows = [("split", "sentences", "side", "tokens", "unknown", "longest")]
    for name, counts in manifest["splits"].items():
        for side, language in languages.items():
            tokens, unknown, longest = (counts[side][key] for key in ("tokens", "unknown_rate", "longest"))
            rows.append((name, f"{counts['sentences']:,}", language, f"{tokens:,}", f"{unknown:.2%}", str(longest)))
    sizes = ", ".join(f"{language} {manifest['vocabulary'][side]:,}" for side, language in languages.items())
    return terminal.fitted("\n".join([str(prepared.folder), table(rows), *_about_tokens(manifest, sizes)]))


def _about_tokens(manifest: dict[str, Any], sizes: str) -> list[str]:
    """Returns what `tfm prepare` says of the vocabularies. sizes: how many tokens each one has."""
    settings = manifest["settings"]
    if settings.get("tokens") == "subwords":
        tokenizer = manifest["tokenizer"]
        which = "one for both languages" if settings["joint_vocabulary"] else "one for each language"
        return [f"subwords ({tokenizer['algorithm']}, SentencePiece {tokenizer['version']}, {which}): {sizes}"]
    return [
        f"vocabulary (min_freq {settings['min_freq']}): {sizes}",
        f"validation references that come back exactly from their tokens: {manifest['joins']['valid_restored']:.1%}",
    ]
