"""Training on the CPU: the Trainer's step beside the plain loop, and beside its own matrix products."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from measure.figures import Figure, alternate, say
from oracles.plain import PlainTransformer, plain_step
from transformer_cli.compute.devices import Precision, choose_precision
from transformer_cli.compute.threads import INLINE_POOL
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import collate, target_token_counts
from transformer_cli.data.dataset import Dataset, Rows, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.training.resume import load_run
from transformer_cli.training.trainer import Trainer

CPU = torch.device("cpu")
PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm")}
Measure = Callable[[Trainer, Sequence[Rows], str], list[Figure]]
"""(trainer, batches, name of the figures) → figures; the first batch is to warm up"""


def measure_training(measure: Measure, config: Config, data_dir: Path, *, batches: int) -> list[Figure]:
    """Measures the steps of a config in float32, and in bfloat16 if `precision: auto` chooses it."""
    dataset, figures = Dataset.open(find_dataset(config.data, data_dir)), list[Figure]()
    precisions: set[Precision] = {"float32", choose_precision("auto", CPU)}
    for precision in sorted(precisions, reverse=True):
        training = config.training.model_copy(update={"precision": precision})
        changed = config.model_copy(update={"training": training})
        with TemporaryDirectory() as folder:
            trainer = Trainer(load_run(Run.create(Path(folder, "run"), changed, dataset), dataset), CPU)
            figures += measure(trainer, trainer.plan()[: batches + 1], precision)
    return figures


def beside_plain(trainer: Trainer, plan: Sequence[Rows], precision: str, *, rounds: int = 5) -> list[Figure]:
    """Measures target tokens/s beside the plain loop in float32, on the same batches from the same weights."""
    plain = PlainTransformer(trainer.learner.model)
    optimizer = torch.optim.Adam(plain.parameters(), lr=trainer.training.learning_rate)
    split, (warm_up, *timed) = trainer.texts.train.split, plan

    def theirs(plan: Sequence[Rows]) -> None:
        for rows in plan:
            batch = collate(split, rows)
            plain_step(plain, optimizer, batch.source, batch.target)

    ways = (partial(_take_steps, trainer), theirs)
    for way in ways:
        way([warm_up])
    say(f"train, {precision}: {len(timed)} batches by ours, then by the plain loop")
    seconds = alternate([partial(way, timed) for way in ways], rounds=rounds)
    tokens = sum(int(target_token_counts(split, rows).sum()) for rows in timed)
    return [Figure("train", precision, "target tokens/s", *(tokens / taken for taken in seconds))]


def beside_products(trainer: Trainer, plan: Sequence[Rows], precision: str, *, rounds: int = 5) -> list[Figure]:
    """Measures steps beside the matrix products that their gradients take, in processor seconds of one thread.

    These are the products of all linear layers and of attention, forwards and backwards. They are computed again with
    the operands that they had in the step, one after another. Muon's products are not among them.
    """
    learner, (warm_up, *timed) = trainer.learner, plan
    width = len(learner.model.output.weight)
    learner.workers, workers = INLINE_POOL, learner.workers  # a mode sees what its own thread computes
    trainer.step([warm_up])
    with _Products() as products:
        for rows in timed:
            learner.backward(trainer.texts.train.split, [rows], step=1)
    learner.workers = workers
    name = f"{trainer.run.config.run_name}, {precision}"
    say(f"products: {name}: steps, then their {len(products.calls):,} products alone, then those of the loss")
    ways = (partial(_take_steps, trainer, timed), products.compute, partial(products.compute, of_width=width))
    seconds = alternate(ways, rounds=rounds, clock=time.process_time)
    step, all_products, of_loss = (taken / len(timed) for taken in seconds)
    return [
        Figure("products", name, "s a step", step, all_products),
        Figure("products", f"{name}: those of the loss, beside the step", "s a step", of_loss, step),
    ]


def _take_steps(trainer: Trainer, plan: Sequence[Rows]) -> None:
    for rows in plan:
        trainer.step([rows])


class _Products(TorchDispatchMode):
    """Within the block, keeps all matrix products and their operands."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[partial[object]] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        call = partial(function, *arguments, **(keywords or {}))
        if function in PRODUCTS:
            self.calls.append(call)
        return call()

    @torch.no_grad()
    def compute(self, of_width: int | None = None) -> None:
        """Computes them again, in their order; of_width: only those with a matrix of so many rows or columns."""
        for call in self.calls:
            if of_width is None or any(of_width in each.shape for each in call.args):
                call()
