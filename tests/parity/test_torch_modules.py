"""Every part of the model, and the whole of it, against torch's own with the same weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from oracles.small import assert_close
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import MultiHeadAttention, attention, masked_attention
from transformer_cli.model.layers import FeedForward, Residual
from transformer_cli.model.layout import causal_mask
from transformer_cli.model.transformer import Transformer

PAD = 1
SHAPE = ModelConfig(
    d_model=16, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, d_ff=24, dropout=0.0, max_length=9
)
VARIANTS = [
    pytest.param({"norm": norm, "activation": activation, "final_norm": norm == "pre"}, id=f"{norm}-{activation}")
    for norm in ("post", "pre")
    for activation in ("relu", "gelu", "swish")
]
TORCH_NAMES = {
    "self_attention.": "self_attn.",
    "cross_attention.": "multihead_attn.",
    "qkv.": "in_proj_",
    "output.": "out_proj.",
    "feed_forward.inner.": "linear1.",
    "feed_forward.outer.": "linear2.",
    "residuals.0.norm.": "norm1.",
    "residuals.1.norm.": "norm2.",
    "residuals.2.norm.": "norm3.",
}
MAY_ATTEND_SOURCE = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])
MAY_ATTEND_TARGET = torch.tensor([[True, True, True, False], [True, True, True, True]])


pytestmark = pytest.mark.usefixtures("seeded")


def with_random_weights(module: nn.Module) -> None:
    """Biases and LayerNorms too: zeros and ones would hide a swap."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def copy_weights(ours: nn.Module, theirs: nn.Module) -> None:
    """Strict: every weight of theirs is one of ours, and the other way round."""
    state = {}
    for name, tensor in ours.state_dict().items():
        for our_name, torch_name in TORCH_NAMES.items():
            name = name.replace(our_name, torch_name)
        state[name] = tensor
    theirs.load_state_dict(state)


@pytest.mark.parametrize("may_attend", [None, MAY_ATTEND_SOURCE[:, None, None, :]], ids=["everything", "padding"])
@pytest.mark.parametrize("bias", [None, torch.linspace(-2.0, 2.0, 60).view(3, 4, 5)], ids=["no-bias", "bias"])
def test_attention_equals_torch(may_attend: Tensor | None, bias: Tensor | None) -> None:
    query, key, value = (torch.randn(2, 3, length, 8) for length in (4, 5, 5))
    mask = may_attend if bias is None or may_attend is None else bias.masked_fill(~may_attend, float("-inf"))
    theirs = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias if mask is None else mask)
    assert_close(attention(query, key, value, nn.Dropout(0.0), may_attend=may_attend, bias=bias)[0], theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention_equals_torch(bias: bool) -> None:
    ours = MultiHeadAttention(16, 4, 4, qkv_bias=bias, dropout=0.0)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True, bias=bias)
    with_random_weights(ours)
    if not bias:
        nn.init.zeros_(ours.output.bias)  # torch's bias=False takes this one away as well
        ours.output.register_parameter("bias", None)
    copy_weights(ours, theirs)
    x, memory = torch.randn(2, 4, 16), torch.randn(2, 5, 16)

    cross = ours(x, ours.keys_values(memory), masked_attention(MAY_ATTEND_SOURCE[:, None, None, :]))
    assert_close(cross, theirs(x, memory, memory, key_padding_mask=~MAY_ATTEND_SOURCE)[0])

    self_attention = ours(x, None, masked_attention(MAY_ATTEND_TARGET[:, None, None, :]))
    assert_close(self_attention, theirs(x, x, x, key_padding_mask=~MAY_ATTEND_TARGET)[0])


def test_feed_forward_equals_equation_2() -> None:
    feed_forward = FeedForward(SHAPE)
    with_random_weights(feed_forward)
    x = torch.randn(2, 3, 16)
    w_1, b_1, w_2, b_2 = feed_forward.parameters()
    assert_close(feed_forward(x), (x @ w_1.T + b_1).clamp(min=0.0) @ w_2.T + b_2)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_equals_layer_norm_of_sum(norm: str) -> None:
    residual = Residual(SHAPE.model_copy(update={"norm": norm}))
    with_random_weights(residual)
    x = torch.randn(2, 3, 16)

    def layer_norm(x: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * residual.norm.weight + residual.norm.bias

    written_out = layer_norm(x + x.sin()) if norm == "post" else x + layer_norm(x).sin()
    assert_close(residual(x, residual.pre_norm(x).sin()), written_out)


def torch_layer(config: ModelConfig, kind: type[nn.Module]) -> nn.Module:
    return kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=0.0,
        activation=nn.functional.silu if config.activation == "swish" else config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    )


def torch_transformer(ours: Transformer) -> nn.Transformer:
    """torch's Transformer with the weights of ours. Its default stacks always end in a norm, so it is given stacks."""
    config = ours.config
    norms = [nn.LayerNorm(config.d_model) if config.final_norm else None for _ in range(2)]
    encoder_layer = torch_layer(config, nn.TransformerEncoderLayer)
    decoder_layer = torch_layer(config, nn.TransformerDecoderLayer)
    assert isinstance(encoder_layer, nn.TransformerEncoderLayer)
    assert isinstance(decoder_layer, nn.TransformerDecoderLayer)
    encoder = nn.TransformerEncoder(encoder_layer, config.num_encoder_layers, norms[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, config.num_decoder_layers, norms[1])
    theirs = nn.Transformer(
        config.d_model, config.num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    copy_weights(ours.encoder, theirs.encoder)
    copy_weights(ours.decoder, theirs.decoder)
    return theirs


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformer_equals_torch(variant: dict[str, object]) -> None:
    ours = Transformer(SHAPE.model_copy(update=variant), source_vocabulary=11, target_vocabulary=13, pad_id=PAD)
    with_random_weights(ours)
    theirs = torch_transformer(ours)
    source = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD]])
    target = torch.tensor([[2, 8, PAD, PAD], [2, 12, 4, 6]])
    embedded = [
        embedding.tokens(ids) * math.sqrt(16) + embedding.get_parameter("positions.weight")[: ids.shape[1]]
        for embedding, ids in ((ours.source_embedding, source), (ours.target_embedding, target))
    ]
    decoded = theirs(
        *embedded,
        tgt_mask=~causal_mask(4, source.device),
        src_key_padding_mask=source == PAD,
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    is_token = target != PAD  # what a padded position has as its position is nobody's concern
    assert_close(ours(source, target)[is_token], ours.output(decoded)[is_token])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the fused kernels are used on CUDA alone")
def test_fused_kernels_on_cuda_equal_cpu() -> None:
    model = Transformer(SHAPE, source_vocabulary=11, target_vocabulary=13, pad_id=PAD)
    source = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD]])
    target = torch.tensor([[2, 8, PAD, PAD], [2, 12, 4, 6]])
    on_cpu = model(source, target)
    assert_close(model.cuda()(source.cuda(), target.cuda()).cpu(), on_cpu)
