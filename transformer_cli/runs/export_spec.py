"""Our Transformer in CTranslate2's format: which of its layers and weights ours are. Knows no run and no text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transformer_cli.config.schema import ModelConfig
from transformer_cli.data.lines import LONGEST_LINE
from transformer_cli.data.vocabulary import EOS, MARKERS, SOS, SPECIALS, UNK
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer

MOST_BYTES = 2**32 - 1  # of one matrix: CTranslate2's files count them in 32 bits
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1}
TABLE = LONGEST_LINE + MARKERS  # positions that are written for sinusoids, which have no last one
EPSILON = 1e-5  # torch's, in each LayerNorm

Weights = Mapping[str, NDArray[Any]]


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
    _refuse_what_is_too_large(weights, BYTES[quantization])
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


def _refuse_what_is_too_large(weights: Weights, n_bytes: int) -> None:
    for name, weight in weights.items():
        if weight.size * n_bytes > MOST_BYTES:
            raise ConfigError(
                f"{name} would have {weight.size * n_bytes / 1e9:.1f} GB, and a matrix in CTranslate2's format has at "
                "most 4.3 GB; choose a smaller --quantization, such as int8"
            )


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
