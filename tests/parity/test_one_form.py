"""What one reads of the model is what trains, validates, scores and decodes: an edit of it is felt everywhere."""

import inspect
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oracles.small import make_model
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.model.attention import MultiHeadAttention, QKVProjection, attention
from transformer_cli.model.dropout import keep_mask
from transformer_cli.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer_cli.model.loss import cross_entropy, token_losses
from transformer_cli.model.transformer import Decoder, Embedding, Encoder, Output, Transformer
from transformer_cli.scoring.losses import corpus_losses, sentence_losses
from transformer_cli.search.decoder import TransformerDecoder
from transformer_cli.search.greedy import greedy_search
from transformer_cli.search.rules import SearchRules
from transformer_cli.text.vocabulary import EOS, PAD, SOS
from transformer_cli.training.learner import Learner

SPLIT = EncodedSplit(Side.of([[4, 5, 6], [5], [6, 6, 4, 4]]), Side.of([[4, 4], [5, 6, 4], [6]]))
ROWS = np.arange(3)
SOURCE = torch.tensor([[SOS, 4, 5, 6, EOS], [SOS, 9, EOS, PAD, PAD]])


def trained() -> Tensor:
    """The gradient of a step."""
    model = make_model().requires_grad_(True)
    Learner(model, TrainingConfig(precision="float32", shards=1), torch.device("cpu")).backward(SPLIT, [ROWS], step=1)
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def validated() -> float:
    return corpus_losses(make_model(), SPLIT, ROWS).loss


def scored() -> list[float]:
    return sentence_losses(make_model(), SPLIT, ROWS).nll.tolist()


def decoded() -> list[float]:
    """How probable what greedy search finds is."""
    with torch.inference_mode():
        decoder = TransformerDecoder([make_model()], SOURCE)
        found = greedy_search(
            decoder,
            SearchRules(max_tokens=torch.tensor([6, 6]), suppressed_ids=torch.tensor([PAD, SOS])),
        )
    return [each.score for each in found]


USES = {"training": trained, "validation": validated, "scores": scored, "greedy decoding": decoded}
EDITS: list[tuple[Any, str, str]] = [
    (Transformer.encode, "return self.encoder(", "return 0.5 * self.encoder("),
    (Transformer.decode, "return self.decoder(", "return 0.5 * self.decoder("),
    (Embedding.forward, "+ self.positions(", "+ 0.5 * self.positions("),
    (Encoder.forward, "self.layers", "self.layers[1:]"),
    (Encoder.forward, "self.norm(x)", "0.5 * self.norm(x)"),
    (Decoder.forward, "layer(x,", "layer(0.5 * x,"),
    (Decoder.forward, "self.norm(x)", "0.5 * self.norm(x)"),
    (Decoder.keys_values, "keys_values(encoded)", "keys_values(0.5 * encoded)"),
    (EncoderLayer.forward, "first.pre_norm(x)", "0.5 * first.pre_norm(x)"),
    (DecoderLayer.forward, "first.pre_norm(x)", "0.5 * first.pre_norm(x)"),
    (DecoderLayer.forward, "second.pre_norm(x)", "0.5 * second.pre_norm(x)"),
    (DecoderLayer.forward, "third.pre_norm(x)", "0.5 * third.pre_norm(x)"),
    (Residual.forward, "+ self.dropout", "+ 0.5 * self.dropout"),
    (FeedForward.forward, "self.activation(self.inner(x))", "self.inner(x)"),
    (MultiHeadAttention.forward, "self.output(", "0.5 * self.output("),
    (QKVProjection.forward, "linear(x,", "linear(0.5 * x,"),
    (Output.forward, "linear(x,", "linear(0.5 * x,"),
    (attention, "scores = ", "scores = 2.0 * "),
    (keep_mask, "(LEVELS - dropped)", "LEVELS"),
    (cross_entropy, "objective = nll.sum()", "return 0.0 * nll.sum(), 0.0 * nll"),
    (cross_entropy, "objective = nll.sum()", "objective = nll.square().sum()"),
    (token_losses, "target[:, :-1]", "target[:, 1:]"),
    (token_losses, "TokenLosses(objective, nll)", "TokenLosses(0.0 * objective, 0.0 * nll)"),
]


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return {name: use() for name, use in USES.items()}


@pytest.mark.parametrize(("function", "old", "new"), EDITS, ids=lambda each: getattr(each, "__qualname__", None))
def test_edit_of_model_code_changes_every_use(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], function: FunctionType, old: str, new: str
) -> None:
    source = dedent(inspect.getsource(function))
    assert old in source, "the code has changed: let EDITS change what stands there now"
    found: dict[str, Any] = {}
    exec(source.replace(old, new), function.__globals__, found)
    monkeypatch.setattr(function, "__code__", found[function.__name__].__code__)
    felt = {name for name, use in USES.items() if not same(use(), before[name])}
    uses = {*USES}
    if function in (token_losses, cross_entropy):
        uses -= {"greedy decoding"}
    if function is keep_mask or "objective = " in new:
        uses = {"training"}
    assert felt == uses


def same(one: Any, other: Any) -> bool:
    return one.equal(other) if isinstance(one, Tensor) else one == other
