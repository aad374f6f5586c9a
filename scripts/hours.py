"""How long trainings would take on this machine: takes some steps of each config, and counts the rest.

    python scripts/hours.py configs/multi30k-best.yaml mine.yaml --threads 1

Prints one row for each config: target tokens/s, target tokens in all, hours. Datasets that are missing are prepared
first. Validation, which takes some per cent more, is not counted, and neither is what other programs will take.
"""

import argparse
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.figures import as_program
from measure.steady import speed
from transformer_cli.compute.devices import choose_device, choose_precision
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.find import find_dataset
from transformer_cli.data.lengths import Rows
from transformer_cli.data.prepare import prepare
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import Trainer

THREADS = torch.get_num_threads()


@dataclass(frozen=True)
class Estimate:
    """How long a training would take from its beginning to its end."""

    tokens_per_second: float
    tokens: int
    """target tokens in all, <eos> included"""

    @property
    def hours(self) -> float:
        """Without validation."""
        return self.tokens / self.tokens_per_second / 3600


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Tell how long trainings would take on this machine.")
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG")
    parser.add_argument("--threads", type=int, help="threads and lanes (without it, as each config says)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of training for each config")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where the datasets are, or will be")
    options = parser.parse_args(arguments)
    changes = [f"training.{key}={options.threads}" for key in ("num_threads", "lanes")] if options.threads else []
    print(f"{'config':30} {'target tokens/s':>15} {'target tokens':>15} {'hours':>7}")
    for path in options.configs:
        config = load_config(path, changes)
        prepare(config, data_dir=options.data)
        found = estimate(config, options.data, seconds=options.seconds)
        print(f"{path.stem:30} {found.tokens_per_second:15,.0f} {found.tokens:15,} {found.hours:7.1f}", flush=True)


def estimate(config: Config, data_dir: Path, *, seconds: float = 20.0) -> Estimate:
    """Train for some seconds in a folder that is deleted again, and count what the config's training has in all."""
    device = choose_device(config.training.device)
    training = config.training.model_copy(update={"precision": choose_precision(config.training.precision, device)})
    config = config.model_copy(update={"training": training})
    torch.set_num_threads(training.num_threads or THREADS)
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    with TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", config, dataset)
        trainer = Trainer.begin(run, dataset, device)
        plan, count = trainer.plan(), trainer.train_sentences.target_tokens
        starts = range(0, len(plan), training.accumulate)
        with trainer.train_sentences.sampled or nullcontext():
            steps = itertools.cycle(plan[start : start + training.accumulate] for start in starts)
            work = taken(trainer, steps)
            next(work)  # which takes memory
            tokens_per_second = speed(work, seconds)
    unit, number = training.end
    total = count(plan) * number if unit == "epochs" else count(plan) * number // len(starts)
    return Estimate(tokens_per_second, total)


def taken(trainer: Trainer, steps: Iterable[Sequence[Rows]]) -> Iterator[int]:
    """Take steps; yields the target tokens of each."""
    for step in steps:
        trainer.step(step)
        yield trainer.train_sentences.target_tokens(step)


if __name__ == "__main__":
    as_program(main)
