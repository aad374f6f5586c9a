"""One kind of work without end, in a process of its own. measure/busy.py sets the time, and reads the speed.

    python -m measure.steady train DATA PRECISION [CONFIG]     steps of `tfm train`
    python -m measure.steady greedy DATA RUN [SENTENCES]       translations of so many sentences at a time

It prints an empty line when it has warmed up. Then it reads lines from standard input, each a number of seconds, works
for about as long, and prints how many target tokens/s that were.
"""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.decoding import open_run
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.datasets.batching import plan_epoch, target_tokens
from transformer_cli.datasets.dataset import Dataset, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import Trainer

SENTENCES = 300
WARM_UP = 3  # steps, or rounds of translations


def main(arguments: Sequence[str]) -> None:
    """Warm up, then work whenever asked to, until standard input ends."""
    kind, data_dir, *rest = arguments
    work = (train if kind == "train" else greedy)(Path(data_dir), *rest)
    warm_up(work)
    print(flush=True)
    for line in sys.stdin:
        print(speed(work, float(line)), flush=True)


def warm_up(work: Iterator[int]) -> None:
    """Do some of the work, which is slower at first."""
    for _ in range(WARM_UP):
        next(work)


def speed(work: Iterator[int], seconds: float) -> float:
    """Returns target tokens/s over this many seconds of the work, or a little more: what was begun is finished."""
    tokens, started = 0, time.perf_counter()
    while True:
        tokens += next(work)
        taken = time.perf_counter() - started
        if taken >= seconds:
            return tokens / taken


def train(data_dir: Path, precision: str, config_file: str | None = None) -> Iterator[int]:
    """Take the steps of a config file (None: the default)."""
    return steps(load_config(config_file, ["training.device=cpu"]), data_dir, precision)


def steps(config: Config, data_dir: Path, precision: str) -> Iterator[int]:
    """Take step after step, each on a fresh batch; yields its target tokens, <eos> included."""
    training = config.training.model_copy(update={"precision": precision})
    config = config.model_copy(update={"training": training})
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    with TemporaryDirectory() as folder:
        trainer = Trainer.begin(Run.create(Path(folder) / "run", config, dataset), dataset, torch.device("cpu"))
    split, usable = trainer.train_sentences.split, trainer.train_sentences.rows
    for epoch in itertools.count(1):
        for rows in plan_epoch(split, usable, config.training, epoch):
            trainer.step([rows])
            yield int(target_tokens(split, rows).sum())


def greedy(data_dir: Path, run: str, count: str = str(SENTENCES)) -> Iterator[int]:
    """Translate the same first `count` sentences again and again; yields their target tokens, <eos> included."""
    translator, sentences = open_run(run, data_dir)
    while True:
        yield sum(len(each.tokens) + 1 for each in translator.translations(sentences[: int(count)]))


if __name__ == "__main__":
    main(sys.argv[1:])
