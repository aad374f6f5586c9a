"""The batch plan of an epoch, and padded tensors by hand."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data import batching
from transformer_cli.data.batching import collate, pad_ids, plan_epoch, split_into_micro_batches
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.text.vocabulary import EOS, PAD, SOS


def split_of_lengths(lengths: Sequence[tuple[int, int]]) -> EncodedSplit:
    return EncodedSplit(*(Side.of([[9] * length for length in column]) for column in zip(*lengths, strict=True)))


GENERATOR = np.random.default_rng(0)
SPLIT = split_of_lengths([tuple(pair) for pair in GENERATOR.integers(1, 12, (211, 2)).tolist()])
ROWS: Rows = np.setdiff1d(np.arange(211), [0, 7, 210])
WAYS = [
    TrainingConfig.model_validate({"batch_size": size, "batch_by": by, "batch_order": order})
    for by, size in (("sentences", 8), ("sentences", 500), ("tokens", 40), ("tokens", 3))
    for order in ("random", "bucketed")
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.batch_order}-{way.batch_size}-{way.batch_by}")


def plan(way: TrainingConfig, epoch: int = 1) -> list[list[int]]:
    return [batch.tolist() for batch in plan_epoch(SPLIT, ROWS, way, epoch)]


def spread(batches: list[list[int]]) -> float:
    """The mean over batches of how far target lengths differ within one."""
    return float(np.mean([np.ptp(SPLIT.target.lengths[batch]) for batch in batches]))


@each_way
def test_plan_epoch_has_every_row_in_one_batch(way: TrainingConfig) -> None:
    batches = plan(way)
    assert all(batches)
    assert sorted(row for batch in batches for row in batch) == ROWS.tolist()


@each_way
def test_plan_epoch_depends_on_seed_and_epoch_alone(way: TrainingConfig) -> None:
    np.random.seed(1)
    first = plan(way)
    np.random.seed(2)
    assert plan(way) == first
    assert plan(way, epoch=2) != first
    assert plan(way.model_copy(update={"seed": 1})) != first
    assert plan(way, epoch=2) != plan(way.model_copy(update={"seed": 1}), epoch=1)


@pytest.mark.parametrize("order", ["random", "bucketed"])
def test_plan_epoch_by_sentences_fills_all_batches_but_one(order: str) -> None:
    way = TrainingConfig(batch_size=10).model_copy(update={"batch_order": order})
    assert sorted(map(len, plan(way))) == [8] + [10] * 20  # 208 rows


@pytest.mark.parametrize("order", ["random", "bucketed"])
def test_plan_epoch_by_tokens_fills_batches_within_budget(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BUCKET_POOL", 10**6)  # else each pool's last batch is small
    way = TrainingConfig(batch_size=40, batch_by="tokens").model_copy(update={"batch_order": order})
    tokens = sorted(int((SPLIT.target.lengths[batch] + 1).sum()) for batch in plan(way))
    assert tokens[-1] <= 40
    assert tokens[1] > 40 - 12  # 12: the longest target with <eos>; tokens[0] is the remainder


def test_plan_epoch_exact_token_budget_is_one_batch() -> None:
    split = split_of_lengths([(7, 1), (7, 2), (7, 4)])  # with <eos> 2 + 3 + 5 = 10 target tokens
    for size, batches in ((10, 1), (9, 2)):
        way = TrainingConfig(batch_size=size, batch_by="tokens")
        assert len(plan_epoch(split, np.arange(3), way, 1)) == batches


def test_plan_epoch_bucketed_has_similar_lengths_in_random_order() -> None:
    way = TrainingConfig(batch_size=8)
    random, bucketed = (way.model_copy(update={"batch_order": order}) for order in ("random", "bucketed"))
    assert spread(plan(bucketed)) < spread(plan(random)) / 4
    longest = [int(SPLIT.target.lengths[batch].max()) for batch in plan(bucketed)]
    assert longest != sorted(longest)


def test_micro_batches_are_sorted_and_split_by_tokens() -> None:
    parts = split_into_micro_batches(SPLIT, ROWS[:50], 64)
    tokens = [int((SPLIT.target.lengths[part] + 1).sum()) for part in parts]
    assert len(parts) > 3
    assert max(tokens) <= 64
    for here, after in pairwise(parts):  # not one more would have fitted
        assert (SPLIT.target.lengths[[*here, after[0]]] + 1).sum() > 64
    assert sorted(np.concatenate(parts).tolist()) == ROWS[:50].tolist()
    lengths = [(int(SPLIT.target.lengths[row]), int(SPLIT.source.lengths[row])) for part in parts for row in part]
    assert lengths == sorted(lengths)


def test_micro_batches_bound_squares_of_long_sentences() -> None:
    split = split_of_lengths([(1500, 900), (1000, 1023), (1023, 1023), (1023, 1023), (20, 30), (20, 30)])
    parts = split_into_micro_batches(split, np.arange(6), 4096)
    assert [sorted(part.tolist()) for part in parts] == [[4, 5], [0], [1, 2], [3]]


def test_rows_within_counts_sos_and_eos_of_the_longer_side() -> None:
    split = split_of_lengths([(8, 1), (1, 8), (9, 1), (1, 9), (8, 8)])
    assert split.rows_within(10).tolist() == [0, 1, 4]
    assert split.rows_within(9).tolist() == []
    assert split.rows_within(None).tolist() == [0, 1, 2, 3, 4]


def test_collate_pads_each_side_separately() -> None:
    split = EncodedSplit(Side.of([[7], [5, 6], [8, 9, 4]]), Side.of([[4, 4, 4], [], [5]]))
    batch = collate(split, np.array([1, 0]))
    assert batch.source.tolist() == [[SOS, 5, 6, EOS], [SOS, 7, EOS, PAD]]
    assert batch.target.tolist() == [[SOS, EOS, PAD, PAD, PAD], [SOS, 4, 4, 4, EOS]]
    assert batch.source.dtype == batch.target.dtype == torch.int64


def test_pad_ids_adds_sos_and_eos_as_collate_does() -> None:
    sentences = [[5], [], [7, 8]]
    padded = pad_ids(sentences)
    assert padded.tolist() == [[SOS, 5, EOS, PAD], [SOS, EOS, PAD, PAD], [SOS, 7, 8, EOS]]
    assert padded.dtype == torch.int64
    assert torch.equal(padded, collate(EncodedSplit(Side.of(sentences), Side.of(sentences)), np.arange(3)).source)
