"""The best translators of Multi30k's 29,000 pairs: trains and judges them. docs/results.md has the table and its terms.

    make best    both directions, then with --diverse

Trains a run for each seed, which takes one to two hours and resumes if interrupted. Then translates each split with
each run, and with all of them as an ensemble, by greedy search and by the config's own. Computes the scores that others
report.

--diverse applies data diversification (Nguyen et al. 2020): the runs of all seeds and both directions, exported in
int8, translate the training split. A new model of the same config is trained, for half as long, on the pairs, on the
source sentences with their translations, and on the translations of the target sentences with these. No other text is
used.

Prints one row per translator, split and search as JSON to standard output, and progress to standard error. Existing
runs and translations are reused. A test set is evaluated once for each published row, after all choices were made.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmark import DATA, machine
from measure.figures import as_program
from transformer_cli import Translator, prepare
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DecodingConfig
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.runs.run import Run
from transformer_cli.scoring.evaluate import Evaluation, ParallelText, evaluate_text, read_splits
from transformer_cli.scoring.metrics import bleu_of_tokens, text_metrics
from transformer_cli.system.files import write_text
from transformer_cli.text.codec import SIDES

CONFIGS = [Path(__file__).parents[1] / f"configs/multi30k-best{twin}.yaml" for twin in ("", "-en-de")]
RUNS = Path("runs")
TESTS = ["test_2016_flickr", "test_2017_flickr"]
TOKEN = re.compile(r"\w+|[^\w\s]")
SHARE = 0.5  # with --diverse: length of training, as a share of the config's
DROPOUT = 0.2  # of the new model, which has more text


def main() -> None:
    """Trains the seeds, evaluates them, and prints the rows."""
    parser = argparse.ArgumentParser(description="Train the best translators of Multi30k, and evaluate them.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--diverse", action="store_true", help="train on translations of both directions")
    options = parser.parse_args()
    configs = [load_config(path) for path in CONFIGS]
    texts = list[Sequence[ParallelText]]()
    for config in configs:  # what is missing is told now
        prepare(config, data_dir=DATA)
        moses(config.data.target)
        texts.append(read_splits(config.data, TESTS, DATA))
    for config, reverse, judged in zip(configs, configs[::-1], texts, strict=True):
        if options.diverse:
            new = diverse_config(config, reverse, options.seeds)
            prepare(new, data_dir=DATA)
            about = {"config": new.run_name, "translations_of_seeds": options.seeds}
            systems = [(about, [train(new, data_dir=DATA, runs_dir=RUNS)])]
        else:
            runs = {seed: trained(config, seed) for seed in options.seeds}
            ensemble = [list(runs)] if len(runs) > 1 else []
            chosen = [*([seed] for seed in runs), *ensemble]
            systems = [({"config": config.name, "seeds": seeds}, [runs[seed] for seed in seeds]) for seeds in chosen]
        for about, together in systems:
            for row in rows(Translator(together[0].folder, others=[run.folder for run in together[1:]]), judged):
                print(json.dumps({**about, **row}, ensure_ascii=False), flush=True)


def trained(config: Config, seed: int) -> Run:
    """Trains one seed to the end, unless it is trained already."""
    training = config.training.model_copy(update={"seed": seed})
    named = config.model_copy(update={"name": f"{config.run_name}-{seed}", "training": training})
    return train(named, data_dir=DATA, runs_dir=RUNS)


def rows(translator: Translator, texts: Sequence[ParallelText]) -> Iterator[dict[str, Any]]:
    """Yields the row of each text by greedy search, and by the translator's own search if it is another."""
    greedy = translator.with_options(**dict(DecodingConfig()))
    for text in texts:
        for each in (greedy, translator) if translator.settings != greedy.settings else (translator,):
            judged = evaluate_text(each, text)
            yield {
                "split": text.name,
                "beam_size": each.settings.beam_size,
                "length_penalty": each.settings.length_penalty,
                **scores(judged, text, translator.run.config.data.target),
                "machine": machine(),
            }


def scores(judged: Evaluation, text: ParallelText, language: str) -> dict[str, Any]:
    """Returns a row's scores: the usual ones, and BLEU of lower-cased tokens as other projects compute it."""
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
    """Returns a tokeniser like Multi30k's own script: lower case, Moses' punctuation, Moses' tokens."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: list(tokenizer.tokenize(normalizer.normalize(line.lower())))


def diverse_config(config: Config, reverse: Config, seeds: Sequence[int]) -> Config:
    """Returns the config of a model trained on the pairs and on the translations of both configs' seeds.

    Writes that text into one folder, and the translations, for reuse, into another.
    """
    kept, folder = DATA / "diverse", DATA / f"diverse-{config.run_name}"
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
            write_text(folder / f"{split}.{side}", "\n".join([*lines, ""]))
            files[split][side] = str((folder / f"{split}.{side}").resolve())
    unit, number = config.training.end
    times = len(pairs) if unit == "epochs" else 1  # as many pairs in an epoch
    changes = {
        "name": f"{config.run_name}-diverse",
        "data.corpus": "files",
        "data.skip_empty": True,
        "data.files": files,
        "model.dropout": DROPOUT,
        f"training.{config.training.end_key}": max(1, round(SHARE * number / times)),
    }
    return load_config(None, changes, inherited=config.model_dump())


def translated(run: Run, lines: Sequence[str], folder: Path) -> list[str]:
    """Returns a run's translations of lines, long ones truncated; keeps them in the folder."""
    kept = folder / f"{run.folder.name}-{run.metadata.id}.txt"
    if not kept.exists():
        with TemporaryDirectory() as temporary:
            exported = export(run.folder, Path(temporary) / "exported", quantization="int8")
            translator = Translator(exported, "cpu").with_options(on_too_long="truncate")
            write_text(kept, "\n".join([*translator.translate(lines), ""]))
    return kept.read_bytes().decode().split("\n")[:-1]


if __name__ == "__main__":
    as_program(main)
