"""The best translators of Multi30k's 29,000 pairs: trains and judges them. docs/results.md has the table and its terms.

    make best                                                         both directions, and diversify.py
    python scripts/best.py --config my.yaml --seeds 0 --judge valid   to choose: greedy and beam on the validation split

Says how long training will take. Trains a run for each seed (an interrupted one goes on), then translates each split
with each of them, and where there are several also with all together, as an ensemble: greedily and by the config's own
search. Scores the text in the ways that others report.
Prints one row per translator, split and search as JSON to standard output, and progress to standard error. A test set
is looked at once for each published row, when all has been chosen.
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmark import machine
from measure.figures import as_program, say
from measure.steady import speed
from transformer_cli.compute.devices import choose_device, choose_precision
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.datasets.dataset import Dataset, find_dataset
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.evaluation.evaluate import Judged, ParallelText, judge, read_splits
from transformer_cli.evaluation.metrics import bleu_of_text, bleu_of_tokens, sentence_chrf
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_state
from transformer_cli.text.lengths import Rows
from transformer_cli.training.trainer import Trainer, train
from transformer_cli.translator import Translator

CONFIGS = tuple(Path(__file__).parents[1] / f"configs/multi30k-best{twin}.yaml" for twin in ("", "-en-de"))
SEEDS = [0]
TESTS = ("test_2016_flickr", "test_2017_flickr")
SHARE = 0.5  # of the training of one of the others: that of a model of diversify.py
THREADS = torch.get_num_threads()
TOKEN = re.compile(r"\w+|[^\w\s]")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the seeds, judge them, and print the rows. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Train the best translators of Multi30k, and judge them.")
    parser.add_argument("--config", type=Path, action="append", help="repeatable; without it, both shipped ones")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--judge", nargs="*", default=list(TESTS), metavar="SPLIT", help="none: train only")
    parser.add_argument("--diverse", action="store_true", help="also train and judge the models of diversify.py")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="also print the N worst translations (chrF)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are, or will be")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where the dataset is, or will be")
    options = parser.parse_args(arguments)
    configs = {path: load_config(path) for path in options.config or CONFIGS}
    texts_of: dict[Path, Sequence[ParallelText]] = {}
    for path, config in configs.items():
        make_dataset(config, data_dir=options.data)
        texts_of[path] = judged_texts(config, options.judge, options.data)  # what is missing is told now
    work = [
        (config, sum(left(options.runs / f"{config.run_name}-{seed}") for seed in options.seeds))
        for config in configs.values()
    ]
    if options.diverse:
        if options.config or options.seeds != SEEDS:
            parser.error("--diverse is about the shipped configs and seeds: leave out --config and --seeds")
        work = [(config, trainings + SHARE * left(options.runs / diverse(config))) for config, trainings in work]
    say_how_long(work, options.data)
    for path, config in configs.items():
        runs = {seed: trained(config, seed, options.data, options.runs).folder for seed in options.seeds}
        texts = texts_of[path]
        ensemble = [list(runs)] if len(runs) > 1 else []
        for seeds in (*([seed] for seed in runs), *ensemble) if texts else ():
            translator = Translator.load(*(runs[seed] for seed in seeds))
            for row in rows(translator, texts, worst=options.worst):
                print(json.dumps({"config": path.stem, "seeds": seeds, **row}, ensure_ascii=False), flush=True)
    if options.diverse:
        folders = ["--runs", str(options.runs), "--data", str(options.data)]
        for one, other in (CONFIGS, CONFIGS[::-1]):
            script = [sys.executable, str(Path(__file__).with_name("diversify.py"))]
            ways = ["--config", str(one), "--reverse", str(other), "--judge", *options.judge]
            if code := subprocess.run([*script, *ways, *folders], check=False).returncode:
                sys.exit(code)


def diverse(config: Config) -> str:
    """Returns the name of the run that diversify.py makes with a config."""
    return f"{config.run_name}-diverse"


def judged_texts(config: Config, splits: Sequence[str], data_dir: Path) -> Sequence[ParallelText]:
    """Returns the texts that are judged. Raises DataError or ModuleNotFoundError for what judging lacks."""
    if not splits:
        return []
    moses(config.data.target)
    return read_splits(config.data, splits, data_dir)


def left(folder: Path) -> float:
    """Returns the share of a run's training that is left: 1 if nothing has been saved yet."""
    if not (folder / "last").exists():
        return 1.0
    run = Run.open(folder)
    state, (unit, number) = load_state(run), run.config.training.end
    if state.has_ended(run.config.training):
        return 0.0
    return 1 - (state.epoch - 1 if unit == "epochs" else state.step) / number


