"""Attention as tutorials write it: one projection that all heads share, and a single head in plain Python."""

import math

import pytest
import torch
from torch import Tensor, nn

from oracles.small import assert_close
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import MultiHeadAttention, RecordedAttention, attention, masked_attention
from transformer_cli.model.layers import EncoderLayer

Rows = list[list[float]]


pytestmark = pytest.mark.usefixtures("seeded")


def shared_by_all_heads(
    x: Tensor, source: Tensor, matrices: list[Tensor], output: nn.Linear, may_attend: Tensor
) -> Tensor:
    """x and source are cut into 8 heads of 64 first, then each head is multiplied by the same three matrices."""
    parts = zip((x, source, source), matrices, strict=True)
    query, key, value = (part.reshape(*part.shape[:2], 8, 64) @ matrix.T for part, matrix in parts)
    scores = torch.einsum("nqhd,nkhd->nhqk", query, key) / math.sqrt(64)
    weights = scores.masked_fill(~may_attend, float("-inf")).softmax(dim=-1)
    return output(torch.einsum("nhqk,nkhd->nqhd", weights, value).reshape(*x.shape))


def test_attention_shared_projection_equals_block_diagonal() -> None:
    ours = MultiHeadAttention(512, 8, 64, qkv_bias=False, dropout=0.0)
    matrices = [torch.randn(64, 64) / 8 for _ in range(3)]
    blocks = [torch.kron(torch.eye(8), matrix) for matrix in matrices]  # the matrix eight times along the diagonal
    with torch.no_grad():
        ours.qkv.weight.copy_(torch.cat(blocks))
    x, memory = torch.randn(2, 4, 512), torch.randn(2, 5, 512)
    everything = torch.ones(4, 4, dtype=torch.bool)
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])[:, None, None, :]

    theirs = shared_by_all_heads(x, x, matrices, ours.output, everything)
    assert_close(ours(x, None, masked_attention(everything)), theirs)
    theirs = shared_by_all_heads(x, memory, matrices, ours.output, real)
    assert_close(ours(x, ours.keys_values(memory), masked_attention(real)), theirs)


@pytest.mark.parametrize("depth", [4, 64, 1024])
def test_attention_scores_have_equal_spread_at_any_depth(depth: int) -> None:
    """Sums of `depth` products of numbers around 1 spread by √depth; that is why they are divided by it."""
    query, key = torch.randn(1, 1, 200, depth), torch.randn(1, 1, 200, depth)
    assert (query @ key.transpose(-2, -1)).std().item() == pytest.approx(math.sqrt(depth), rel=0.1)
    _, recorded = attention(query, key, key, nn.Dropout(0.0))
    assert recorded.scores.std().item() == pytest.approx(1.0, rel=0.1)


def times(matrix: Rows, vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def plus(one: list[float], other: list[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def test_attention_of_one_head_of_width_5_equals_a_loop() -> None:
    """Four words of width 20; queries, keys and values of width 5: each step in Python's floats."""
    config = ModelConfig(d_model=20, num_heads=1, head_dim=5, d_ff=8, dropout=0.0)
    ours = EncoderLayer(config).self_attention
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    assert ours.qkv.weight.shape == (3 * 5, 20)
    sentence = torch.randn(1, 4, 20)

    weight, bias, words = ours.qkv.weight.tolist(), ours.qkv.bias.tolist(), sentence[0].tolist()
    queries, keys, values = (
        [plus(times(weight[first : first + 5], word), bias[first : first + 5]) for word in words]
        for first in (0, 5, 10)
    )
    products = [times(keys, query) for query in queries]  # QKᵀ, for each pair of words
    powers = [[math.exp(product / math.sqrt(5)) for product in row] for row in products]
    weights = [[power / sum(row) for power in row] for row in powers]
    mixed = [[sum(w * v[i] for w, v in zip(row, values, strict=True)) for i in range(5)] for row in weights]
    w_o, b_o = ours.output.weight.tolist(), ours.output.bias.tolist()
    output = [plus(times(w_o, row), b_o) for row in mixed]

    record: list[RecordedAttention] = []
    found = ours(sentence, None, masked_attention(torch.ones(4, 4, dtype=torch.bool), record))
    assert_close(record[0].scores[0, 0] * math.sqrt(5), torch.tensor(products))
    assert_close(record[0].weights[0, 0], torch.tensor(weights))
    assert_close(found[0], torch.tensor(output))
