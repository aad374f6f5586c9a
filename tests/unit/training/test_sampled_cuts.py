"""Training on text that is cut anew each epoch: what changes, and what does not."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from kinds import TrainTiny
from transformer_cli.config.load import load_config
from transformer_cli.datasets.dataset import Dataset, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.system import progress
from transformer_cli.text.lengths import Rows
from transformer_cli.training.trainer import Trainer

SAMPLED = "data.subwords.dropout=0.1"
FEW_STEPS = ("training.batch_size=600", "training.batch_by=tokens", "training.epochs=2")


@pytest.fixture
def begin_subwords(corpus: Path, subword_data: Path) -> Callable[..., Trainer]:
    """begin_subwords(folder, *overrides): a trainer of the same run that has taken no step."""

    def begin_with(folder: Path, *overrides: str) -> Trainer:
        config = load_config(corpus / "subwords.yaml", [*FEW_STEPS, *overrides])
        dataset = Dataset.open(find_dataset(config.data, subword_data))
        return Trainer.begin(Run.create(folder, config, dataset), dataset, torch.device("cpu"))

    return begin_with


def lists(plan: Sequence[Rows]) -> list[list[int]]:
    return [rows.tolist() for rows in plan]


def test_sampled_text_is_planned_by_the_usual_cut(begin_subwords: Callable[..., Trainer], tmp_path: Path) -> None:
    usual, sampled = begin_subwords(tmp_path / "usual"), begin_subwords(tmp_path / "sampled", SAMPLED)
    assert lists(usual.plan()) == lists(sampled.plan())
    for trainer in (usual, sampled):
        trainer.step(trainer.plan()[:1])
    planned = usual.train_sentences.target_tokens(usual.plan()[:1])
    assert usual.state.running.target_tokens == planned
    assert sampled.state.running.target_tokens > planned
    assert sampled.valid_sentences.sampled is None


def test_bar_of_sampled_text_ends_at_its_total(train_tiny: TrainTiny, tmp_path: Path, bars: list[progress.Bar]) -> None:
    run = train_tiny(tmp_path, *FEW_STEPS, SAMPLED, by="subwords")
    assert [each.desc for each in bars] == ["epoch 1/2", "epoch 2/2"]
    assert [each.n for each in bars] == [each.total for each in bars]
    assert all(entry["target_tokens"] > each.total for entry, each in zip(run.history(), bars, strict=True))
