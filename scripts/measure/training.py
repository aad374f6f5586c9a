"""Training: the Trainer's own step against the plain loop, on the same random batches, on the CPU."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.figures import Figure, alternate, say
from oracles.plain import PlainTransformer, plain_step
from transformer_cli.compute.devices import Precision, choose_precision
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import collate, plan_epoch, target_tokens
from transformer_cli.data.dataset import Dataset, EncodedSplit, Rows, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.training.opening import new_run
from transformer_cli.training.trainer import Trainer

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Contest:
    """The same batches for both sides; each function runs over all of them, one step per batch."""

    split: EncodedSplit
    tokens: int
    """target tokens of the batches, <eos> included"""
    ours: Callable[[], None]
    plain: Callable[[], None]


def training_speed(config: Config, data_dir: Path, *, rounds: int = 5, batches: int = 8) -> list[Figure]:
    """Measure target tokens/s in float32, and in bfloat16 if `precision: auto` picks it; the plain loop is float32."""
    figures = []
    for precision in precisions():
        with beside_plain(config, data_dir, precision, batches) as contest:
            say(f"train, {precision}: {batches} batches by ours, then by the plain loop")
            seconds, plain_seconds = alternate((contest.ours, contest.plain), rounds=rounds)
            speeds = (contest.tokens / seconds, contest.tokens / plain_seconds)
            figures.append(Figure("train", precision, "target tokens/s", *speeds))
    return figures


def precisions() -> list[Precision]:
    """Returns the precisions that are measured on this machine."""
    return ["float32", "bfloat16"] if choose_precision("auto", CPU) == "bfloat16" else ["float32"]


@contextmanager
def beside_plain(config: Config, data_dir: Path, precision: Precision, batches: int) -> Iterator[Contest]:
    """Yield a config's own steps and the plain loop's, with the same weights, after a first step of each."""
    training = config.training.model_copy(update={"precision": precision})
    config = config.model_copy(update={"training": training})
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    with TemporaryDirectory() as folder:
        trainer = new_trainer(Path(folder), config, dataset)
        plain = PlainTransformer(trainer.learner.model)
        optimizer = torch.optim.Adam(plain.parameters(), lr=training.learning_rate)
        split = trainer.train_sentences.split
        warm_up, *plan = plan_epoch(split, trainer.train_sentences.rows, training, epoch=1)[: batches + 1]

        def step(rows: Rows) -> None:
            batch = collate(split, rows)
            plain_step(plain, optimizer, batch.source, batch.target)

        trainer.step([warm_up])
        step(warm_up)
        tokens = sum(int(target_tokens(split, rows).sum()) for rows in plan)
        yield Contest(split, tokens, each(lambda rows: trainer.step([rows]), plan), each(step, plan))


def new_trainer(folder: Path, config: Config, dataset: Dataset) -> Trainer:
    """Returns what trains a model that has learned nothing yet, in a folder."""
    return Trainer(new_run(Run.create(folder / "run", config, dataset), dataset), CPU)


def each(step: Callable[[Rows], None], plan: Sequence[Rows]) -> Callable[[], None]:
    """Returns a function that takes the steps of a plan, one after another."""

    def take_all() -> None:
        for rows in plan:
            step(rows)

    return take_all
