"""Training on the CPU: the Trainer's step and the plain loop, on the same random batches."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.figures import Figure, alternate, say
from oracles.plain import PlainTransformer, plain_step
from transformer_cli.compute.devices import Precision, choose_precision
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import collate, plan_epoch, target_token_counts
from transformer_cli.data.dataset import Dataset, Rows, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.training.resume import new_run
from transformer_cli.training.trainer import Trainer

CPU = torch.device("cpu")


def training_speed(config: Config, data_dir: Path, *, rounds: int = 5, batches: int = 8) -> list[Figure]:
    """Measures target tokens/s in float32, and in bfloat16 if `precision: auto` chooses it; the plain loop is
    float32."""
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    precisions: set[Precision] = {"float32", choose_precision("auto", CPU)}
    return [speed_beside_plain(config, dataset, each, rounds, batches) for each in sorted(precisions, reverse=True)]


def speed_beside_plain(config: Config, dataset: Dataset, precision: Precision, rounds: int, batches: int) -> Figure:
    """Times the steps of a config and of the plain loop, on the same batches from the same weights."""
    training = config.training.model_copy(update={"precision": precision})
    config = config.model_copy(update={"training": training})
    with TemporaryDirectory() as folder:
        trainer = Trainer(new_run(Run.create(Path(folder, "run"), config, dataset), dataset), CPU)
        plain = PlainTransformer(trainer.learner.model)
        optimizer = torch.optim.Adam(plain.parameters(), lr=training.learning_rate)
        split = trainer.texts.train.split
        warm_up, *plan = plan_epoch(split, trainer.texts.train.rows, training, epoch=1)[: batches + 1]

        def ours(plan: Sequence[Rows]) -> None:
            for rows in plan:
                trainer.step([rows])

        def theirs(plan: Sequence[Rows]) -> None:
            for rows in plan:
                batch = collate(split, rows)
                plain_step(plain, optimizer, batch.source, batch.target)

        ours([warm_up])
        theirs([warm_up])
        say(f"train, {precision}: {batches} batches by ours, then by the plain loop")
        seconds = alternate((partial(ours, plan), partial(theirs, plan)), rounds=rounds)
    tokens = sum(int(target_token_counts(split, rows).sum()) for rows in plan)
    return Figure("train", precision, "target tokens/s", *(tokens / taken for taken in seconds))
