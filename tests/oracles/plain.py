"""The tutorials' Transformer and its loops, written out: the oracle of the fast forms, and the benchmark's reference.

Everything here is the obvious way: post-norm, learned positions, softmax by its name, scores for every position that is
padded, batches padded to their longest sentence, decoding that computes all tokens anew at each step. Shapes and names
as in transformer_cli.model.
"""

import math
import re

import torch
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import Transformer

RENAMED = (  # our names → those below
    (r"(source|target)_embedding\.tokens\.", r"\1_tokens."),
    (r"(source|target)_embedding\.positions\.", r"\1_positions."),
    (r"(encoder|decoder)\.layers\.", r"\1."),
    (r"residuals\.(\d)\.norm\.", r"norms.\1."),
)


class PlainAttention(nn.Module):
    """Multi-head attention with a matrix of its own for queries, keys and values."""

    def __init__(self, d_model: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, attended: Tensor, mask: Tensor) -> Tensor:
        """x (batch, target, d_model) looks at attended (batch, source, d_model). Returns x's shape."""
        query, key, value = (self._heads(part) for part in (self.query(x), self.key(attended), self.value(attended)))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        weights = self.dropout(torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1))
        return self.output((weights @ value).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (batch, heads, length, depth)


class PlainLayer(nn.Module):
    """An encoder layer, or with `memory` a decoder layer: after each part dropout, sum, LayerNorm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float, *, is_decoder: bool) -> None:
        super().__init__()
        self.self_attention = PlainAttention(d_model, num_heads, dropout)
        self.cross_attention = PlainAttention(d_model, num_heads, dropout) if is_decoder else None
        self.feed_forward = nn.ModuleDict({"inner": nn.Linear(d_model, d_ff), "outer": nn.Linear(d_ff, d_model)})
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3 if is_decoder else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """x (batch, length, d_model). Returns the same shape."""
        x = self.norms[0](x + self.dropout(self.self_attention(x, x, mask)))
        if self.cross_attention is not None:
            x = self.norms[1](x + self.dropout(self.cross_attention(x, memory, memory_mask)))
        wide = self.dropout(torch.relu(self.feed_forward["inner"](x)))
        return self.norms[-1](x + self.dropout(self.feed_forward["outer"](wide)))


def is_plain(config: ModelConfig) -> bool:
    """Whether a model differs from that of configs/multi30k.yaml in its sizes alone."""
    sizes = ("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "max_length", "dropout")
    return config == ModelConfig(**{size: getattr(config, size) for size in sizes})


class PlainTransformer(nn.Module):
    """The model of configs/multi30k.yaml."""

    def __init__(self, ours: Transformer) -> None:
        """With a copy of the weights of ours, which `is_plain`."""
        super().__init__()
        config = ours.config
        assert is_plain(config)
        d_model, dropout = config.d_model, config.dropout
        layer = (d_model, config.num_heads, config.d_ff, dropout)
        self.pad_id = ours.pad_id
        self.scale = math.sqrt(d_model)
        self.source_tokens = nn.Embedding(ours.source_embedding.tokens.num_embeddings, d_model)
        self.target_tokens = nn.Embedding(ours.target_embedding.tokens.num_embeddings, d_model)
        self.source_positions = nn.Embedding(config.max_length or 0, d_model)
        self.target_positions = nn.Embedding(config.max_length or 0, d_model)
        self.encoder = nn.ModuleList(PlainLayer(*layer, is_decoder=False) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(PlainLayer(*layer, is_decoder=True) for _ in range(config.num_decoder_layers))
        self.output = nn.Linear(d_model, ours.output.out_features)
        self.dropout = nn.Dropout(dropout)
        self.load_state_dict(plain_state(ours.state_dict()))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits after each target position, padded ones too: (batch, target, vocabulary)."""
        return self.decode(target, self.encode(source), source)

    def encode(self, source: Tensor) -> Tensor:
        """source int64 (batch, source) → (batch, source, d_model)."""
        x = self._embed(source, self.source_tokens, self.source_positions)
        for layer in self.encoder:
            x = layer(x, self._padding_mask(source))
        return x

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """target int64 (batch, target) → logits (batch, target, vocabulary)."""
        length = target.shape[1]
        mask = self._padding_mask(target) & torch.tril(torch.ones(length, length, device=target.device)).bool()
        x = self._embed(target, self.target_tokens, self.target_positions)
        for layer in self.decoder:
            x = layer(x, mask, memory, self._padding_mask(source))
        return self.output(x)

    def _embed(self, ids: Tensor, tokens: nn.Embedding, positions: nn.Embedding) -> Tensor:
        order = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        return self.dropout(tokens(ids) * self.scale + positions(order))

    def _padding_mask(self, ids: Tensor) -> Tensor:
        return (ids != self.pad_id)[:, None, None, :]


def plain_state(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names (weights or gradients) → under the plain model's; q, k and v come apart."""
    state = {}
    for name, tensor in ours.items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if ".qkv." in name:
            for part, rows in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                state[name.replace(".qkv.", f".{part}.")] = rows
        else:
            state[name] = tensor
    return state


def plain_loss(model: PlainTransformer, source: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy of a padded batch's target tokens, <sos> first."""
    logits = model(source, target[:, :-1])
    labels = target[:, 1:]
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=model.pad_id)


def plain_step(model: PlainTransformer, optimizer: torch.optim.Optimizer, source: Tensor, target: Tensor) -> float:
    """One step of training, the gradient clipped at norm 1; returns the loss."""
    model.train()
    optimizer.zero_grad()
    loss = plain_loss(model, source, target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def plain_greedy(model: PlainTransformer, source: list[int], *, sos: int, eos: int, max_tokens: int) -> list[int]:
    """Translate one sentence, ids from <sos> to <eos>: the encoder once, the decoder over all tokens at each step."""
    model.eval()
    target = [sos]
    with torch.no_grad():
        source_batch = torch.tensor([source])
        memory = model.encode(source_batch)
        for _ in range(max_tokens):
            logits = model.decode(torch.tensor([target]), memory, source_batch)
            target.append(int(logits[0, -1].argmax()))
            if target[-1] == eos:
                return target[1:-1]
    return target[1:]
