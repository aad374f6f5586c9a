"""Reads a model as Hugging Face's MarianMTModel keeps it: config.json, vocab.json, source.spm, target.spm, weights.

Source: transformers' models/marian. Weights are safetensors, or a pickle of which torch reads tensors and nothing else.
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
from transformer_cli.adapters.interop.foreign import Foreign, ForeignVocabulary, object_in, refuse, refuse_others
from transformer_cli.config.schema import LANGUAGE
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import marian_frequencies

STACKS = ("encoder", "decoder")
HELD: Mapping[str, tuple[object, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("swish", "silu", "relu", "gelu"),
    "add_bias_logits": (False,),
    "add_final_layer_norm": (False,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
}
"""the settings that change what is computed, with the values that tfm computes"""
SEARCHED: Mapping[str, tuple[object, ...]] = {
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
    "force_words_ids": (None,),
    "guidance_scale": (None, 1),
}
"""the same for those that change what is searched for"""
NAMES = (
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
"""what their names become, one after the other, and ours from the last to the first: ^ is the beginning of a name, and
* any text, which stays"""
SHAPE: Mapping[str, tuple[str, Any]] = {
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
    "feed_forward_dropout": ("activation_dropout", 0.0),
}
"""our keys under `model`: theirs, and their value where nothing is said"""
OF_BOTH = ("attention_heads", "ffn_dim")  # which have a key for each stack there, and one here
_SEARCH: Mapping[str, tuple[str, Any]] = {
    "beam_size": ("num_beams", 1),
    "length_penalty": ("length_penalty", 1.0),
    "sample": ("do_sample", False),
    "no_repeat_ngram": ("no_repeat_ngram_size", 0),
}
_SAMPLE = {"temperature": ("temperature", 1.0), "top_k": ("top_k", 50), "top_p": ("top_p", 1.0)}
POSITIONS = "model.{}.embed_positions.weight"  # sines and cosines, in old files and in what tfm writes

log = logging.getLogger(__name__)


def keys_of_search(*, is_sample: bool) -> Mapping[str, tuple[str, Any]]:
    """Returns our keys under `decoding`: theirs, and their value where nothing is said. is_sample: of sampling, too."""
    return {**_SEARCH, **_SAMPLE} if is_sample else _SEARCH


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
    for key in OF_BOTH:
        if config.get(f"encoder_{key}") != config.get(f"decoder_{key}"):
            raise refuse(path, f"decoder_{key}", config.get(f"decoder_{key}"), "the encoder has another one")
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
    ends = [row for row, token in enumerate(target.tokens) if token == foreign.EOS]
    if searching.get("forced_eos_token_id") not in (None, *ends):
        raise refuse(said_in, "forced_eos_token_id", searching["forced_eos_token_id"], f"it is not {foreign.EOS}")
    path_of_weights, tensors = _tensors(folder, weights)
    for key in ("max_length", "max_new_tokens"):
        longest, most = searching.get(key), config.get("max_position_embeddings")
        if isinstance(longest, int) and isinstance(most, int) and longest < most:
            what = "%s: %s: %s is not taken: a translation's limit follows from its sentence"
            log.warning(what, said_in, key, longest)
    if config.get("tie_word_embeddings", True) and not _is_tied(tensors):
        log.warning("%s: it says that the output is tied to the embedding, but the weights are others: not tied", path)
    names = {name: renamed(name, NAMES) for name in tensors if name not in map(POSITIONS.format, STACKS)}
    shape = {ours: config.get(theirs, otherwise) for ours, (theirs, otherwise) in SHAPE.items()}
    if shape["activation"] == "silu":
        shape["activation"] = "swish"
    keys = keys_of_search(is_sample=bool(searching.get("do_sample")))
    search = {ours: (searching.get(theirs), otherwise) for ours, (theirs, otherwise) in keys.items()}
    return Foreign(
        path_of_weights,
        {**shape, "positions": _positions(tensors.get(POSITIONS.format("encoder")))},
        {ours: otherwise if value is None else value for ours, (value, otherwise) in search.items()},
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


def renamed(name: str, names: Sequence[tuple[str, str]]) -> str:
    """Returns what a weight is called by the other side. names: NAMES, or its rows and their ends turned round."""
    for old, new in names:
        pattern = re.escape(old).replace(r"\^", "^").replace(r"\*", "(.*)")
        name = re.sub(pattern, new.removeprefix("^").replace("*", r"\1"), name)
    return name


def _added_tokens(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens that were added to the tokenizer, with their ids; the vocabulary may have them, too."""
    path = folder / "added_tokens.json"
    added = dict(object_in(path)) if path.exists() else {}
    listed = tokenizer.get("added_tokens_decoder")
    for number, about in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(about, dict) and isinstance(about.get("content"), str) and re.fullmatch(r"[0-9]{1,9}", number):
            added[about["content"]] = int(number)
    return added


def _positions(table: Tensor | None) -> str:
    """Returns whose sines and cosines the weights have: those of transformers, which are in few files, or Marian's."""
    if table is None or table.ndim != 2 or len(table) < 2 or table.shape[1] % 2:
        return "sinusoidal"
    expected = marian_frequencies(table.shape[1]).sin()  # of position 1; all sines come first
    return "marian" if torch.allclose(table[1, : len(expected)].float(), expected, atol=2e-4) else "sinusoidal"


def _is_tied(tensors: dict[str, Tensor]) -> bool:
    """Whether the output projection is an embedding of the target, or has no weights of its own."""
    output = tensors.get("lm_head.weight")
    embedding = tensors.get("model.decoder.embed_tokens.weight", tensors.get("model.shared.weight"))
    return output is None or (embedding is not None and torch.equal(output, embedding))


def _vocabulary(folder: Path, side: str, name: str, added: dict[str, int]) -> ForeignVocabulary:
    tokens = foreign.in_order(folder / name, [*(added | object_in(folder / name)).items()])
    return foreign.vocabulary(folder / f"{side}.spm", tokens)


def _tensors(folder: Path, weights: Path | None) -> tuple[Path, dict[str, Tensor]]:
    """Returns the file with the weights, and what is in it."""
    path = weights or folder / "model.safetensors"
    if path.suffix == ".safetensors" and path.is_file():
        with foreign.refusing_damage(path):
            return path, load_file(path)
    path = weights or folder / "pytorch_model.bin"
    if not path.is_file():
        raise DataError(f"{folder}: no weights: neither model.safetensors nor pytorch_model.bin; download one of them")
    with foreign.refusing_damage(path):
        if path.read_bytes()[:4] == b"PK\3\4":
            foreign.refuse_packed(path)
        try:
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError:  # whose words say how to run it
            raise DataError(
                f"{path}: damaged, or a pickle of more than tensors, which could run code; delete it"
            ) from None
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise DataError(f"{path}: not named tensors; download it again")
    return path, found


def _code(value: object) -> str | None:
    """Returns the code of a language; None for names of OPUS-MT's that are none, such as ROMANCE."""
    code = value.removeprefix("opus-mt-") if isinstance(value, str) else ""
    return code if re.fullmatch(LANGUAGE, code) else None
