"""export_to_hugging_face(run): a run's best weights → a folder for MarianMTModel of transformers.

hugging_face.py and importing.py have the names, settings and order of the weights; they import an exported folder as
the same model.
"""

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from transformer_cli.adapters.interop import foreign, hugging_face
from transformer_cli.adapters.interop.ctranslate2 import import_ctranslate2
from transformer_cli.adapters.interop.importing import SIDE_OF_WEIGHT, permute_width, width_permutation
from transformer_cli.adapters.interop.to_ctranslate2 import write_checked_model
from transformer_cli.compute.devices import format_bytes
from transformer_cli.config.load import settings_by_key
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_best
from transformer_cli.runs.run import Run
from transformer_cli.system.files import atomic_folder, write_bytes, write_json
from transformer_cli.text.codec import SIDES, SubwordCodec
from transformer_cli.text.vocabulary import EOS, SOS, SPECIALS, UNK

MARIAN_MT_VALUES: dict[str, tuple[object, ...]] = {
    "data.tokens": ("subwords",),
    "data.lowercase": (False,),
    "model.norm": ("post",),
    "model.final_norm": (False,),
    "model.start_token": (False,),
    "model.positions": ("sinusoidal", "marian"),
    "model.qkv_bias": (True,),
}
"""our settings that affect what is computed, with the values that MarianMTModel supports"""
PAD = "<pad>"
FIRST_TOKENS = (foreign.EOS, foreign.UNK, PAD)
DEFAULT_POSITIONS = 512  # for a model without a limit; OPUS-MT's models have as many
FORBIDDEN_LOGIT = -1e4  # of <pad>, which is never written; float16 can represent it

log = logging.getLogger(__name__)


def export_to_hugging_face(
    run: str | Path | Run | None = None, output: str | Path | None = None, *, runs_dir: Path = Path("runs")
) -> Path:
    """Write the best weights of a run (None: the newest) into a new folder for MarianMTModel. Returns the folder.

    output: the folder (None: exports/NAME-huggingface). Raises CheckpointError, ConfigError if the folder exists or
    MarianMTModel does not support the model, OSError.
    """
    source_run = Run.load(run, runs_dir)
    config = source_run.config
    _refuse_unsupported(config)
    codecs = [codec for codec in vars(source_run.codecs).values() if isinstance(codec, SubwordCodec)]
    assert len(codecs) == len(SIDES), "words are refused"
    destination = Path(output) if output else Path("exports") / f"{source_run.folder.resolve().name}-huggingface"
    if os.path.lexists(destination):
        raise ConfigError(f"{destination} exists already; name another output, or delete it first")
    checkpoint, model = load_best(source_run, torch.device("cpu"))
    vocabularies = [[*FIRST_TOKENS, *codec.all_tokens()[len(SPECIALS) :]] for codec in codecs]
    is_shared = config.model.tie_embeddings == "all"
    n_positions = config.model.max_length or DEFAULT_POSITIONS
    settings: dict[str, Any] = {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        **{key: values[0] for key, values in hugging_face.SUPPORTED.items()},
        **{theirs: getattr(config.model, ours) for ours, (theirs, _) in hugging_face.MODEL_KEYS.items()},
        "max_position_embeddings": n_positions,
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(vocabularies[1]),
        "share_encoder_decoder_embeddings": is_shared,
        "tie_word_embeddings": config.model.tie_embeddings != "none",
    }
    settings |= {f"decoder_{key}": settings[f"encoder_{key}"] for key in hugging_face.PER_STACK_KEYS}
    # attention_dropout and activation_dropout
    settings |= {key: config.model.dropout for key, value in settings.items() if value is None}
    eos, pad = FIRST_TOKENS.index(foreign.EOS), FIRST_TOKENS.index(PAD)
    special_ids = {"decoder_start_token_id": pad, "pad_token_id": pad, "eos_token_id": eos, "bos_token_id": eos}
    keys = hugging_face.search_keys(is_sample=config.decoding.sample)
    search = {theirs: getattr(config.decoding, ours) for ours, (theirs, _) in keys.items()}
    search |= {"max_length": n_positions, "bad_words_ids": [[pad]], "forced_eos_token_id": eos}
    added = {vocabularies[0].index(symbol): {"content": symbol} for symbol in config.data.subwords.user_defined_symbols}
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.source,
        "target_lang": config.data.output_language,
        "separate_vocabs": not is_shared,
        "model_max_length": n_positions,
        "added_tokens_decoder": added,
    }
    with atomic_folder(destination) as folder:
        save_file(_export_weights(model, n_positions), folder / "model.safetensors", {"format": "pt"})
        write_json(folder / "config.json", {**settings, **special_ids})
        write_json(folder / "generation_config.json", {**search, **special_ids})
        write_json(folder / "tokenizer_config.json", tokenizer)
        for side, codec, name in zip(SIDES, codecs, ("vocab.json", "target_vocab.json"), strict=True):
            write_bytes(folder / f"{side}.spm", codec.proto)
            if side == "source" or not is_shared:
                write_json(folder / name, {token: row for row, token in enumerate(vocabularies[SIDES.index(side)])})
        _check_formula(source_run, model, checkpoint)
    size = format_bytes((destination / "model.safetensors").stat().st_size)
    log.info("%s: %s of %s, for transformers, %s", destination, checkpoint, source_run.folder, size)
    return destination


