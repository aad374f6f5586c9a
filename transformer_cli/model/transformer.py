"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): figure 1 first, then its parts.

Knows ids and vectors, but not words, files or training. Built from layers.py (3.1, 3.3) and attention.py (3.2). Only
`encode` and `decode` combine embedding, stack and norm. How a batch's tokens are arranged is up to its layouts
(layout.py): padded rows, packed without padding for training and scores, or the newest token of each hypothesis in a
search (cache.py). The initialisation of weights comes last.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import AttentionFn, AttentionRecord, KeysValues, MultiHeadAttention
from transformer_cli.model.cache import Cache
from transformer_cli.model.dropout import Dropout
from transformer_cli.model.layers import DecoderLayer, EncoderLayer
from transformer_cli.model.layout import Layout, Padded


class Transformer(nn.Module):
    """Source ids and target ids in, logits over the target vocabulary out (figure 1)."""

    def __init__(self, config: ModelConfig, *, source_vocabulary: int, target_vocabulary: int, pad_id: int) -> None:
        """source_vocabulary, target_vocabulary: sizes. pad_id: the id of <pad> in both; <sos> is pad_id + 1."""
        super().__init__()
        self.config = config
        self.pad_id = pad_id
        self.source_embedding = Embedding(config, source_vocabulary)
        self.target_embedding = Embedding(config, target_vocabulary)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        head_dim = config.head_dim or config.d_model // config.num_heads
        self.rotary = RotaryPositions(frequencies(head_dim)) if config.positions == "rotary" else None
        suppressed_ids = () if config.start_token else (pad_id, pad_id + 1)
        self.output = Output(config.d_model, target_vocabulary, suppressed_ids)
        if config.tie_embeddings == "all":
            assert source_vocabulary == target_vocabulary, "one matrix needs one vocabulary"
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight
        if config.tie_embeddings != "none":
            self.output.weight = self.target_embedding.tokens.weight  # section 3.4
        self.apply(initialize)
        if config.embedding_init == "normal":
            init_embedding(self.target_embedding.tokens.weight, pad_id)
            if config.tie_embeddings != "all":
                init_embedding(self.source_embedding.tokens.weight, pad_id)

    def forward(self, source: Tensor, target: Tensor, record: AttentionRecord | None = None) -> Tensor:
        """Returns logits for the token after each target position (teacher forcing).

        source int64 (batch, source); target int64 (batch, target), beginning with <sos>; both padded at the end.
        Returns (batch, target, vocabulary); softmax turns them into probabilities.
        """
        source_side, target_side = Padded(source, self.source_mask(source)), Padded(target, target != self.pad_id)
        memories = self.decoder.keys_values(self.encode(source_side, record))
        return self.output(self.decode(target_side, memories, source_side, record))

    def encode(self, source: Layout, record: AttentionRecord | None = None) -> Tensor:
        """Returns the encoder's output, (…, source, d_model), for a layout whose ids are (…, source)."""
        x = self.source_embedding(source.ids, source.positions)
        attend = source.self_attention_fn(record.encoder_self if record else None)
        return self.encoder(x, self.rotary(attend, source.positions) if self.rotary else attend)

    def decode(
        self, target: Layout, memories: Sequence[KeysValues], source: Layout, record: AttentionRecord | None = None
    ) -> Tensor:
        """Returns the decoder's output, (…, target, d_model), from which `output` computes logits.

        memories: from `decoder.keys_values`. source: the layout that was encoded.
        """
        x = self.target_embedding(target.ids, target.positions)
        to_target = target.self_attention_fn(record.decoder_self if record else None, is_causal=True)
        to_target = self.rotary(to_target, target.positions) if self.rotary else to_target
        cross_attention_fn = target.cross_attention_fn(source, record.cross if record else None)
        return self.decoder(x, memories, to_target, cross_attention_fn)

    def init_cache(self, source: Tensor) -> Cache:
        """Encode source int64 (sentences, source), padded at the end. Returns the cache for decoding."""
        source_side = Padded(source, self.source_mask(source))
        return Cache(self.decoder.keys_values(self.encode(source_side)), source_side)

    def next_logits(self, tokens: Tensor, cache: Cache, record: AttentionRecord | None = None) -> Tensor:
        """Returns logits for the next token of each hypothesis, (hypotheses, vocabulary).

        tokens int64 (hypotheses,): the newest token of each; the cache has those before. The result equals the last
        position of `forward` over all tokens so far, if none is <pad>. record: its only entry will be the last layer's
        attention to the source, (sentences, heads, beam, source); `cache.ungroup_by_sentence` makes it (hypotheses,
        heads, 1, source).
        """
        cache.advance(tokens)  # now the cache is the layout of the newest tokens
        return self.output(self.decode(cache, cache.memories, cache.source, record)[:, 0])

    def source_mask(self, source: Tensor) -> Tensor:
        """Returns which ids (batch, source) are tokens: not <pad>, nor <sos> if the model has no start token."""
        is_token = source != self.pad_id
        if not self.config.start_token:
            is_token[:, 0] = False
        return is_token


