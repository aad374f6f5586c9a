"""Parallel text → a dataset, encoded with the codecs of the run that `data.codec` names."""

from pathlib import Path
from typing import Any

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.corpora.corpora import open_corpus
from transformer_cli.corpora.gathering import gather
from transformer_cli.datasets.make_dataset import Prepared, make_dataset
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run, differing_codecs, find_run


def prepare(
    config: Config, *, source_dir: Path | None = None, data_dir: Path = Path("data"), runs_dir: Path = Path("runs")
) -> Prepared:
    """Make the dataset that `config.data` describes, as `data.make_dataset.make_dataset` does.

    runs_dir: where the run that `data.codec` names is found by its name. Raises what `find_codec` does, too.
    """
    return make_dataset(config, source_dir=source_dir, data_dir=data_dir, codec_dir=find_codec(config.data, runs_dir))


def survey(config: Config) -> dict[str, Any]:
    """Returns what `gather` would read and leave out, and writes nothing. Raises as `open_corpus` and `gather`."""
    return gather(open_corpus(config.data).splits, config.data, None)


def find_codec(data: DataConfig, runs_dir: Path = Path("runs")) -> Path | None:
    """Returns the folder of the run whose codecs `data.codec` wants, or None if it wants none.

    Raises CheckpointError if there is no such run, ConfigError if its codecs are not what `data` describes.
    """
    if data.codec is None:
        return None
    folder = find_run(data.codec, runs_dir)
    run = Run.open(folder)
    if differing := differing_codecs(run.config.data, data):
        raise ConfigError(
            f"data.codec: {data.codec}: its codecs are not as the config says ({differing}); set the same"
        )
    run.say_other_tokenizer()
    return folder
