"""The best translators of Multi30k's 29,000 pairs: trains and judges them. docs/results.md has the table and its terms.

    make best                                                         both directions, and diversify.py
    python scripts/best.py --config my.yaml --seeds 0 --judge valid   to choose: greedy and beam on the validation split

Trains a run for each seed, which takes one to two hours (an interrupted one goes on), then translates each split with
each of them, and where there are several also with all together, as an ensemble: greedily and by the config's own
search. Scores the text in the ways that others report.
Prints one row per translator, split and search as JSON to standard output, and progress to standard error. A test set
is looked at once for each published row, when all has been chosen.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmark import DATA, machine
from measure.figures import as_program
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.evaluation.evaluate import Judged, ParallelText, judge, read_splits
from transformer_cli.evaluation.metrics import bleu_of_tokens, text_metrics
from transformer_cli.runs.run import Run
from transformer_cli.training.trainer import train
from transformer_cli.translator import Translator

CONFIGS = tuple(Path(__file__).parents[1] / f"configs/multi30k-best{twin}.yaml" for twin in ("", "-en-de"))
RUNS = Path("runs")
TESTS = ("test_2016_flickr", "test_2017_flickr")
TOKEN = re.compile(r"\w+|[^\w\s]")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the seeds, judge them, and print the rows. arguments: None uses the arguments of the process."""
    parser = argparse.ArgumentParser(description="Train the best translators of Multi30k, and judge them.")
    parser.add_argument("--config", type=Path, action="append", help="repeatable; without it, both shipped ones")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--judge", nargs="*", default=list(TESTS), metavar="SPLIT", help="none: train only")
    options = parser.parse_args(arguments)
    configs = {path: load_config(path) for path in options.config or CONFIGS}
    texts_of: dict[Path, Sequence[ParallelText]] = {}
    for path, config in configs.items():
        make_dataset(config, data_dir=DATA)
        texts_of[path] = judged_texts(config, options.judge)  # what is missing is told now
    for path, config in configs.items():
        runs = {seed: trained(config, seed).folder for seed in options.seeds}
        texts = texts_of[path]
        ensemble = [list(runs)] if len(runs) > 1 else []
        for seeds in (*([seed] for seed in runs), *ensemble) if texts else ():
            translator = Translator.load(*(runs[seed] for seed in seeds))
            for row in rows(translator, texts):
                print(json.dumps({"config": path.stem, "seeds": seeds, **row}, ensure_ascii=False), flush=True)


def judged_texts(config: Config, splits: Sequence[str]) -> Sequence[ParallelText]:
    """Returns the texts that are judged. Raises DataError or ModuleNotFoundError for what judging lacks."""
    if not splits:
        return []
    moses(config.data.target)
    return read_splits(config.data, splits, DATA)


def trained(config: Config, seed: int) -> Run:
    """Train one seed to its end, or find it trained."""
    training = config.training.model_copy(update={"seed": seed})
    named = config.model_copy(update={"name": f"{config.run_name}-{seed}", "training": training})
    return train(named, data_dir=DATA, runs_dir=RUNS)


def rows(translator: Translator, texts: Sequence[ParallelText]) -> Iterator[dict[str, Any]]:
    """Yield the row of each text, translated greedily, and again by the translator's own search if that is another."""
    greedy = translator.with_options(**dict(DecodingConfig()))
    for text in texts:
        for each in (greedy, translator) if translator.settings != greedy.settings else (translator,):
            judged = judge(each, text)
            yield {
                "split": text.name,
                "beam_size": each.settings.beam_size,
                "length_penalty": each.settings.length_penalty,
                **scores(judged, text, translator.run.config.data.target),
                "machine": machine(),
            }


def scores(judged: Judged, text: ParallelText, language: str) -> dict[str, Any]:
    """Returns a row's scores: the usual ones, and BLEU of lower-cased tokens in the ways of the figures beside it."""
    result, texts = judged.result, [each.text for each in judged.translations]
    tokens = {"bleu_words": words, "bleu_moses": moses(language)}
    case_free = text_metrics(language=language, lowercase=True)["BLEU"]
    return {
        "loss": result.loss,
        "nats_per_character": result.loss * result.tokens / sum(map(len, text.references[0])),
        "bleu": result.bleu,
        "bleu_half_interval": result.bleu_interval and result.bleu_interval.half_width,
        "bleu_lowercase": float(case_free.corpus_score(texts, text.references).score),
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


if __name__ == "__main__":
    as_program(main)
