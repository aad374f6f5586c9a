"""Reads a model as Hugging Face's MarianMTModel keeps it: config.json, vocab.json, source.spm, target.spm, weights.

Source: transformers' models/marian. Weights are safetensors, or a pickle of which torch reads tensors and nothing else.
"""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from transformer_cli.config.schema import LANGUAGE
from transformer_cli.errors import DataError
from transformer_cli.importing import foreign
from transformer_cli.importing.foreign import Foreign, Vocabulary, object_in, refuse, refuse_others

HELD: dict[str, tuple[object, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("swish", "silu", "relu", "gelu"),
    "add_bias_logits": (False,),
    "add_final_layer_norm": (False,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
}
"""the settings that change what is computed, with the values that tfm computes"""
NAMES = (
    (r"^model\.(encoder|decoder)\.layers\.", r"\1.layers."),
    (r"\.self_attn\.", ".self_attention."),
    (r"\.encoder_attn\.", ".cross_attention."),
    (r"\.([qkv])_proj\.", r".\1."),
    (r"\.out_proj\.", ".o."),
    (r"\.self_attn_layer_norm\.", ".residuals.0.norm."),
    (r"\.encoder_attn_layer_norm\.", ".residuals.1.norm."),
    (r"^(encoder.*)\.final_layer_norm\.", r"\1.residuals.1.norm."),
    (r"^(decoder.*)\.final_layer_norm\.", r"\1.residuals.2.norm."),
    (r"\.fc1\.", ".feed_forward.inner."),
    (r"\.fc2\.", ".feed_forward.outer."),
    (r"^model\.shared\.", "tokens."),
    (r"^model\.encoder\.embed_tokens\.", "source_embedding.tokens."),
    (r"^model\.decoder\.embed_tokens\.", "target_embedding.tokens."),
    (r"^lm_head\.", "output."),
    (r"^final_logits_bias$", "output.bias"),
)
"""what their names become, one after the other"""
COMPUTED = re.compile(r"model\.(encoder|decoder)\.embed_positions\.weight")  # sines and cosines, in old files


def read_hugging_face(folder: Path) -> Foreign:
    """Read the model in a folder, with the positions of Hugging Face. Raises DataError."""
    path = folder / "config.json"
    config = object_in(path)
    generation = folder / "generation_config.json"
    searching = config | (object_in(generation) if generation.exists() else {})
    refuse_others(path, config, HELD)
    refuse_others(generation, searching, {"repetition_penalty": (None, 1), "min_length": (None, 0)})
    for one in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{one}") != config.get(f"decoder_{one}"):
            raise refuse(path, f"decoder_{one}", config.get(f"decoder_{one}"), "the encoder has another one")
    source = _vocabulary(folder, "source", "vocab.json")
    separate = (folder / "target_vocab.json").exists() and not config.get("share_encoder_decoder_embeddings", True)
    target = _vocabulary(folder, "target", "target_vocab.json" if separate else "vocab.json")
    for key in ("decoder_start_token_id", "pad_token_id"):
        if type(value := config.get(key)) is not int or not 0 <= value < len(target.tokens):
            raise refuse(path, key, value, "it is not the id of a token")
    about = folder / "tokenizer_config.json"
    codes = object_in(about) if about.exists() else {}
    weights, tensors = _tensors(folder)
    names = {name: foreign.renamed(name, NAMES) for name in tensors if not COMPUTED.fullmatch(name)}
    activation = config.get("activation_function")
    return Foreign(
        weights,
        {
            "d_model": config.get("d_model"),
            "num_heads": config.get("encoder_attention_heads"),
            "num_encoder_layers": config.get("encoder_layers"),
            "num_decoder_layers": config.get("decoder_layers"),
            "d_ff": config.get("encoder_ffn_dim"),
            "activation": "swish" if activation == "silu" else activation,
            "positions": "sinusoidal",
            "max_length": config.get("max_position_embeddings"),
            "scale_embeddings": config.get("scale_embedding", False),
            "dropout": config.get("dropout", 0.1),
            "attention_dropout": config.get("attention_dropout", 0.0),
            "feed_forward_dropout": config.get("activation_dropout", 0.0),
        },
        {
            "beam_size": searching.get("num_beams") or 1,
            "length_penalty": 1.0 if (alpha := searching.get("length_penalty")) is None else alpha,
            "sample": bool(searching.get("do_sample")),
            "no_repeat_ngram": searching.get("no_repeat_ngram_size") or 0,
        },
        (source, target),
        {ours: tensors[name].squeeze(0) if ours == "output.bias" else tensors[name] for name, ours in names.items()},
        config["decoder_start_token_id"],
        config["pad_token_id"],
        (_code(codes.get("source_lang")), _code(codes.get("target_lang"))),
    )


def _vocabulary(folder: Path, side: str, name: str) -> Vocabulary:
    tokens = foreign.in_order(folder / name, object_in(folder / name).items())
    return foreign.vocabulary(folder / f"{side}.spm", tokens)


def _tensors(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """Returns the file with the weights, and what is in it."""
    path = folder / "model.safetensors"
    if path.exists():
        with foreign.refusing_damage(path):
            return path, load_file(path)
    path = folder / "pytorch_model.bin"
    if not path.is_file():
        raise DataError(f"{folder}: no weights: neither model.safetensors nor pytorch_model.bin; download one of them")
    with foreign.refusing_damage(path):
        if path.read_bytes()[:4] == b"PK\3\4":
            foreign.refuse_packed(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise DataError(f"{path}: not named tensors; download it again")
    return path, found


def _code(value: object) -> str | None:
    """Returns the code of a language; None for names of OPUS-MT's that are none, such as ROMANCE."""
    code = value.removeprefix("opus-mt-") if isinstance(value, str) else ""
    return code if re.fullmatch(LANGUAGE, code) else None
