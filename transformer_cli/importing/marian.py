"""Reads a model as Marian writes it: weights in NumPy's .npz with the settings inside, vocabularies as .spm or .yml.

Sources: marian-dev's src/models/transformer.h, src/common/io.cpp and src/data/*vocab.cpp. No pickle is read, and
nothing is unpacked before its size is known.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer_cli.config.load import MOST_BYTES
from transformer_cli.config.yamltext import parse
from transformer_cli.errors import DataError
from transformer_cli.importing import foreign
from transformer_cli.importing.foreign import Foreign, Vocabulary, refuse, refuse_others
from transformer_cli.system.reading import read_text

SETTINGS = "special:model.yml"
HELD: Mapping[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "input-types": ([], ["sequence"], ["sequence", "sequence"]),
    "right-left": (False,),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "output-omit-bias": (False,),
    "ulr": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d", "n", "dn", "nd"),
    "transformer-tied-layers": ([],),
}
"""the settings of Marian that change what is computed, with the values that tfm computes"""
NAMES: tuple[tuple[str, str], ...] = (
    (r"^(encoder|decoder)_l(\d+)_", r"\1.layers.\2."),
    (r"\.self_W([qkvo])$", r".self_attention.\1.weight"),
    (r"\.self_b([qkvo])$", r".self_attention.\1.bias"),
    (r"\.context_W([qkvo])$", r".cross_attention.\1.weight"),
    (r"\.context_b([qkvo])$", r".cross_attention.\1.bias"),
    (r"\.ffn_([Wb])1$", r".feed_forward.inner.\1"),
    (r"\.ffn_([Wb])2$", r".feed_forward.outer.\1"),
    (r"\.self_Wo_ln_", ".residuals.0.norm."),
    (r"\.context_Wo_ln_", ".residuals.1.norm."),
    (r"^(encoder.*)\.ffn_ffn_ln_", r"\1.residuals.1.norm."),
    (r"^(decoder.*)\.ffn_ffn_ln_", r"\1.residuals.2.norm."),
    (r"^(encoder|decoder)_top_ln_", r"\1.norm."),
    (r"\.(scale|W)(_pre|_top)?$", ".weight"),
    (r"\.(bias|b)(_pre|_top)?$", ".bias"),
    (r"^decoder_ff_logit_out_b$", "output.bias"),
    (r"^decoder_ff_logit_out_Wt?$", "output.weight"),
    (r"^Wemb$", "tokens.weight"),
    (r"^encoder_Wemb$", "source_embedding.tokens.weight"),
    (r"^decoder_Wemb$", "target_embedding.tokens.weight"),
    (r"^Wpos$", "positions.weight"),
)
"""what Marian's names become, one after the other; its layers count from 1"""


def read_marian(folder: Path) -> Foreign:
    """Read the model in a folder. Raises DataError."""
    path, searching = _find(folder)
    decoder = _mapping(foreign.read(searching, read_text), str(searching)) if searching.is_file() else {}
    arrays = read_npz(path)
    if SETTINGS not in arrays:
        raise DataError(f"{path}: {SETTINGS} is missing, so it is not a model that Marian has saved")
    text = arrays.pop(SETTINGS).tobytes().rstrip(b"\0").decode("utf-8", errors="replace")
    settings = _mapping(text, f"{path}: {SETTINGS}")
    if settings.get("transformer-decoder-autoreg", "self-attention") != "self-attention":
        cell = f"{settings['transformer-decoder-autoreg']} (dec-cell: {settings.get('dec-cell')})"
        why = "its decoder has a recurrence in place of self-attention; import the teacher it was distilled from"
        raise refuse(path, "transformer-decoder-autoreg", cell, why)
    width = settings.get("transformer-dim-ffn")
    refuse_others(path, settings, {**HELD, "transformer-decoder-dim-ffn": (0, width)})
    refuse_others(searching, decoder, {"word-penalty": (0,)})
    source, target = _vocabularies(folder, decoder)
    tensors = {}
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16) or array.ndim != 2:
            raise DataError(f"{path}: {name} is {array.dtype} of {array.ndim} dimensions, not a matrix of floats")
        value = torch.from_numpy(array.astype(np.float32, copy=False))
        is_flat = name.startswith(("Wemb", "encoder_Wemb", "decoder_Wemb", "Wpos")) or name.endswith("_Wt")
        tensors[_ours(name)] = value if is_flat else value[0] if len(value) == 1 else value.T
    has_table = "positions.weight" in tensors
    if has_table:
        table = tensors.pop("positions.weight")
        tensors |= {f"{side}_embedding.positions.weight": table for side in ("source", "target")}
    beam, alpha = decoder.get("beam-size", 1), decoder.get("normalize", 0.0)
    return Foreign(
        path,
        {
            "d_model": settings.get("dim-emb"),
            "num_heads": settings.get("transformer-heads"),
            "num_encoder_layers": settings.get("enc-depth"),
            "num_decoder_layers": settings.get("dec-depth"),
            "d_ff": width,
            "activation": settings.get("transformer-ffn-activation"),
            "norm": _norm(path, settings),
            "final_norm": "n" in str(settings.get("transformer-postprocess-top", "")),
            "positions": "learned" if has_table else "marian",
            "max_length": len(table) if has_table else None,
            "scale_embeddings": not has_table,
        },
        {"beam_size": beam, "length_penalty": float(alpha) if isinstance(alpha, int) else alpha},
        (source, target),
        tensors,
    )


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays in a file of NumPy's. Raises DataError for one that is damaged, packed, or has a pickle."""
    with foreign.refusing_damage(path):
        foreign.refuse_packed(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}


