"""Training beside Marian's own (pymarian): the same shape, ids and batches of sentences, on the CPU."""

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from measure.figures import Figure, Unavailable, say, take_turns
from measure.training import CPU, precisions
from transformer_cli.compute.devices import MOST_LANES
from transformer_cli.config.schema import Config
from transformer_cli.datasets.batching import plan_epoch, target_tokens
from transformer_cli.datasets.dataset import Dataset, EncodedSplit, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.text.vocabulary import SPECIALS, UNK
from transformer_cli.training.trainer import Trainer

VERSION = "1.12.42"
SHOWN_AFTER = 8  # updates: from one line of Marian's log to the next
SHOWN = re.compile(r" after ([\d,]+) : Time ([\d.]+)s")
SECONDS = 10.0  # of ours in each turn
WARM_UP = 3  # steps, which are slower at first


def marian_speed(config: Config, data_dir: Path, *, rounds: int = 5, lines: int = 4) -> list[Figure]:
    """Measure target tokens/s, <eos> included, in the precisions of training_speed; Marian's training is in float32.

    lines: how many lines of its log are read in each turn, the first of which is not counted. Raises Unavailable.
    """
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    threads, ours = min(torch.get_num_threads(), MOST_LANES), precisions()
    works = [steps(config, data_dir, each) for each in ours]
    with TemporaryDirectory() as folder:
        sizes = [len(dataset.codecs.source), len(dataset.codecs.target)]
        options = [*_text(dataset.split("train"), sizes, Path(folder)), *_shape(config), "--cpu-threads", str(threads)]
        theirs = partial(_seconds_of_marian, options, lines)
        say(f"marian: training in {', '.join(ours)}, then Marian's; s for 1,000 target tokens, with {threads} threads")
        for work in works:
            list(itertools.islice(work, WARM_UP))
        *seconds, reference = take_turns((*(partial(_seconds_of_ours, work) for work in works), theirs), rounds=rounds)
    return [
        Figure("marian", precision, "target tokens/s", 1000 / taken, 1000 / reference)
        for precision, taken in zip(ours, seconds, strict=True)
    ]


def steps(config: Config, data_dir: Path, precision: str) -> Iterator[int]:
    """Take step after step of ours, each on a fresh batch; yields its target tokens, <eos> included."""
    training = config.training.model_copy(update={"precision": precision})
    config = config.model_copy(update={"training": training})
    dataset = Dataset.open(find_dataset(config.data, data_dir))
    with TemporaryDirectory() as folder:
        trainer = Trainer.begin(Run.create(Path(folder) / "run", config, dataset), dataset, CPU)
    split, usable = trainer.train_sentences.split, trainer.train_sentences.rows
    for epoch in itertools.count(1):
        for rows in plan_epoch(split, usable, config.training, epoch):
            trainer.step([rows])
            yield int(target_tokens(split, rows).sum())


def pymarian(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run Marian, and return what it has printed and logged. Raises Unavailable if it cannot be run."""
    if find_spec("pymarian") is None:
        raise Unavailable(f"Marian is not installed: {sys.executable} -m pip install pymarian=={VERSION}")
    done = subprocess.run([sys.executable, "-m", "pymarian", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"pymarian {' '.join(command)} has failed: {done.stderr[-2000:]}")
    return done


def write_vocabulary(path: Path, words: Iterable[str]) -> None:
    """Write a vocabulary as Marian reads it."""
    entries = (f"{json.dumps(word, ensure_ascii=False)}: {number}\n" for number, word in enumerate(words))
    path.write_text("".join(entries), encoding="utf-8")


def _text(split: EncodedSplit, sizes: list[int], folder: Path) -> list[str]:
    """Write our ids as words, so that Marian has our vocabularies; returns the options that name the files."""
    for name, side, size in zip(("source", "target"), (split.source, split.target), sizes, strict=True):
        words = [str(index) for index in range(size)]
        words[UNK] = "<unk>"
        write_vocabulary(folder / f"{name}.yml", ["</s>", "<unk>", *words[len(SPECIALS) :]])
        lines = (" ".join(words[index] for index in side[row]) + "\n" for row in range(len(side)))
        (folder / name).write_text("".join(lines), encoding="utf-8")
    files = ["--train-sets", *(str(folder / name) for name in ("source", "target"))]
    files += ["--vocabs", *(str(folder / f"{name}.yml") for name in ("source", "target"))]
    return [*files, "--model", str(folder / "model.npz"), "--overwrite", "--no-reload"]


def _shape(config: Config) -> list[str]:
    """Returns the options for a model and training as configs/multi30k.yaml has them."""
    model, training = config.model, config.training
    dropout = "--transformer-dropout {0} --transformer-dropout-attention {0} --transformer-dropout-ffn {0}"
    return (
        f"--type transformer --dim-emb {model.d_model} --enc-depth {model.num_encoder_layers} "
        f"--dec-depth {model.num_decoder_layers} --transformer-heads {model.num_heads} "
        f"--transformer-dim-ffn {model.d_ff} --transformer-ffn-activation {model.activation} "
        f"--transformer-train-position-embeddings --max-length {model.max_length} {dropout.format(model.dropout)} "
        f"--mini-batch {training.batch_size} --learn-rate {training.learning_rate} --clip-norm 1 "
        f"--optimizer-params 0.9 0.999 1e-8 --workspace 1024 --seed 1 --disp-freq {SHOWN_AFTER}"
    ).split()


def _seconds_of_ours(work: Iterator[int]) -> float:
    """Returns the seconds for 1,000 target tokens, over SECONDS or a little more: what was begun is finished."""
    tokens, started = 0, time.perf_counter()
    while (taken := time.perf_counter() - started) < SECONDS:
        tokens += next(work)
    return 1000 * taken / tokens


def _seconds_of_marian(options: list[str], lines: int) -> float:
    """Returns the seconds for 1,000 target tokens, by Marian's own clock, after the first line of its log."""
    log = pymarian("train", *options, "--after-batches", str(lines * SHOWN_AFTER)).stderr
    found = [(int(tokens.replace(",", "")), float(taken)) for tokens, taken in SHOWN.findall(log)]
    return 1000 * sum(taken for _, taken in found[1:]) / (found[-1][0] - found[0][0])
