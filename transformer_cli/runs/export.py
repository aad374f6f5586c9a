"""export(run): a run's best weights → a folder in CTranslate2's format, with the run's codecs and settings.

`write_model` says which of CTranslate2's layers and weights ours are; the folder's README.md is filled into a page of
readme_words.md or readme_subwords.md.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transformer_cli.compute.memory import in_words
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.data.codec import Codecs, WordCodec
from transformer_cli.data.lines import LONGEST_LINE
from transformer_cli.data.vocabulary import EOS, MARKERS, SOS, SPECIALS, UNK
from transformer_cli.decoding.ctranslate2 import import_ctranslate2
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_named_best
from transformer_cli.runs.exported import Exported, Facts, is_exported, write_export
from transformer_cli.runs.run import Run, find_run, write_config
from transformer_cli.system.files import new_folder, write_text

log = logging.getLogger(__name__)

MOST_BYTES = 2**32 - 1  # of one matrix: CTranslate2's files count them in 32 bits
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1}
TABLE = LONGEST_LINE + MARKERS  # positions that are written for sinusoids, which have no last one
EPSILON = 1e-5  # torch's, in each LayerNorm

Weights = Mapping[str, NDArray[Any]]


def export(
    run: str | Path | None = None,
    output: Path | None = None,
    *,
    quantization: str = "float32",
    runs_dir: Path = Path("runs"),
) -> Exported:
    """Write the best weights of a run (None: the newest) into a new folder, if they are not there yet, and open it.

    output: None for exports/NAME, or exports/NAME-int8 and so on. quantization: how weights are kept: float32, float16,
    bfloat16, int16 or int8. Raises CheckpointError, ConfigError if CTranslate2 is not installed, something else is
    there or weights cannot be kept so, OSError.
    """
    if quantization not in BYTES:
        raise ConfigError(f"quantization: {quantization!r} is not one of {', '.join(BYTES)}")
    opened = Run.open(find_run(run, runs_dir))
    library = import_ctranslate2()
    kept = "" if quantization == "float32" else f"-{quantization}"
    place = output or Path("exports") / f"{opened.folder.resolve().name}{kept}"
    facts = Facts(
        run=opened.folder.resolve().name,
        checkpoint=opened.best_name,
        quantization=quantization,
        positions=positions_of(opened.config.model),
        written_by=library.__version__,
    )
    if is_exported(place):
        there = Exported.open(place)
        is_of_it = there.identity.id == opened.identity.id
        if not is_of_it or there.facts != facts:
            of = f"{there.best_name} of {'' if is_of_it else 'another run '}{there.facts.run}"
            raise ConfigError(
                f"{place}: there already, {of} in {there.facts.quantization}, written by CTranslate2 "
                f"{there.facts.written_by}; give --output a new name, or delete it first to have {facts.checkpoint} of "
                f"{opened.folder} in {quantization}"
            )
        log.info("%s: there already, as %s of %s in %s", place, facts.checkpoint, opened.folder, quantization)
        return there
    if os.path.lexists(place):
        raise ConfigError(f"{place}: there already, and not an exported model; give --output a new name")
    checkpoint, model = load_named_best(opened, torch.device("cpu"))
    facts = replace(facts, checkpoint=checkpoint)  # training may have found better weights meanwhile
    codecs = opened.codecs
    with new_folder(place) as folder:
        codecs.save(folder)
        write_model(
            model, folder, source=codecs.source.names(), target=codecs.target.names(), quantization=quantization
        )
        write_config(folder, opened.config)
        write_text(folder / "README.md", readme(opened.config, codecs, facts))
        write_export(folder, opened.identity, facts)
    size = in_words((place / "model.bin").stat().st_size)
    log.info("%s: %s of %s in %s, %s", place, checkpoint, opened.folder, quantization, size)
    return Exported.open(place)


def readme(config: Config, codecs: Codecs, facts: Facts) -> str:
    """Returns the page of the folder: how to translate with it from Python, without tfm.

    Its code searches as the run's section `decoding` says, but does not sample.
    """
    is_of_words = isinstance(codecs.target, WordCodec)
    is_one_by_one = is_of_words and config.decoding.beam_size > 1  # readme_words.md says why
    options = {
        "beam_size": config.decoding.beam_size,
        "length_penalty": config.decoding.length_penalty,
        "no_repeat_ngram_size": config.decoding.no_repeat_ngram,
        "max_decoding_length": facts.positions - MARKERS,
        "max_input_length": facts.positions,
        "max_batch_size": 1 if is_one_by_one else 2048,
        "batch_type": '"examples"' if is_one_by_one else '"tokens"',
    }
    page = Path(__file__).with_name("readme_words.md" if is_of_words else "readme_subwords.md")
    return Template(page.read_text(encoding="utf-8")).substitute(
        vars(facts),
        source=config.data.source,
        target=config.data.target,
        lowercase=config.data.lowercased,
        options=",\n        ".join(f"{name}={value}" for name, value in options.items()),
        longest=facts.positions - MARKERS,
    )


def positions_of(config: ModelConfig) -> int:
    """Returns how many positions an exported model has, <sos> and <eos> included.

    CTranslate2 needs a table. Its own sinusoids begin at position 1 and put all sines before all cosines.
    """
    if config.positions == "learned":
        assert config.max_length is not None  # the config ensures it
        return config.max_length
    return min(config.max_length or TABLE, TABLE)


def write_model(
    model: Transformer, folder: Path, *, source: Sequence[str], target: Sequence[str], quantization: str = "float32"
) -> None:
    """Write a model into a folder, as CTranslate2 reads it.

    source, target: the tokens in the order of their ids, each a different one. quantization: one of BYTES. Raises
    ConfigError if the format cannot hold the model, OSError.
    """
    from ctranslate2.specs import TransformerSpec

    weights = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    for name, weight in weights.items():
        if (n_bytes := weight.size * BYTES[quantization]) > MOST_BYTES:
            raise ConfigError(
                f"{name} would have {n_bytes / 1e9:.1f} GB, and a matrix in CTranslate2's format has at most 4.3 GB; "
                "choose a smaller --quantization, such as int8"
            )
    spec = TransformerSpec(_encoder(model, weights), _decoder(model, weights))
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.unk_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[SOS]
    spec.config.add_source_bos = spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def _encoder(model: Transformer, weights: Weights) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    config = model.config
    spec = TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **_shape(config))
    spec.scale_embeddings = config.scale_embeddings
    spec.embeddings[0].weight = weights["source_embedding.tokens.weight"]
    spec.position_encodings.encodings = _table(model.source_embedding.positions, config)
    _set_final_norm(spec, config, weights, "encoder")
    for index, layer in enumerate(spec.layer):
        name = f"encoder.layers.{index}"
        _set_self_attention(layer.self_attention, name, weights)
        _set_feed_forward(layer.ffn, name, weights, norm=1)
    return spec


def _decoder(model: Transformer, weights: Weights) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    config = model.config
    # attention is returned of the last layer, as the mean of so many heads
    spec = TransformerDecoderSpec(
        config.num_decoder_layers, config.num_heads, alignment_heads=config.num_heads, **_shape(config)
    )
    spec.scale_embeddings = config.scale_embeddings
    spec.embeddings.weight = weights["target_embedding.tokens.weight"]
    spec.position_encodings.encodings = _table(model.target_embedding.positions, config)
    _set_linear(spec.projection, "output", weights)
    _set_final_norm(spec, config, weights, "decoder")
    for index, layer in enumerate(spec.layer):
        name = f"decoder.layers.{index}"
        _set_self_attention(layer.self_attention, name, weights)
        inner = weights[f"{name}.cross_attention.output.weight"].shape[1]  # of W_Q, W_K, W_V the rows one below another
        _set_linear(layer.attention.linear[0], f"{name}.cross_attention.qkv", weights, slice(inner))
        _set_linear(layer.attention.linear[1], f"{name}.cross_attention.qkv", weights, slice(inner, None))
        _set_linear(layer.attention.linear[2], f"{name}.cross_attention.output", weights)
        _set_norm(layer.attention.layer_norm, f"{name}.residuals.1.norm", weights)
        _set_feed_forward(layer.ffn, name, weights, norm=2)
    return spec


def _shape(config: ModelConfig) -> dict[str, Any]:
    """Returns what both stacks are made with."""
    from ctranslate2.specs.common_spec import Activation

    return {
        "pre_norm": config.norm == "pre",
        "no_final_norm": not config.final_norm,
        "activation": Activation.RELU if config.activation == "relu" else Activation.GELU,
        "head_dim": config.head_dim,
    }


@torch.no_grad()
def _table(positions: torch.nn.Module, config: ModelConfig) -> NDArray[np.float32]:
    """Returns the vectors of all positions: float32 (positions, d_model)."""
    table: NDArray[np.float32] = positions(torch.arange(positions_of(config))).float().numpy()
    return table


def _set_final_norm(spec: Any, config: ModelConfig, weights: Weights, stack: str) -> None:
    from ctranslate2.specs.common_spec import LayerNormSpec

    if config.final_norm:
        spec.__dict__["layer_norm"] = LayerNormSpec()  # a frozen spec, which has none of its own with norm: post
        _set_norm(spec.layer_norm, f"{stack}.norm", weights)


def _set_self_attention(spec: Any, layer: str, weights: Weights) -> None:
    _set_linear(spec.linear[0], f"{layer}.self_attention.qkv", weights)
    _set_linear(spec.linear[1], f"{layer}.self_attention.output", weights)
    _set_norm(spec.layer_norm, f"{layer}.residuals.0.norm", weights)


def _set_feed_forward(spec: Any, layer: str, weights: Weights, *, norm: int) -> None:
    _set_linear(spec.linear_0, f"{layer}.feed_forward.inner", weights)
    _set_linear(spec.linear_1, f"{layer}.feed_forward.outer", weights)
    _set_norm(spec.layer_norm, f"{layer}.residuals.{norm}.norm", weights)


def _set_linear(spec: Any, name: str, weights: Weights, rows: slice = slice(None)) -> None:
    spec.weight = weights[f"{name}.weight"][rows]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"][rows]


def _set_norm(spec: Any, name: str, weights: Weights) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
