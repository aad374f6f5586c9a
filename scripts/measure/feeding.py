"""How fast batches are prepared: put together from ids, and cut anew from text before that."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from measure.figures import Figure, say
from transformer_cli.config.load import load_config
from transformer_cli.datasets.batching import collate, plan_epoch, target_tokens
from transformer_cli.datasets.dataset import Dataset, EncodedSplit
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.datasets.sampled_text import CutAhead, SampledText
from transformer_cli.text.codec import SIDES, Codecs, SubwordCodec
from transformer_cli.text.lengths import Rows

SETTINGS = ("training.batch_by=tokens", "training.batch_size=25000", "data.subwords.dropout=0.1")


def feeding_speed(yaml: Path, data_dir: Path, *, batches: int = 8) -> list[Figure]:
    """Measure with a config's subwords, in batches of 25,000 target tokens; the reference cuts them in this process.

    Nothing is computed between batches, so this is the most that the worker can feed; a step that takes longer than a
    cut does not wait for it.
    """
    config = load_config(yaml, SETTINGS)
    dataset = Dataset.open(make_dataset(config, data_dir=data_dir).folder)
    split, both = dataset.split("train"), Codecs.load(dataset.folder, config.data)
    codecs = [codec for codec in (both.source, both.target) if isinstance(codec, SubwordCodec)]
    lines = (dataset.lines("train", SIDES[0]), dataset.lines("train", SIDES[1]))
    text = SampledText(split, lines, codecs, seed=0, max_length=config.model.max_length)
    plan = plan_epoch(split, np.arange(len(split)), config.training, epoch=1)[: batches + 1]
    say(f"feeding: {len(plan) - 1} batches as they are, cut in this process, cut by the worker")

    def speed(cut: Callable[[int], tuple[EncodedSplit, Sequence[Rows]]]) -> float:
        cut(0)  # pieces and words are looked up at first
        started, tokens = time.perf_counter(), 0
        for number in range(1, len(plan)):
            found, (rows,) = cut(number)
            collate(found, rows)
            tokens += int(target_tokens(found, rows).sum())
        return tokens / (time.perf_counter() - started)

    as_they_are = speed(lambda number: (split, plan[number : number + 1]))
    here = speed(lambda number: text.cut(plan[number : number + 1], epoch=1, first=number))
    with CutAhead(text) as ahead:
        there = speed(
            lambda number: ahead.cut(
                plan[number : number + 1], epoch=1, first=number, following=plan[number + 1 : number + 2]
            )
        )
    return [
        Figure("feeding", "ids as they are", "target tokens/s", as_they_are),
        Figure("feeding", "BPE-dropout", "target tokens/s", there, here),
    ]
