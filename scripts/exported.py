"""Exported models beside the runs they come from: six shapes of the Transformer, the same text and the same scores?

    python scripts/exported.py                         trains six small runs of Multi30k, a quarter of an hour or more
    python scripts/exported.py --config my.yaml --epochs 1 --split test --only words-post

Trains a run for each shape (an interrupted one goes on), exports it in float32 and in int8, translates a split with all
three, greedily, and asks `tfm compare` whether int8 is another translator. Prints a table to standard output, and
progress to standard error. Nothing here depends on what else the machine does.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from measure.figures import as_program, say, table
from transformer_cli.compute.devices import choose_device
from transformer_cli.config.load import load_config
from transformer_cli.data.prepare import prepare
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.evaluation.compare import Terms, compare
from transformer_cli.evaluation.evaluate import Judged, ParallelText, judge, read_splits
from transformer_cli.runs.export import export
from transformer_cli.runs.exported import Exported
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import train
from transformer_cli.translator import Translator

CONFIG = Path(__file__).parents[1] / "configs/demo.yaml"
WORDS = ("data.tokens=words", "data.subwords={}", "data.joint_vocabulary=false")
UNTIED = "model.tie_embeddings=none"
POST = ("model.norm=post", "model.final_norm=false")
SHAPES = {  # what differs from the config
    "words-post": (*WORDS, UNTIED, *POST, "model.positions=learned"),
    "words-pre": (*WORDS, "model.tie_embeddings=target+output", "model.activation=gelu"),
    "words-wide": (*WORDS, UNTIED, "model.head_dim=48", "model.qkv_bias=false", "model.final_norm=false"),
    "subwords-paper": POST,
    "subwords-pre": (UNTIED, "model.positions=learned", "model.activation=gelu", "model.final_norm=false"),
    "subwords-post": ("model.norm=post", "model.head_dim=16", "model.scale_embeddings=false"),
}
HEAD = (
    "shape",
    "sentences",
    "same text",
    "log p differs by",
    "loss",
    "of float32",
    "BLEU",
    "of float32",
    "of int8",
    "MB",
)
GREEDY = SearchSettings()


@dataclass(frozen=True)
class Row:
    """A run, and what its exported models do with the same sentences."""

    shape: str
    sentences: int
    same: float
    """share of sentences for which float32 writes the same text"""
    log_prob: float
    """the largest difference of a log-probability between the run and float32, where both write the same tokens"""
    losses: tuple[float, float]
    """of the run, and of float32"""
    bleu: tuple[float, float, float]
    """of the run, of float32 and of int8"""
    megabytes: tuple[float, float]
    """of the weights in float32 and in int8"""
    verdict: str
    """what `tfm compare` says of int8"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, export and compare each shape. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Compare exported models with the runs they come from.")
    parser.add_argument("--config", type=Path, default=CONFIG, help="what the shapes vary (default: demo.yaml)")
    parser.add_argument("--epochs", type=int, help="default: the config's")
    parser.add_argument("--split", default="test_2016_flickr")
    parser.add_argument("--only", action="append", choices=SHAPES, help="a shape; repeatable (default: all)")
    options = parser.parse_args(arguments)
    rows = []
    for shape in options.only or SHAPES:
        epochs = [] if options.epochs is None else [f"training.epochs={options.epochs}"]
        config = load_config(options.config, [f"name=exported-{shape}", *SHAPES[shape], *epochs])
        prepare(config)
        rows.append(compared(shape, train(config), options.split))
        say(rows[-1].verdict)
    print(table([HEAD, *map(_cells, rows)]))
    print("\n".join(f"{row.shape}: {row.verdict}" for row in rows))


def compared(shape: str, run: Run, split: str, *, data_dir: Path = Path("data")) -> Row:
    """Export a run in float32 and int8, and compare all three on a split of its dataset."""
    (text,) = read_splits(run.config.data, [split], data_dir)
    with TemporaryDirectory() as temporary:
        whole, small = (export(run.folder, Path(temporary) / kind, quantization=kind) for kind in ("float32", "int8"))
        ours, float32, int8 = (_judged(each, text) for each in (run, whole, small))
        names = [str(run.folder), str(small.folder)]
        (found,) = compare(names, Terms(splits=[split], data_dir=data_dir), examples=0)
        sizes = [(each.folder / "model.bin").stat().st_size / 1e6 for each in (whole, small)]
    pairs = list(zip(ours.translations, float32.translations, strict=True))
    verdict = found.systems[1].verdict or ""
    return Row(
        shape,
        len(pairs),
        sum(one.text == other.text for one, other in pairs) / len(pairs),
        max(abs(one.log_prob - other.log_prob) for one, other in pairs if one.ids == other.ids),
        (ours.result.loss, float32.result.loss),
        (ours.result.bleu, float32.result.bleu, int8.result.bleu),
        (sizes[0], sizes[1]),
        verdict.replace(names[1], "int8").replace(names[0], shape),
    )


def _judged(run: Run | Exported, text: ParallelText) -> Judged:
    return judge(Translator(run, choose_device("cpu")), text, GREEDY)


def _cells(row: Row) -> tuple[str, ...]:
    losses, bleu = (f"{loss:.5f}" for loss in row.losses), (f"{score:.2f}" for score in row.bleu)
    sizes = f"{row.megabytes[0]:.1f} → {row.megabytes[1]:.1f}"
    return row.shape, f"{row.sentences:,}", f"{row.same:.1%}", f"{row.log_prob:.1e}", *losses, *bleu, sizes


if __name__ == "__main__":
    as_program(main)