def say_how_long(work: Sequence[tuple[Config, float]], data_dir: Path) -> None:
    """Say how long training will take: configs, and how many trainings of each are left."""
    hours = 0.0
    for config, trainings in work:
        if trainings:
            found = estimate(config, data_dir)
            hours += trainings * found.hours
            what = f"{trainings:.1f} × {found.tokens:,} target tokens, at {found.tokens_per_second:,.0f} a second"
            say(f"{config.run_name}: {what}: {trainings * found.hours:.1f} hours")
    say(f"training will take about {hours:.1f} hours, if nothing else runs on this machine")


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


def trained(config: Config, seed: int, data_dir: Path, runs_dir: Path) -> Run:
    """Train one seed to its end, or find it trained."""
    training = config.training.model_copy(update={"seed": seed})
    named = config.model_copy(update={"name": f"{config.run_name}-{seed}", "training": training})
    return train(named, data_dir=data_dir, runs_dir=runs_dir)


def rows(translator: Translator, texts: Sequence[ParallelText], *, worst: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the row of each text, translated greedily, and again by the translator's own search if that is another.

    worst: how many of the translations with the lowest chrF are in a row of that search.
    """
    greedy, own = SearchSettings(decoding=DecodingConfig()), translator.settings
    for text in texts:
        for settings in (greedy, own) if own.decoding != greedy.decoding else (own,):
            judged = judge(translator, text, settings)
            yield {
                "split": text.name,
                "beam_size": settings.decoding.beam_size,
                "length_penalty": settings.decoding.length_penalty,
                **scores(judged, text, translator.run.config.data.target),
                **_worst(judged, text, worst if settings is own else 0),
                "machine": machine(),
            }


def scores(judged: Judged, text: ParallelText, language: str) -> dict[str, Any]:
    """Returns a row's scores: the usual ones, and BLEU of lower-cased tokens in the ways of the figures beside it."""
    result, texts = judged.result, [each.text for each in judged.translations]
    tokens = {"bleu_words": words, "bleu_moses": moses(language)}
    return {
        "loss": result.loss,
        "nats_per_character": result.loss * result.tokens / sum(map(len, text.references[0])),
        "bleu": result.bleu,
        "bleu_half_interval": result.bleu_interval and result.bleu_interval.half_width,
        "bleu_lowercase": bleu_of_text(texts, *text.references, lowercase=True, language=language),
        "chrf": result.chrf,
        **{key: bleu_of_tokens([*map(cut, texts)], [*map(cut, text.references[0])]) for key, cut in tokens.items()},
        "bleu_signature": result.bleu_signature,
    }


def words(line: str) -> list[str]:
    """Returns the lower-cased tokens of paper-to-pytorch: runs of word characters, and any other visible character."""
    return TOKEN.findall(line.lower())


def moses(language: str) -> Callable[[str], list[str]]:
    """Returns what cuts a line as Multi30k's own script does: lower case, Moses' punctuation, Moses' tokens."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: list(tokenizer.tokenize(normalizer.normalize(line.lower())))


def _worst(judged: Judged, text: ParallelText, n_lines: int) -> dict[str, Any]:
    if not n_lines:
        return {}
    texts = [each.text for each in judged.translations]
    found = sorted(zip(sentence_chrf(texts, *text.references, lowercase=False), range(len(texts)), strict=True))
    return {
        "worst": [
            {
                "line": line + 1,
                "chrf": round(chrf, 1),
                "source": text.sources[line],
                "reference": text.references[0][line],
                "translation": texts[line],
            }
            for chrf, line in found[:n_lines]
        ]
    }


if __name__ == "__main__":
    as_program(main)
