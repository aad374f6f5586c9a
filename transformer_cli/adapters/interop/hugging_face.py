"""Reads a model of Hugging Face's MarianMTModel: config.json, vocab.json, source.spm, target.spm and weights.

Source: transformers' models/marian. Weights are in safetensors, or in a pickle from which torch loads only tensors.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from transformer_cli.adapters.interop import foreign
from transformer_cli.adapters.interop.foreign import ForeignModel, ForeignVocabulary
from transformer_cli.config.schema import LANGUAGE
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import marian_frequencies

STACKS = ("encoder", "decoder")
SUPPORTED: Mapping[str, tuple[object, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("swish", "silu", "relu", "gelu"),
    **dict.fromkeys(("add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding"), (False,)),
    "static_position_embeddings": (True,),
}
"""settings that affect what the model computes, with the values that tfm supports"""
SUPPORTED_SEARCH: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), (None, 1)),
    **dict.fromkeys(("num_beam_groups", "guidance_scale"), (None, 1)),
    **dict.fromkeys(("min_length", "min_new_tokens", "encoder_no_repeat_ngram_size", "diversity_penalty"), (None, 0)),
    **dict.fromkeys(("forced_decoder_ids", "suppress_tokens", "begin_suppress_tokens"), (None, [])),
    "sequence_bias": (None, {}),
    **dict.fromkeys(("forced_bos_token_id", "force_words_ids"), (None,)),
    **dict.fromkeys(("penalty_alpha", "exponential_decay_length_penalty"), (None,)),
}
"""the same for settings that affect the search"""
WEIGHT_NAMES = (
    ("^model.encoder.layers.", "^encoder.layers."),
    ("^model.decoder.layers.", "^decoder.layers."),
    (".self_attn.", ".self_attention."),
    (".encoder_attn.", ".cross_attention."),
    (".q_proj.", ".q."),
    (".k_proj.", ".k."),
    (".v_proj.", ".v."),
    (".out_proj.", ".o."),
    (".self_attn_layer_norm.", ".residuals.0.norm."),
    (".encoder_attn_layer_norm.", ".residuals.1.norm."),
    ("^encoder*.final_layer_norm.", "^encoder*.residuals.1.norm."),
    ("^decoder*.final_layer_norm.", "^decoder*.residuals.2.norm."),
    (".fc1.", ".feed_forward.inner."),
    (".fc2.", ".feed_forward.outer."),
    ("^model.shared.", "^tokens."),
    ("^model.encoder.embed_tokens.", "^source_embedding.tokens."),
    ("^model.decoder.embed_tokens.", "^target_embedding.tokens."),
    ("^lm_head.", "^output."),
    ("^final_logits_bias", "^output.bias"),
)
"""replacements that turn their names into ours, applied in order; in reverse order they turn ours into theirs. ^ is the
beginning of a name; * is any text, which stays"""
MODEL_KEYS: Mapping[str, tuple[str, Any]] = {
    "d_model": ("d_model", None),
    "num_heads": ("encoder_attention_heads", None),
    "num_encoder_layers": ("encoder_layers", None),
    "num_decoder_layers": ("decoder_layers", None),
    "d_ff": ("encoder_ffn_dim", None),
    "activation": ("activation_function", None),
    "max_length": ("max_position_embeddings", None),
    "scale_embeddings": ("scale_embedding", False),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("activation_dropout", 0.0),
}
"""{our key under `model`: (their key, its default)}"""
PER_STACK_KEYS = ("attention_heads", "ffn_dim")  # two keys there, encoder_… and decoder_…, and one here
_SEARCH_KEYS: Mapping[str, tuple[str, Any]] = {
    "beam_size": ("num_beams", 1),
    "length_penalty": ("length_penalty", 1.0),
    "sample": ("do_sample", False),
    "no_repeat_ngram_size": ("no_repeat_ngram_size", 0),
}
_SAMPLING_KEYS = {"temperature": ("temperature", 1.0), "top_k": ("top_k", 50), "top_p": ("top_p", 1.0)}
POSITION_TABLE = "model.{}.embed_positions.weight"  # sines and cosines, in old files and in tfm's exports

log = logging.getLogger(__name__)


def search_keys(*, is_sample: bool) -> Mapping[str, tuple[str, Any]]:
    """Returns {our key under `decoding`: (their key, its default)}. is_sample: include the keys of sampling."""
    return {**_SEARCH_KEYS, **_SAMPLING_KEYS} if is_sample else _SEARCH_KEYS


def read_hugging_face(folder: Path, weights: Path | None = None) -> ForeignModel:
    """Read the model in a folder. weights: their file (None: Hugging Face's usual name). Raises DataError."""
    path = folder / "config.json"
    config = foreign.read_json_object(path)
    generation_path = folder / "generation_config.json"
    generation = config | foreign.read_json_object(generation_path, is_optional=True)
    foreign.refuse_unsupported(path, config, SUPPORTED)
    searched_in = generation_path if generation_path.exists() else path
    foreign.refuse_unsupported(searched_in, generation, SUPPORTED_SEARCH)
    for key in PER_STACK_KEYS:
        if config.get(f"encoder_{key}") != config.get(f"decoder_{key}"):
            raise foreign.unsupported(path, f"decoder_{key}", config.get(f"decoder_{key}"), "the encoder's differs")
    tokenizer = foreign.read_json_object(folder / "tokenizer_config.json", is_optional=True)
    added = _read_added_tokens(folder, tokenizer)
    source = _read_vocabulary(folder, "source", "vocab.json", added)
    is_separate = (folder / "target_vocab.json").exists() and not config.get("share_encoder_decoder_embeddings", True)
    target = _read_vocabulary(folder, "target", *(("target_vocab.json", {}) if is_separate else ("vocab.json", added)))
    for key in ("decoder_start_token_id", "pad_token_id"):
        if type(value := config.get(key)) is not int or not 0 <= value < len(target.tokens):
            raise foreign.unsupported(path, key, value, "it is not the id of a token")
    bad_words = generation.get("bad_words_ids") or []
    if bad_words not in ([], [[config["pad_token_id"]]]):
        raise foreign.unsupported(searched_in, "bad_words_ids", bad_words, "tfm can forbid only <pad>")
    eos_ids = [row for row, token in enumerate(target.tokens) if token == foreign.EOS]
    if (forced := generation.get("forced_eos_token_id")) not in (None, *eos_ids):
        raise foreign.unsupported(searched_in, "forced_eos_token_id", forced, f"it is not {foreign.EOS}")
    weights_path, tensors = _read_weights(folder, weights)
    for key in ("max_length", "max_new_tokens"):
        longest, most = generation.get(key), config.get("max_position_embeddings")
        if isinstance(longest, int) and isinstance(most, int) and longest < most:
            what = "%s: %s: %s is ignored: tfm limits a translation by the length of its sentence"
            log.warning(what, searched_in, key, longest)
    if config.get("tie_word_embeddings", True) and not _is_tied(tensors):
        log.warning("%s: tie_word_embeddings is true, but the weights differ, so they are not tied", path)
    tables = [POSITION_TABLE.format(stack) for stack in STACKS]
    names = {name: rename_weight(name, WEIGHT_NAMES) for name in tensors if name not in tables}
    settings = {ours: config.get(theirs, default) for ours, (theirs, default) in MODEL_KEYS.items()}
    if settings["activation"] == "silu":
        settings["activation"] = "swish"
    keys = search_keys(is_sample=bool(generation.get("do_sample")))
    search = {ours: (generation.get(theirs), default) for ours, (theirs, default) in keys.items()}
    return ForeignModel(
        path=weights_path,
        model_settings={**settings, "positions": _position_kind(tensors.get(POSITION_TABLE.format("encoder")))},
        decoding={ours: default if value is None else value for ours, (value, default) in search.items()},
        vocabularies=(source, target),
        tensors={
            ours: tensors[name].squeeze(0) if ours == "output.bias" else tensors[name] for name, ours in names.items()
        },
        start_row=config["decoder_start_token_id"],
        pad_row=config["pad_token_id"],
        languages=foreign.first_known(
            (_language_code(tokenizer.get("source_lang")), _language_code(tokenizer.get("target_lang"))),
            foreign.find_languages(folder, config.get("_name_or_path"), tokenizer.get("name_or_path")),
        ),
        symbols=tuple(sorted(set(added) - {foreign.UNK, foreign.EOS, "<pad>"})),
    )


def rename_weight(name: str, names: Sequence[tuple[str, str]]) -> str:
    """Returns a weight's name in the other format. names: WEIGHT_NAMES, or its swapped pairs in reverse order."""
    for old, new in names:
        pattern = re.escape(old).replace(r"\^", "^").replace(r"\*", "(.*)")
        name = re.sub(pattern, new.removeprefix("^").replace("*", r"\1"), name)
    return name


def _read_added_tokens(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """Returns the ids of tokens that were added to the tokenizer; the vocabulary may have them, too."""
    added = foreign.read_json_object(folder / "added_tokens.json", is_optional=True)
    listed = tokenizer.get("added_tokens_decoder")
    for number, about in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(about, dict) and isinstance(about.get("content"), str) and re.fullmatch(r"[0-9]{1,9}", number):
            added[about["content"]] = int(number)
    return added


def _position_kind(table: Tensor | None) -> str:
    """Returns the setting model.positions for a table: marian, or sinusoidal, as transformers computes without one."""
    if table is None or table.ndim != 2 or len(table) < 2 or table.shape[1] % 2:
        return "sinusoidal"
    expected = marian_frequencies(table.shape[1]).sin()  # of position 1; all sines come first
    return "marian" if torch.allclose(table[1, : len(expected)].float(), expected, atol=2e-4) else "sinusoidal"


def _is_tied(tensors: dict[str, Tensor]) -> bool:
    """Whether the output projection is the target embedding, or has no weights of its own."""
    output = tensors.get("lm_head.weight")
    embedding = tensors.get("model.decoder.embed_tokens.weight", tensors.get("model.shared.weight"))
    return output is None or (embedding is not None and torch.equal(output, embedding))


def _read_vocabulary(folder: Path, side: str, name: str, added: dict[str, int]) -> ForeignVocabulary:
    for path in (folder / name, folder / f"{side}.spm"):
        if not path.is_file():
            remedy = "copy the tokenizer's files from the model that it was trained from, or download them"
            raise DataError(f"{path}: missing; {remedy}")
    tokens = foreign.tokens_by_id(folder / name, [*(added | foreign.read_json_object(folder / name)).items()])
    return foreign.read_vocabulary(folder / f"{side}.spm", tokens)


def _read_weights(folder: Path, weights: Path | None) -> tuple[Path, dict[str, Tensor]]:
    """Returns the path of the weights, and the weights by their names."""
    path = weights or folder / "model.safetensors"
    if path.suffix == ".safetensors" and path.is_file():
        with foreign.as_data_error(path):
            return path, load_file(path)
    path = weights or folder / "pytorch_model.bin"
    if not path.is_file():
        raise DataError(f"{folder}: no weights: neither model.safetensors nor pytorch_model.bin; download one of them")
    with foreign.as_data_error(path):
        if path.read_bytes()[:4] == b"PK\3\4":
            foreign.refuse_compressed(path)
        try:
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError:  # its message says how to run the pickle
            raise DataError(f"{path}: damaged, or a pickle that could run code, not only tensors; delete it") from None
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise DataError(f"{path}: not a dict of tensors by their names; download it again")
    return path, found


def _language_code(value: object) -> str | None:
    """Returns a language code; None for other names in OPUS-MT, such as ROMANCE."""
    code = value.removeprefix("opus-mt-") if isinstance(value, str) else ""
    return code if re.fullmatch(LANGUAGE, code) else None