class Embedding(nn.Module):
    """Token vectors × √d_model (3.4), plus position vectors (3.5), then dropout (5.4)."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids and positions int64, both (…, length). Returns (…, length, d_model)."""
        return self.dropout(self.tokens(ids) * self.scale + self.positions(positions))


class LearnedPositions(nn.Module):
    """A trained vector for each of the first max_length positions (Gehring et al. 2017; table 3, row E)."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64 (…), 0 … max_length-1. Returns their vectors (…, d_model)."""
        return nn.functional.embedding(positions, self.weight)


class SinusoidalPositions(nn.Module):
    """Sines and cosines of given frequencies: no weights, and no maximum length."""

    frequencies: Tensor

    def __init__(self, frequencies: Tensor) -> None:
        """frequencies: float32 (d_model/2,)."""
        super().__init__()
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64 (…), from 0. Returns their vectors (…, d_model).

        With d_model = 4 the paper's frequencies are 1 and 1/100, and the vector of position 3 is
        [sin 3, cos 3, sin 0.03, cos 0.03].
        """
        angles = positions[..., None] * self.frequencies  # (…, d_model/2)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (…, d_model/2, 2) → (…, d_model)


class RotaryPositions(nn.Module):
    """Rotates queries and keys by their positions, so that scores depend on distances (Su et al. 2021, section 3.2.2).

    Embeddings get no position vectors, and attention to the source is as without positions.
    """

    frequencies: Tensor

    def __init__(self, frequencies: Tensor) -> None:
        """frequencies: float32 (depth/2,)."""
        super().__init__()
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, attend: AttentionFn, positions: Tensor) -> AttentionFn:
        """Returns `attend` for rotated queries and keys, (…, heads, length, depth). positions int64 (…, length)."""
        angles = positions[..., None, :, None] * self.frequencies  # (…, 1, length, depth/2)
        cos, sin = angles.cos(), angles.sin()

        def rotate(x: Tensor) -> Tensor:
            """Turn the pairs (x_0, x_1), (x_2, x_3), … by their angles."""
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)

        return lambda queries, keys, values, dropout: attend(rotate(queries), rotate(keys), values, dropout)


class NoPositions(nn.Module):
    """Adds nothing: the positions are elsewhere."""

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64 (…). Returns zeros (…, 1)."""
        return torch.zeros_like(positions, dtype=torch.float32)[..., None]


def frequencies(d_model: int) -> Tensor:
    """Returns 1 / 10000^(2i/d_model) for i = 0 … d_model/2-1, float32 (d_model/2,).

    PE(pos, 2i) is the sine of pos times frequency i, and PE(pos, 2i+1) is the cosine.
    """
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")  # on meta, arange loads torch's compiler
    return (10000.0 ** (-two_i / d_model)).float()


