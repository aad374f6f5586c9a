"""Reads a model of Marian: weights in NumPy's .npz with the settings inside, vocabularies as .spm or .yml.

Sources: marian-dev's src/models/transformer.h, src/common/io.cpp and src/data/*vocab.cpp. No pickle is read, and
compressed archives are refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer_cli.adapters.interop import foreign
from transformer_cli.adapters.interop.foreign import ForeignModel, ForeignVocabulary
from transformer_cli.config.load import MAX_CONFIG_BYTES
from transformer_cli.config.yaml_text import parse_yaml, scalar_pairs
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.system.files import read_text

SETTINGS_ARRAY = "special:model.yml"
SUPPORTED: Mapping[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "input-types": ([], ["sequence"], ["sequence", "sequence"]),
    **dict.fromkeys(("right-left", "output-omit-bias", "ulr", "transformer-disable-position-embeddings"), (False,)),
    **dict.fromkeys(("transformer-no-affine", "transformer-no-bias", "transformer-no-projection"), (False,)),
    "transformer-pool": (False,),
    **dict.fromkeys(("factors-dim-emb", "lemma-dim-emb"), (0,)),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d", "n", "dn", "nd"),
    "transformer-tied-layers": ([],),
}
"""Marian's settings that affect what the model computes, with the values that tfm supports"""
VOCABULARY_FILES = ("*.spm", "*vocab*.yml", "*vocab*.yaml", "*vocab*.json", "*vocab*.txt")
SENTENCEPIECE_FILES = ["source.spm", "target.spm"]
WEIGHT_NAMES: tuple[tuple[str, str], ...] = (
    (r"^(encoder|decoder)_l(\d+)_", r"\1.layers.\2."),
    (r"\.self_([Wb])([qkvo])$", r".self_attention.\2.\1"),
    (r"\.context_([Wb])([qkvo])$", r".cross_attention.\2.\1"),
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
"""replacements that turn Marian's names into ours, applied in order; Marian counts layers from 1"""


def read_marian(folder: Path, weights: Path | None = None) -> ForeignModel:
    """Read the model in a folder. weights: their file, if there are several. Raises DataError."""
    path, decoder_path = _find_files(folder, weights)
    decoder = _read_settings(decoder_path)
    arrays = read_npz(path)
    if SETTINGS_ARRAY not in arrays:
        raise DataError(f"{path}: {SETTINGS_ARRAY} is missing, so it is not a model of Marian")
    text = arrays.pop(SETTINGS_ARRAY).tobytes().rstrip(b"\0").decode("utf-8", errors="replace")
    settings = _parse_settings(text, f"{path}: {SETTINGS_ARRAY}")
    if settings.get("transformer-decoder-autoreg", "self-attention") != "self-attention":
        cell = f"{settings['transformer-decoder-autoreg']} (dec-cell: {settings.get('dec-cell')})"
        why = "its decoder has a recurrence in place of self-attention; import the teacher it was distilled from"
        raise foreign.unsupported(path, "transformer-decoder-autoreg", cell, why)
    width = settings.get("transformer-dim-ffn")
    foreign.refuse_unsupported(path, settings, {**SUPPORTED, "transformer-decoder-dim-ffn": (0, width)})
    foreign.refuse_unsupported(decoder_path, decoder, {"word-penalty": (0,)})
    names = _find_vocabularies(folder, path, decoder)
    source, target = (_read_side(folder, number, names) for number in range(2))
    tensors = {}
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16) or array.ndim != 2:
            raise DataError(f"{path}: {name} is {array.dtype} of {array.ndim} dimensions, not a matrix of floats")
        value = torch.from_numpy(array.astype(np.float32, copy=False))
        is_transposed = name.startswith(("Wemb", "encoder_Wemb", "decoder_Wemb", "Wpos")) or name.endswith("_Wt")
        tensors[_rename_weight(name)] = value if is_transposed else value[0] if len(value) == 1 else value.T
    has_table = "positions.weight" in tensors
    if has_table:
        table = tensors.pop("positions.weight")
        tensors |= {f"{side}_embedding.positions.weight": table for side in ("source", "target")}
    beam, alpha = decoder.get("beam-size", 1), decoder.get("normalize", 0.0)
    return ForeignModel(
        path=path,
        model_settings={
            "d_model": settings.get("dim-emb"),
            "num_heads": settings.get("transformer-heads"),
            "num_encoder_layers": settings.get("enc-depth"),
            "num_decoder_layers": settings.get("dec-depth"),
            "d_ff": width,
            "activation": settings.get("transformer-ffn-activation"),
            "norm": _norm_placement(path, settings),
            "final_norm": "n" in str(settings.get("transformer-postprocess-top", "")),
            "positions": "learned" if has_table else "marian",
            "max_length": len(table) if has_table else None,
            "scale_embeddings": not has_table,
        },
        decoding={"beam_size": beam, "length_penalty": float(alpha) if isinstance(alpha, int) else alpha},
        vocabularies=(source, target),
        tensors=tensors,
        languages=foreign.find_languages(folder),
    )


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays in an .npz file. Raises DataError if it is damaged or compressed, or contains a pickle."""
    with foreign.as_data_error(path):
        foreign.refuse_compressed(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}


def _find_files(folder: Path, weights: Path | None) -> tuple[Path, Path]:
    """Returns the paths of the weights and of the decoding settings, which need not exist."""
    found = sorted(path for path in folder.glob("*.npz") if ".optimizer." not in path.name and path.is_file())
    if weights is None and len(found) != 1:
        names = ", ".join(path.name for path in found)
        if found:
            raise DataError(f"{folder}: has several models; name one as model: {names}")
        raise DataError(f"{folder}: has neither an .npz file with weights nor Hugging Face's config.json")
    path = weights or found[0]
    places = (folder / f"{path.name}.decoder.yml", folder / "decoder.yml")
    return path, next((place for place in places if place.is_file()), places[0])


def _find_vocabularies(folder: Path, model: Path, decoder: Mapping[str, Any]) -> list[str]:
    """Returns the file names of the source and target vocabularies.

    Reads them from the settings of decoding or training; without these, both sides have the only vocabulary, or each
    has its SentencePiece model. Raises DataError.
    """
    config_path = folder / f"{model.name}.yml"
    for settings in (decoder, _read_settings(config_path)):
        named = settings.get("vocabs")
        if isinstance(named, list) and len(named) == 2:
            return [Path(str(each)).name for each in named]
    others = {path.name for path in (config_path, *folder.glob("*decoder.yml"))}
    found = sorted({path.name for pattern in VOCABULARY_FILES for path in folder.glob(pattern)} - others)
    lists = [name for name in found if not name.endswith(".spm")] or found
    if len(lists) == 1 or lists == SENTENCEPIECE_FILES:
        return [lists[0], lists[-1]]
    raise DataError(
        f"{folder}: unclear which of {', '.join(lists) or 'its files'} is the source's vocabulary; name both files in "
        "decoder.yml under vocabs, the source's first"
    )


def _read_side(folder: Path, side: int, names: Sequence[str]) -> ForeignVocabulary:
    """Returns the vocabulary of source (0) or target (1). A list of tokens also needs a SentencePiece model."""
    path = folder / names[side]
    if path.suffix == ".spm":
        return foreign.read_vocabulary(path)
    found = [each.name for each in folder.glob("*.spm")]
    model = found[0] if len(found) == 1 else SENTENCEPIECE_FILES[side]
    return foreign.read_vocabulary(folder / model, read_tokens(path))


def read_tokens(path: Path) -> list[str]:
    """Returns the tokens of a vocabulary file in the order of their ids. Raises DataError.

    The file is YAML or JSON (an object or a list of tokens); with another suffix, text with one token per line.
    """
    text = foreign.read_file(path, read_text).removeprefix("\ufeff")
    try:
        if path.suffix not in (".yml", ".yaml", ".json"):
            pairs = [(line.rstrip("\r").split("\t")[0], str(n)) for n, line in enumerate(text.rstrip("\n").split("\n"))]
        elif text.lstrip().startswith("["):
            pairs = [(str(token), str(n)) for n, token in enumerate(json.loads(text))]
        elif path.suffix == ".json" or re.match(r'\s*\{\s*"', text):
            pairs = [(token, str(number)) for token, number in json.loads(text).items()]
        else:
            pairs = scalar_pairs(text)
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not a list of tokens with their ids: {error}; download it again") from None
    return foreign.tokens_by_id(path, [(token, int(each) if each.isdecimal() else each) for token, each in pairs])


def _norm_placement(path: Path, settings: Mapping[str, Any]) -> str:
    """Returns the setting model.norm for Marian's two settings, in which d is dropout and does not matter."""
    before, after = (str(settings.get(f"transformer-{when}process", "")).replace("d", "") for when in ("pre", "post"))
    if (norm := {("", "an"): "post", ("n", "a"): "pre"}.get((before, after))) is None:
        value = f"{settings.get('transformer-preprocess')} and {settings.get('transformer-postprocess')}"
        keys = "transformer-preprocess, transformer-postprocess"
        raise foreign.unsupported(path, keys, value, 'only "" and dan, or n and da')
    return norm


def _rename_weight(name: str) -> str:
    for pattern, replacement in WEIGHT_NAMES:
        name = re.sub(pattern, replacement, name)
    return re.sub(r"\.layers\.(\d+)\.", lambda found: f".layers.{int(found[1]) - 1}.", name)


def _read_settings(path: Path) -> dict[str, Any]:
    """Returns the settings in a YAML file; {} if there is none. Raises DataError."""
    return _parse_settings(foreign.read_file(path, read_text), str(path)) if path.is_file() else {}


def _parse_settings(text: str, where: str) -> dict[str, Any]:
    if len(text) > MAX_CONFIG_BYTES:
        raise DataError(f"{where}: too long")
    try:
        value = parse_yaml(text)
    except ConfigError as error:
        raise DataError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: contains no settings; download the model again")
    return value
