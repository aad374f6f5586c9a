"""What `import transformer_cli` offers: the core, composed with the adapters that a setting or a format calls for.

    setting or format               adapter
    data.corpus (but pairs)         corpora: reads, cleans and holds out text
    a glossary's file               corpora reads it, and terminology takes its entries

Adapters are imported where they are needed, so that what needs none of them loads none.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpus import Corpus, PairCorpus
from transformer_cli.data.make_dataset import Prepared, make_dataset
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import find_codec
from transformer_cli.system.arguments import checked


@checked
def prepare(
    config: Config,
    *,
    pairs: Mapping[str, Iterable[tuple[str, str]]] | None = None,
    source_dir: Path | None = None,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
) -> Prepared:
    """Make the dataset that `config.data` describes, unless it exists already, and warn of what looks wrong in it.

    pairs: with data.corpus: pairs, the text of each split, such as {"train": [("Ein Hund.", "A dog."), …], "valid":
    […]}. source_dir: a folder with Multi30k's files, instead of the download. runs_dir: where the run that `data.codec`
    names is found by its name. Raises DataError for text that is not as it should be, DownloadError, CheckpointError
    without the run of `data.codec`, and ConfigError.
    """
    from transformer_cli.adapters.corpora.corpora import open_corpus
    from transformer_cli.adapters.corpora.notices import warn_of_text

    if pairs is not None and config.data.corpus != "pairs":
        raise ConfigError(f"data.corpus: {config.data.corpus}, but pairs are given; set data.corpus: pairs")
    codec_dir = find_codec(config.data, runs_dir)
    corpus: Corpus
    if pairs is None:
        corpus = open_corpus(config.data, source_dir=source_dir)
    else:
        corpus = PairCorpus({split: list(of_split) for split, of_split in pairs.items()})
    prepared = make_dataset(config, corpus, data_dir=data_dir, codec_dir=codec_dir)
    if prepared.created:
        warn_of_text(prepared.folder, prepared.manifest)
    return prepared


def read_glossary(path: Path | None, data: DataConfig) -> dict[str, str]:
    """Returns the entries of a glossary in a file, as `Translator.with_options` takes them; None has none.

    path: a TBX, or a table. data: which languages are the source and the target. What is not taken is said. Raises
    DataError.
    """
    from transformer_cli.adapters.corpora.termbases import read_terms
    from transformer_cli.adapters.terminology.glossary import entries_of

    return entries_of(read_terms(path, data)) if path else {}