def marian_frequencies(d_model: int) -> Tensor:
    """Returns 1 / 10000^(i/(d_model/2-1)) for i = 0 … d_model/2-1, float32 (d_model/2,), as Marian has them.

    The last one is 1/10000, which the paper's never reach.
    """
    i = torch.arange(d_model // 2, dtype=torch.float64, device="cpu")
    return (10000.0 ** (-i / max(1, d_model // 2 - 1))).float()


def _positions(config: ModelConfig) -> nn.Module:
    if config.positions == "rotary":
        return NoPositions()
    if config.positions != "learned":
        frequencies_of = {"sinusoidal": frequencies, "marian": marian_frequencies}[config.positions]
        return SinusoidalPositions(frequencies_of(config.d_model))
    assert config.max_length is not None  # the config ensures it
    return LearnedPositions(config.max_length, config.d_model)


class Output(nn.Linear):
    """The projection to logits (3.4). suppressed_ids are never generated: their logit is -inf."""

    suppressed_ids: Tensor  # on the model's device, so that no step copies them there

    def __init__(self, d_model: int, vocabulary: int, suppressed_ids: Sequence[int] = ()) -> None:
        super().__init__(d_model, vocabulary)
        self.register_buffer("suppressed_ids", torch.tensor(suppressed_ids, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (…, d_model). Returns logits (…, vocabulary)."""
        logits = nn.functional.linear(x, self.weight, self.bias)
        if len(self.suppressed_ids):
            logits.index_fill_(-1, self.suppressed_ids, float("-inf"))
        return logits


class Encoder(nn.Module):
    """A stack of identical layers (3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.layers = cast(Sequence[EncoderLayer], layers)  # a ModuleList's type does not say what it holds
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, attend: AttentionFn) -> Tensor:
        """x (…, source, d_model). Returns a tensor shaped like x."""
        for layer in self.layers:
            x = layer(x, attend)
        return self.norm(x)


class Decoder(nn.Module):
    """A stack of identical layers that also attend to the encoder's output (3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.layers = cast(Sequence[DecoderLayer], layers)
        self.norm = _final_norm(config)

    def forward(
        self, x: Tensor, memories: Sequence[KeysValues], attend_to_target: AttentionFn, attend_to_source: AttentionFn
    ) -> Tensor:
        """x (…, target, d_model). Returns a tensor shaped like x.

        memories: from `keys_values`.
        """
        for layer, memory in zip(self.layers, memories, strict=True):
            x = layer(x, memory, attend_to_target, attend_to_source)
        return self.norm(x)

    def keys_values(self, encoded: Tensor) -> list[KeysValues]:
        """Returns each layer's keys and values, (…, heads, source, depth), of the encoder's output."""
        return [layer.cross_attention.keys_values(encoded) for layer in self.layers]


def count_parameters(model: nn.Module) -> int:
    """Returns the number of trainable parameters. A tied matrix counts once; rows of it that are frozen count, too."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _final_norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.final_norm else nn.Identity()


def initialize(module: nn.Module) -> None:
    """Initialise every matrix, embeddings included, Xavier-uniform; leave biases and LayerNorm as torch makes them.

    The bound depends on a matrix's shape (Glorot and Bengio 2010), so W_Q, W_K and W_V are initialised one by one.
    """
    if isinstance(module, MultiHeadAttention):
        for part in module.qkv.weight.detach().split(module.inner_dim):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(module.output.weight)
    elif isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
        nn.init.xavier_uniform_(module.weight)


def init_embedding(weight: Tensor, pad_id: int) -> None:
    """Draw token vectors (vocabulary, d_model) from N(0, 1/d_model), as the paper's own code does; <pad> gets zeros.

    After × √d_model (3.4) they are about as large as the sines and cosines of the positions (3.5). Xavier-uniform
    values shrink as the vocabulary grows: with 37,000 tokens and d_model 512 their root mean square would be 0.17, and
    that of the positions is 0.71.
    """
    nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    nn.init.zeros_(weight.detach()[pad_id])


class UninitializedWeights(TorchFunctionMode):
    """Within the block, a new model's weights are not initialised, which saves time if they are loaded afterwards.

    Buffers have their values, and tied weights are one tensor. No random state changes; other threads are unaffected.

        with UninitializedWeights():
            model = Transformer(config, …)
        load_model(model, path)
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the tensor unchanged where torch.nn.init would fill it; call any other function."""
        keywords = keywords or {}
        if getattr(function, "__module__", None) == nn.init.__name__ or function in (Tensor.uniform_, Tensor.normal_):
            return keywords["tensor"] if "tensor" in keywords else arguments[0]
        return function(*arguments, **keywords)