def _find(folder: Path) -> tuple[Path, Path]:
    """Returns the file with the weights, and that of the settings for decoding, which need not be there."""
    found = sorted(path for path in folder.glob("*.npz") if ".optimizer." not in path.name)
    if len(found) != 1:
        wanted, names = "one .npz file with the weights, or Hugging Face's config.json,", [path.name for path in found]
        raise DataError(f"{folder}: {wanted} is needed, but there is {', '.join(names) or 'none'}; leave one there")
    places = (folder / "decoder.yml", folder / f"{found[0].name}.decoder.yml")
    return found[0], next((place for place in places if place.is_file()), places[0])


def _vocabularies(folder: Path, decoder: Mapping[str, Any]) -> Iterator[Vocabulary]:
    """Yield the vocabularies of source and target: those that decoder.yml names, else what lies in the folder."""
    named = decoder.get("vocabs")
    names = [Path(str(each)).name for each in named] if isinstance(named, list) else []
    if len(names) != 2:
        found = sorted(path.name for pattern in ("*.spm", "*vocab*.yml") for path in folder.glob(pattern))
        lists = [name for name in found if name.endswith(".yml")] or found
        if not 1 <= len(lists) <= 2:
            raise DataError(
                f"{folder}: its vocabularies cannot be told; name those of source and target in decoder.yml"
            )
        names = [lists[0], lists[-1]]
    for side, name in zip(("source", "target"), names, strict=True):
        path = folder / name
        if path.suffix == ".spm":
            yield foreign.vocabulary(path)
        else:
            tokens = foreign.in_order(path, _entries(foreign.read(path, read_text)))
            yield foreign.vocabulary(folder / f"{side}.spm", tokens)


def _entries(text: str) -> Iterator[tuple[str, object]]:
    """Yield the tokens of a .yml vocabulary with their ids. PyYAML would take a NEL inside a token for a line's end."""
    for line in text.split("\n"):
        token, _, number = line.strip(" ,\r{}").rpartition(":")
        if not number.strip():
            continue
        if token[:1] == token[-1:] == '"':
            escaped = re.sub(r"\\x(..)", r"\\u00\1", token)
            try:
                token = json.loads(escaped)
            except ValueError:
                raise DataError(f"a vocabulary's entry is damaged: {line[:40]!r}; download it again") from None
        elif token[:1] == token[-1:] == "'":
            token = token[1:-1].replace("''", "'")
        yield token, int(number) if number.strip().isdecimal() else number


def _norm(path: Path, settings: Mapping[str, Any]) -> str:
    """Returns where the LayerNorm stands; d, which is dropout, does not matter."""
    before, after = (str(settings.get(f"transformer-{when}process", "")).replace("d", "") for when in ("pre", "post"))
    if (norm := {("", "an"): "post", ("n", "a"): "pre"}.get((before, after))) is None:
        value = f"{settings.get('transformer-preprocess')} and {settings.get('transformer-postprocess')}"
        raise refuse(path, "transformer-preprocess, transformer-postprocess", value, 'only "" and dan, or n and da')
    return norm


def _ours(name: str) -> str:
    return re.sub(r"\.layers\.(\d+)\.", lambda found: f".layers.{int(found[1]) - 1}.", foreign.renamed(name, NAMES))


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        if len(text) > MOST_BYTES:
            raise ValueError("too long")
        value = parse(text)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: no settings in it; download the model again")
    return value
