"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): figure 1 first, then its parts.

Knows ids and vectors, nothing of words, files or training. Built from layers.py (3.1, 3.3), attention.py (3.2) and
positions.py (3.5). `encode` and `decode` are the only places where embedding, stack and norm follow one another; how
the tokens of a batch lie in the tensors is in their layouts (layout.py): padded rows, packed without padding as in
training and scores, or the newest token of each hypothesis, as in a search (cache.py).
"""

import math
from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import Attend, AttentionRecord, KeysValues
from transformer_cli.model.cache import Cache
from transformer_cli.model.dropout import Dropout
from transformer_cli.model.initialization import draw_embedding, initialize
from transformer_cli.model.layers import DecoderLayer, EncoderLayer
from transformer_cli.model.layout import Layout, Padded
from transformer_cli.model.positions import LearnedPositions, SinusoidalPositions, frequencies, marian_frequencies


class Transformer(nn.Module):
    """Source ids and target ids in, a score for every word of the target vocabulary out (figure 1)."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        pad_id: int,
    ) -> None:
        """source_vocabulary, target_vocabulary: sizes. pad_id: the id of <pad> in both; <sos> has the next one."""
        super().__init__()
        self.config = config
        self.pad_id = pad_id
        self.source_embedding = Embedding(config, source_vocabulary)
        self.target_embedding = Embedding(config, target_vocabulary)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        unwritable_ids = () if config.start_token else (pad_id, pad_id + 1)
        self.output = Output(config.d_model, target_vocabulary, unwritable_ids)
        if config.tie_embeddings == "all":
            assert source_vocabulary == target_vocabulary, "one matrix needs one vocabulary"
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight
        if config.tie_embeddings != "none":
            self.output.weight = self.target_embedding.tokens.weight  # section 3.4
        self.apply(initialize)
        if config.embedding_init == "normal":
            draw_embedding(self.target_embedding.tokens.weight, pad_id)
            if config.tie_embeddings != "all":
                draw_embedding(self.source_embedding.tokens.weight, pad_id)

    def forward(self, source: Tensor, target: Tensor, record: AttentionRecord | None = None) -> Tensor:
        """Returns logits for the token after each target position, all at once (teacher forcing).

        source int64 (batch, source); target int64 (batch, target), beginning with <sos>; both padded at the end.
        Returns (batch, target, vocabulary); softmax turns them into probabilities.
        """
        read, written = Padded(source, self.source_mask(source)), Padded(target, target != self.pad_id)
        encoded = self.encode(read, record)
        decoded = self.decode(written, self.decoder.keys_values(encoded), read, record)
        return self.output(decoded)

    def encode(self, source: Layout, record: AttentionRecord | None = None) -> Tensor:
        """Returns the encoder's output, (…, source, d_model). source: its ids are (…, source)."""
        x = self.source_embedding(source.ids, source.positions)
        return self.encoder(x, source.to_itself(record.encoder_self if record else None))

    def decode(
        self,
        target: Layout,
        memories: Sequence[KeysValues],
        source: Layout,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """Returns the decoder's output, (…, target, d_model), before `output` turns it into logits.

        memories: what `decoder.keys_values` made of the encoder's output. source: as `encode` was given it.
        """
        x = self.target_embedding(target.ids, target.positions)
        to_target = target.to_itself(record.decoder_self if record else None, look_ahead=True)
        to_source = target.to_source(source, record.cross if record else None)
        return self.decoder(x, memories, to_target, to_source)

    def start(self, source: Tensor) -> Cache:
        """Encode once, and return the cache for decoding. source int64 (sentences, source), padded at the end."""
        read = Padded(source, self.source_mask(source))
        return Cache(self.decoder.keys_values(self.encode(read)), read)

    def next_logits(self, tokens: Tensor, cache: Cache, record: AttentionRecord | None = None) -> Tensor:
        """Returns logits for each hypothesis's next token, (hypotheses, vocabulary).

        tokens int64 (hypotheses,): the newest token of each; the cache remembers those before. The result equals the
        last position of `forward` over all tokens so far, if none of them is <pad>: searches never write it.
        record: gets the last layer's attention to the source, (sentences, heads, beam, source), as its only entry;
        `cache.by_hypothesis` turns that into (hypotheses, heads, 1, source).
        """
        cache.advance(tokens)  # then it is the layout of the newest tokens
        return self.output(self.decode(cache, cache.memories, cache.source, record)[:, 0])

    def source_mask(self, source: Tensor) -> Tensor:
        """Returns which ids (batch, source) are tokens: not <pad>, and not <sos> if the model does not know it."""
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
        """ids int64 (…, length), positions int64, one for each id. Returns (…, length, d_model)."""
        return self.dropout(self.tokens(ids) * self.scale + self.positions(positions))


class Output(nn.Linear):
    """The projection to logits (3.4). Words that are never written have the logit -inf, so no share of the loss."""

    def __init__(self, d_model: int, vocabulary: int, unwritable_ids: Sequence[int] = ()) -> None:
        """unwritable_ids: the ids of these words."""
        super().__init__(d_model, vocabulary)
        self.unwritable_ids = list(unwritable_ids)

    def forward(self, x: Tensor) -> Tensor:
        """x (…, d_model). Returns logits (…, vocabulary)."""
        logits = nn.functional.linear(x, self.weight, self.bias)
        if self.unwritable_ids:
            logits[..., self.unwritable_ids] = float("-inf")
        return logits


class Encoder(nn.Module):
    """A stack of identical layers (3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.layers = cast(Sequence[EncoderLayer], layers)  # a ModuleList's type does not say what it holds
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
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
        self, x: Tensor, memories: Sequence[KeysValues], attend_to_target: Attend, attend_to_source: Attend
    ) -> Tensor:
        """x (…, target, d_model). Returns a tensor shaped like x.

        memories: what `keys_values` returned of the encoder's output.
        """
        for layer, memory in zip(self.layers, memories, strict=True):
            x = layer(x, memory, attend_to_target, attend_to_source)
        return self.norm(x)

    def keys_values(self, encoded: Tensor) -> list[KeysValues]:
        """Returns each layer's keys and values of the encoder's output (…, source, d_model).

        Each is (…, heads, source, depth).
        """
        return [layer.cross_attention.keys_values(encoded) for layer in self.layers]


def count_parameters(model: nn.Module) -> int:
    """Returns how many trainable numbers there are. A tied matrix counts once; frozen rows of it are included."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _positions(config: ModelConfig) -> nn.Module:
    if config.positions != "learned":
        frequencies_of = {"sinusoidal": frequencies, "marian": marian_frequencies}[config.positions]
        return SinusoidalPositions(frequencies_of(config.d_model))
    assert config.max_length is not None  # the config ensures it
    return LearnedPositions(config.max_length, config.d_model)


def _final_norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.final_norm else nn.Identity()
