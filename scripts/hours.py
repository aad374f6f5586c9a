"""How long trainings would take on this machine: takes some steps of each config, and counts the rest.

    python scripts/hours.py configs/multi30k-best.yaml mine.yaml --threads 1

Prints one row for each config: target tokens/s, target tokens in all, hours. Datasets that are missing are prepared
first. Validation, which takes some per cent more, is not counted, and neither is what other programs will take.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.find import find_dataset
from transformer_cli.data.prepare import prepare
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import Trainer


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
    """Train for some seconds in a folder that is deleted again, and count what is left of the config's training."""
    if config.training.num_threads is not None:
        torch.set_num_threads(config.training.num_threads)
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    with TemporaryDirectory() as folder:
        trainer = Trainer.begin(Run.create(Path(folder) / "run", config, dataset), dataset, torch.device("cpu"))
        plan, n_batches = trainer.plan(), config.training.accumulate
        steps = [plan[first : first + n_batches] for first in range(0, len(plan), n_batches)]
        trainer.step(steps[0])  # the first one takes memory
        count = trainer.train_sentences.target_tokens
        started, tokens = time.monotonic(), 0
        for step in steps[1:] or steps:
            trainer.step(step)
            tokens += count(step)
            taken = time.monotonic() - started
            if taken >= seconds:
                break
    unit, number = config.training.end
    total = count(plan) * number if unit == "epochs" else count(plan) * number // len(steps)
    return Estimate(tokens / taken, total)


if __name__ == "__main__":
    main()
