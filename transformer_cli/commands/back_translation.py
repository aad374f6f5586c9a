"""`tfm prepare FILE --monolingual FILE`: a model of the other direction translates text of the target language.

Each step finds what an earlier call has done, so the command can be given again after a kill, with the same result.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformer_cli.adapters.corpora.configs import DEFAULT_BASE, commented_yaml, vocab_size_for
from transformer_cli.adapters.corpora.formats import read_one_side
from transformer_cli.adapters.corpora.notices import LINES_CHECKED, most_similar, warn_of_suspicious_lines
from transformer_cli.adapters.corpora.recipe import choose_training
from transformer_cli.api import Translator, prepare, train
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import MAX_NAME_CHARS, Config, FilePair, HeldOutConfig
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import ConfigError
from transformer_cli.system.files import atomic_file, sha256_of_file, write_bytes
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES
from transformer_cli.text.lines import trigrams

BACK = "-back"  # ends the name of the model of the other direction
BACK_SHARE = 0.4  # of the minutes, for the model of the other direction

log = logging.getLogger(__name__)


def add_back_translations(
    config: Config,
    real: Dataset,
    monolingual: Path,
    minutes: float | None,
    with_settings: Callable[[Mapping[str, Any]], Config],
) -> Config:
    """Returns the config of a dataset's pairs and machine-made ones, of which none is held out.

    Trains NAME-back, the other direction, on the dataset's training pairs, and translates the lines of monolingual
    (Sennrich et al. 2016). config, minutes, with_settings: see `choose_training`. Raises ConfigError, DataError, and
    Interrupted as `train` does.
    """
    data, own_splits = config.data, {"held_out": HeldOutConfig(), "columns": None}
    lines = read_one_side("--monolingual", monolingual, data)
    warn_of_suspicious_lines({f"--monolingual {monolingual}": (lines, data.target)})
    if most_similar(lines, [trigrams(real.text("train", side)[:LINES_CHECKED]) for side in reversed(SIDES)]):
        log.warning("%s looks like text in %s; it should be in %s", monolingual, data.source, data.target)
    folder, splits = real.folder.resolve(), real.manifest["splits"]
    files, swapped = (
        {each: FilePair(source=folder / f"{each}.{one}.txt", target=folder / f"{each}.{other}.txt") for each in splits}
        for one, other in (SIDES, SIDES[::-1])
    )
    languages = {"source": data.target, "target": data.source}
    data_of_back = data.model_copy(update={**own_splits, **languages, "files": swapped, "clean": ()})
    name = f"{config.run_name[: MAX_NAME_CHARS - len(BACK)]}{BACK}"
    back = config.model_copy(update={"name": name, "data": data_of_back})
    path = Path(f"{back.run_name}.yaml")
    if path.exists() and load_config(path).data != back.data:
        raise ConfigError(f"{path} exists already, for other text; delete it and runs/{name}, or give another --name")
    dataset = Dataset.open(prepare(back).folder)
    if not path.exists():
        back, why = choose_training(back, dataset, minutes and BACK_SHARE * minutes, with_settings)
        write_bytes(path, commented_yaml(back, path, why).encode())
        log.info("wrote %s: %s", path, why)
    run = train(load_config(path))
    made = run.folder / f"machine-made-{sha256_of_file(monolingual)[:8]}.{data.source}.txt"
    if not made.exists():
        written = Translator(run).translate(lines, beam_size=1, on_too_long="blank")
        with atomic_file(made) as file:
            file.write("".join(f"{line}\n" for line in written).encode())
    log.info("%s of %s, translated by %s", pluralize(len(lines), "line"), monolingual, run.folder)
    train_files = (files["train"], FilePair(source=made.resolve(), target=monolingual.resolve()))
    largest, n_pairs = load_config(DEFAULT_BASE).data.subwords.vocab_size, len(real.split("train")) + len(lines)
    size = max(data.subwords.vocab_size, vocab_size_for(n_pairs, at_most=largest))
    subwords = with_settings({"data.subwords.vocab_size": size}).data.subwords
    clean = tuple(dict.fromkeys((*data.clean, "empty", "held_out")))  # lines may be blank, or in a held-out pair
    chosen = {"files": {**files, "train": train_files}, "subwords": subwords, "clean": clean}
    return config.model_copy(update={"data": data.model_copy(update={**own_splits, **chosen})})
