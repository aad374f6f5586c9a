"""The speed record: train to the tutorials' validation loss on Multi30k. docs/speedrun.md has the rules and the table.

    make speedrun                                              configs/multi30k-quick.yaml, seeds 0 to 4
    python scripts/speedrun.py --config my.yaml --seeds 1      a first try
    python scripts/speedrun.py --config my.yaml --seeds 0      only the ratio: seconds, not losses

Trains a run for each seed (an interrupted one goes on), tests whether their mean loss meets the target, then measures
the training speed beside the plain loop's. Losses do not depend on what else the machine does; the speeds need it
quiet. Prints the row of the table as JSON to standard output, and progress to standard error.
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmark import DATA, machine
from best import trained
from measure.figures import alternate, as_program, say
from measure.training import beside_plain, each, new_trainer
from transformer_cli.adapters.study.statistics import p_of_t
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import target_tokens
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.runs.state import load_average
from transformer_cli.scoring.losses import corpus_losses

TARGET = 1.617  # validation loss, mean of batch means: the best epoch of the published table (docs/results.md)
PLAIN_EPOCHS = 8  # of the plain loop, which needs 7 to 9 for its best validation loss
LEVEL = 0.05
BATCHES = 12  # that are timed, in each round
ROUNDS = 5
CONFIGS = Path(__file__).parents[1] / "configs"


@dataclass(frozen=True)
class Cost:
    """What a training costs, beside the plain loop's nominal one."""

    tokens: int
    """target tokens that a seed trains on"""
    tokens_per_second: float
    plain_tokens_per_second: float
    validation_seconds: float
    """of all validations of a run together, that of averaged weights included"""
    epoch_tokens: int
    """target tokens of an epoch of the plain loop"""

    @property
    def ratio(self) -> float:
        """How many times as long the plain loop takes for its epochs."""
        plain = PLAIN_EPOCHS * self.epoch_tokens / self.plain_tokens_per_second
        return plain / (self.tokens / self.tokens_per_second + self.validation_seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the seeds, measure the speeds, and print the row. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Train to the tutorials' validation loss, and say how fast.")
    parser.add_argument("--config", type=Path, default=CONFIGS / "multi30k-quick.yaml")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0; a record needs at least 5")
    options = parser.parse_args(arguments)
    config, default = (load_config(path, ["training.precision=float32"]) for path in (options.config, None))
    if config.data.model_copy(update={"fingerprint": None}) != default.data:
        parser.error(f"--config {options.config}: its data section must be that of configs/multi30k.yaml")
    make_dataset(config, data_dir=DATA)
    row: dict[str, Any] = {"config": options.config.stem}
    if options.seeds:
        row |= judged([loss_of(config, seed) for seed in range(options.seeds)])
    cost = measured_cost(config, default)
    print(json.dumps({**row, "ratio": cost.ratio, **asdict(cost), "machine": machine()}, ensure_ascii=False))


def loss_of(config: Config, seed: int) -> float:
    """Train one seed to its end, which the config fixes, and return its last validation loss (mean of batch means)."""
    run = trained(config, seed)
    average = load_average(run)
    loss = average.valid_loss_batch_mean if average else run.history()[-1]["valid_loss_batch_mean"]
    say(f"{run.folder.name}: {loss:.4f}")
    return float(loss)


def judged(losses: Sequence[float]) -> dict[str, Any]:
    """Returns the losses, their mean, and the p of a one-sided one-sample t-test: mean < TARGET (None for one loss)."""
    mean, p = statistics.mean(losses), None
    if len(losses) > 1:
        error = statistics.stdev(losses) / math.sqrt(len(losses))
        two_sided = p_of_t((mean - TARGET) / error, len(losses) - 1) if error else 0.0
        p = two_sided / 2 if mean < TARGET else 1 - two_sided / 2
    return {"losses": list(losses), "mean": mean, "p": p, "met": p is not None and p < LEVEL}


def measured_cost(config: Config, default: Config) -> Cost:
    """Measure the steps of a config, the plain loop's, and a validation, all in turns on a quiet machine."""
    dataset = Dataset.open(find_dataset(config.data, DATA))
    with TemporaryDirectory() as folder, beside_plain(default, DATA, "float32", BATCHES) as reference:
        trainer = new_trainer(Path(folder), config, dataset)
        valid = trainer.valid_sentences
        plan = trainer.plan()
        batches = plan[1 : BATCHES + 1]
        trainer.step(plan[:1])
        say(f"{BATCHES} steps by ours, by the plain loop, and a validation")
        seconds, plain_seconds, validation = alternate(
            (
                each(lambda rows: trainer.step([rows]), batches),
                reference.plain,
                lambda: corpus_losses(trainer.learner.model, valid.split, valid.rows),
            ),
            rounds=ROUNDS,
        )
    validations = config.training.epochs + bool(config.training.average)
    return Cost(
        tokens=config.training.epochs * trainer.train_sentences.target_tokens(plan),
        tokens_per_second=trainer.train_sentences.target_tokens(batches) / seconds,
        plain_tokens_per_second=reference.tokens / plain_seconds,
        validation_seconds=validations * validation,
        epoch_tokens=int(target_tokens(reference.split, trainer.train_sentences.rows).sum()),
    )


if __name__ == "__main__":
    as_program(main)