def _check_formula(run: Run, model: Transformer, checkpoint: str) -> None:
    """Raises ConfigError if the model's code was changed; CTranslate2 computes what transformers does."""
    try:
        import_ctranslate2()
    except ConfigError as missing:
        log.warning("the losses of this export have not been compared with the run's: %s", missing)
        return
    with TemporaryDirectory() as scratch:
        write_checked_model(model, Path(scratch), run.codecs, run.folder / "checkpoints" / checkpoint)


def _refuse_unsupported(config: Config) -> None:
    """Raises ConfigError for the first setting that MarianMTModel does not support."""
    found = {**settings_by_key(config), "data.lowercase": config.data.lowercased}
    for key, values in MARIAN_MT_VALUES.items():
        if found[key] not in values:
            only = " or ".join(map(inline_yaml, values))
            raise ConfigError(
                f"{key}: {inline_yaml(found[key])} cannot be exported to huggingface, only {only}; the config "
                "huggingface, as in `tfm train --config huggingface`, trains a model that can"
            )
    heads = config.model.d_model // config.model.num_heads
    if config.model.head_dim not in (None, heads):
        raise ConfigError(f"model.head_dim: {config.model.head_dim} cannot be exported to huggingface, only {heads}")


def _export_weights(model: Transformer, n_positions: int) -> dict[str, Tensor]:
    """Returns the weights under MarianMTModel's names, in its order of ids and width."""
    reversed_names = [(ours, theirs) for theirs, ours in reversed(hugging_face.WEIGHT_NAMES)]
    width = width_permutation(model.config).argsort()
    rows = [EOS, UNK, SOS]  # for FIRST_TOKENS; <pad> gets the vector of <sos>, with which a target begins
    is_shared = model.config.tie_embeddings == "all"
    weights: dict[str, Tensor] = {}
    for ours, parameter in model.named_parameters():
        value = permute_width(ours, parameter.detach(), width)
        if ours in SIDE_OF_WEIGHT:
            value = value[[*rows, *range(len(SPECIALS), len(value))]]
        if ours == "output.bias":
            value[FIRST_TOKENS.index(PAD)] = FORBIDDEN_LOGIT
            value = value[None]
        if ".qkv." in ours:
            for part, matrix in zip("qkv", value.chunk(3), strict=True):
                weights[hugging_face.rename_weight(ours.replace(".qkv.", f".{part}."), reversed_names)] = matrix
            continue
        name = ours.replace("source_embedding.", "", int(is_shared)).replace("attention.output.", "attention.o.")
        weights[hugging_face.rename_weight(name, reversed_names)] = value
    if model.config.positions == "marian":  # without a table, transformers computes its own
        for stack, embedding in zip(hugging_face.STACKS, (model.source_embedding, model.target_embedding), strict=True):
            table = embedding.positions(torch.arange(n_positions))[:, width]
            weights[hugging_face.POSITION_TABLE.format(stack)] = table
    return {name: value.contiguous() for name, value in weights.items()}
