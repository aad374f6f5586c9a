"""A model that learns from the translations of others: data diversification (Nguyen et al. 2020, arXiv:1911.01986).

    python scripts/diversify.py                                          German→English; docs/results.md has the figures
    python scripts/diversify.py --config configs/multi30k-best-en-de.yaml --reverse configs/multi30k-best.yaml

Trains a model of each direction, as scripts/best.py does, and lets them translate the training split (exported in int8,
by their own search). A new model of the same config learns, for half as long, from the pairs, from their source
sentences with the translations of the one direction, and from their target sentences with those of the other. No other
text comes in. Prints its rows as JSON to standard output. What is trained or translated already is not done again.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmark import DATA
from best import CONFIGS, RUNS, TESTS, judged_texts, rows, trained
from measure.figures import as_program
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.datasets.dataset import Dataset, find_dataset
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.runs.export import export
from transformer_cli.runs.run import Run
from transformer_cli.system.files import write_text
from transformer_cli.text.codec import SIDES
from transformer_cli.training.trainer import train
from transformer_cli.translator import Translator

SHARE = 0.5  # of the training of one of the others
DROPOUT = 0.2  # of the new model, which has more to learn


def main(arguments: Sequence[str] | None = None) -> None:
    """Train all models, and judge the last. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Train a model on the translations of several, and judge it.")
    parser.add_argument("--config", type=Path, default=CONFIGS[0])
    parser.add_argument("--reverse", type=Path, default=CONFIGS[1], help="the config of the other direction")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the models that translate")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the new model")
    parser.add_argument("--judge", nargs="*", default=list(TESTS), metavar="SPLIT", help="none: train only")
    options = parser.parse_args(arguments)
    base, reverse = load_config(options.config), load_config(options.reverse)
    if (base.data.source, base.data.target) != (reverse.data.target, reverse.data.source):
        parser.error(f"--reverse: {options.reverse} is not the other direction of {options.config}; name one that is")
    for each in (base, reverse):
        make_dataset(each, data_dir=DATA)
    texts = judged_texts(base, options.judge)  # what is missing is told now
    files = write_corpus(base, reverse, options.seeds)
    changes = {"data.corpus": "files", "data.skip_empty": True, "data.files": files}
    unit, number = base.training.end
    pairs = 1 + 2 * len(options.seeds) if unit == "epochs" else 1  # times as many in an epoch
    changes |= {f"training.{unit}": max(1, round(SHARE * number / pairs))}
    changes |= {"name": f"{base.run_name}-diverse", "model.dropout": DROPOUT}
    changed = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    config = load_config(options.config, [*changed, *options.set])
    make_dataset(config, data_dir=DATA)
    translator = Translator.load(train(config, data_dir=DATA, runs_dir=RUNS).folder)
    for row in rows(translator, texts):
        print(json.dumps({"config": config.run_name, "translations_of_seeds": options.seeds, **row}), flush=True)


def write_corpus(config: Config, reverse: Config, seeds: Sequence[int]) -> dict[str, dict[str, str]]:
    """Write the pairs, translated by the seeds of both configs, and the validation split; returns `data.files`."""
    kept, folder = DATA / "diverse", DATA / f"diverse-{config.data.source}-{config.data.target}"
    for each in (kept, folder):
        each.mkdir(parents=True, exist_ok=True)
    dataset = Dataset.open(find_dataset(config.data, DATA))
    source, target = (list(dataset.text("train", side)) for side in SIDES)
    pairs = [(source, target)]
    pairs += [(source, translated(trained(config, seed), source, kept)) for seed in seeds]
    pairs += [(translated(trained(reverse, seed), target, kept), target) for seed in seeds]
    files: dict[str, dict[str, str]] = {"train": {}, "valid": {}}
    for number, side in enumerate(SIDES):
        texts = {"train": [line for pair in pairs for line in pair[number]], "valid": dataset.text("valid", side)}
        for split, lines in texts.items():
            path = folder / f"{split}.{side}"
            write_text(path, as_text(lines))
            files[split][side] = str(path.resolve())
    return files


def translated(run: Run, lines: Sequence[str], folder: Path) -> list[str]:
    """Returns the translations of lines by a run, which are kept in the folder; of a long line, of its beginning."""
    kept = folder / f"{run.folder.name}-{run.identity.id}.txt"
    if not kept.exists():
        with TemporaryDirectory() as temporary:
            exported = export(run.folder, Path(temporary) / "exported", quantization="int8")
            translator = Translator(exported, "cpu").with_options(on_error="truncate")
            write_text(kept, as_text(translator.translate(lines)))
    return kept.read_bytes().decode().split("\n")[:-1]


def as_text(lines: Iterable[str]) -> str:
    """Returns the content of a file of lines."""
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    as_program(main)
