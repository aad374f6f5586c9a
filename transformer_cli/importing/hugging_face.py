"""Reads a model as Hugging Face's MarianMTModel keeps it: config.json, vocab.json, source.spm, target.spm, weights.

Source: transformers' models/marian. Weights are safetensors, or a pickle of which torch reads tensors and nothing else.
"""

import logging
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
SEARCHED: dict[str, tuple[object, ...]] = {
    "repetition_penalty": (None, 1),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1),
    "forced_bos_token_id": (None,),
    "forced_decoder_ids": (None, []),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "sequence_bias": (None, {}),
    "num_beam_groups": (None, 1),
    "diversity_penalty": (None, 0),
    "penalty_alpha": (None,),
    "exponential_decay_length_penalty": (None,),
}
"""the same for those that change what is searched for"""
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

log = logging.getLogger(__name__)


def read_hugging_face(folder: Path, weights: Path | None = None) -> Foreign:
    """Read the model in a folder, with the positions of Hugging Face. Raises DataError.

    weights: the file that has them (None: as Hugging Face calls it).
    """
    path = folder / "config.json"
    config = object_in(path)
    generation = folder / "generation_config.json"
    searching = config | (object_in(generation) if generation.exists() else {})
    refuse_others(path, config, HELD)
    said_in = generation if generation.exists() else path
    refuse_others(said_in, searching, SEARCHED)
    for one in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{one}") != config.get(f"decoder_{one}"):
            raise refuse(path, f"decoder_{one}", config.get(f"decoder_{one}"), "the encoder has another one")
    about = folder / "tokenizer_config.json"
    tokenizer = object_in(about) if about.exists() else {}
    added = _added_tokens(folder, tokenizer)
    source = _vocabulary(folder, "source", "vocab.json", added)
    separate = (folder / "target_vocab.json").exists() and not config.get("share_encoder_decoder_embeddings", True)
    target = _vocabulary(folder, "target", *(("target_vocab.json", {}) if separate else ("vocab.json", added)))
    for key in ("decoder_start_token_id", "pad_token_id"):
        if type(value := config.get(key)) is not int or not 0 <= value < len(target.tokens):
            raise refuse(path, key, value, "it is not the id of a token")
    bad = searching.get("bad_words_ids") or []
    if bad not in ([], [[config["pad_token_id"]]]):
        raise refuse(said_in, "bad_words_ids", bad, "tfm writes every token of the vocabulary but <pad>")
    if searching.get("forced_eos_token_id") not in (None, target.tokens.index(foreign.EOS)):
        raise refuse(said_in, "forced_eos_token_id", searching["forced_eos_token_id"], f"it is not {foreign.EOS}")
    path_of_weights, tensors = _tensors(folder, weights)
    longest, most = searching.get("max_length"), config.get("max_position_embeddings")
    if isinstance(longest, int) and isinstance(most, int) and longest < most:
        log.warning(
            "%s: max_length: %s is not taken: a translation's limit follows from its sentence", said_in, longest
        )
    if config.get("tie_word_embeddings", True) and not _is_tied(tensors):
        log.warning("%s: it says that the output is tied to the embedding, but the weights are others: not tied", path)
    names = {name: foreign.renamed(name, NAMES) for name in tensors if not COMPUTED.fullmatch(name)}
    activation = config.get("activation_function")
    return Foreign(
        path_of_weights,
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
        foreign.known(
            (_code(tokenizer.get("source_lang")), _code(tokenizer.get("target_lang"))),
            foreign.languages_of(folder, config.get("_name_or_path"), tokenizer.get("name_or_path")),
        ),
        tuple(sorted(set(added) - {foreign.UNK, foreign.EOS, "<pad>"})),
    )


def _added_tokens(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens that were added to the tokenizer, with their ids; the vocabulary may have them, too."""
    path = folder / "added_tokens.json"
    added = dict(object_in(path)) if path.exists() else {}
    listed = tokenizer.get("added_tokens_decoder")
    for number, about in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(about, dict) and isinstance(about.get("content"), str) and str(number).isdecimal():
            added[about["content"]] = int(number)
    return added


def _is_tied(tensors: dict[str, Tensor]) -> bool:
    """Whether the output projection is an embedding of the target, or has no weights of its own."""
    output = tensors.get("lm_head.weight")
    embedding = tensors.get("model.decoder.embed_tokens.weight", tensors.get("model.shared.weight"))
    return output is None or (embedding is not None and torch.equal(output, embedding))


def _vocabulary(folder: Path, side: str, name: str, added: dict[str, int]) -> Vocabulary:
    tokens = foreign.in_order(folder / name, [*(added | object_in(folder / name)).items()])
    return foreign.vocabulary(folder / f"{side}.spm", tokens)


def _tensors(folder: Path, weights: Path | None) -> tuple[Path, dict[str, Tensor]]:
    """Returns the file with the weights, and what is in it."""
    path = weights or folder / "model.safetensors"
    if path.suffix == ".safetensors" and path.exists():
        with foreign.refusing_damage(path):
            return path, load_file(path)
    path = weights or folder / "pytorch_model.bin"
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
