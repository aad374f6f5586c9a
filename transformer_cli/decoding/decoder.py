"""The Transformer as a decoder for a search: ids in, hypotheses out. Knows no words and no files."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from transformer_cli.data.batching import pad_ids
from transformer_cli.data.specials import EOS, MARKERS, PAD, SOS
from transformer_cli.decoding.greedy import greedy
from transformer_cli.decoding.interface import Hypothesis, Step
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.model.attention import RecordedAttention
from transformer_cli.model.transformer import Transformer


@torch.inference_mode()
def decode(
    models: Sequence[Transformer],
    sentences: Sequence[Sequence[int]],
    settings: SearchSettings,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    keep_attention: bool = False,
) -> list[list[Hypothesis]]:
    """Returns the n-best translations of each sentence of a batch, the best first; all are decoded together.

    sentences: ids without <sos> and <eos>, at least one per sentence, and no more than the model has positions for.
    prefixes: for each sentence, ids with which its translation has to begin. keys: for each sentence its own number,
    from which its samples are drawn. keep_attention: whether each hypothesis carries its attention weights, (heads,
    steps, source with <sos> and <eos>).
    """
    (model,) = models
    assert (prefixes, keys, settings.n_best) == (None, None, 1), "so far, only greedy search is here"
    device = next(model.parameters()).device
    source = pad_ids(sentences).to(device)
    limits = torch.tensor([settings.limit(len(ids), model.config.max_length) for ids in sentences], device=device)
    found = greedy(
        TransformerDecoder(model, source),
        limits,
        sos=SOS,
        eos=EOS,
        never=torch.tensor([PAD, SOS], device=device),
        length_penalty=settings.decoding.length_penalty,
        keep_attention=keep_attention,
    )
    return [[_without_padding(each, len(ids))] for each, ids in zip(found, sentences, strict=True)]


class TransformerDecoder:
    """An `interface.Decoder` that decodes a batch of sentences by the Transformer, one row per sentence."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        """Encodes source: int64 (rows, source), from <sos> to <eos>, padded at the end."""
        self._model = model
        self._cache = model.start(source)
        self._is_word = (source != PAD) & (source != SOS) & (source != EOS)  # (rows, source)

    def step(self, tokens: Tensor) -> Step:
        """See `interface.Decoder`."""
        record: list[RecordedAttention] = []
        logits = self._model.step(tokens, self._cache, record)
        attention = record[0].weights[:, :, -1]  # the last layer's: (rows, heads, source)
        of_words = attention.mean(dim=1).masked_fill(~self._is_word, -1.0)
        return Step(logits, attention, of_words.argmax(dim=1))

    def keep(self, rows: Tensor) -> None:
        """See `interface.Decoder`."""
        self._cache.keep(rows)
        self._is_word = self._is_word[rows]


def _without_padding(found: Hypothesis, length: int) -> Hypothesis:
    if found.attention is None:
        return found
    return replace(found, attention=found.attention[:, :, : length + MARKERS].cpu())
