"""What `import transformer_cli` offers: the one place that composes the core and its adapters.

    what calls for it                       the adapter
    data.corpus (but pairs)                 corpora: reads, cleans and holds out text
    model.vectors, training.initialize_from
      and .extra_valid and .replay              finetuning: callbacks of the loop
    training.tensorboard; curves.png        study/curves.py, likewise
    a glossary's file                       corpora reads it, and terminology takes its entries
    what lines need besides                 terminology, as the settings protect, protect_pattern and glossary say
    translate_html, translate_file          documents
    a run that was exported                 interop/ctranslate2.py: its engine
    systems to be compared, a look inside   study

What takes long to import is imported where it is needed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli import translate
from transformer_cli.adapters.study import compare as comparing
from transformer_cli.adapters.study.compare import CompareOptions, Comparison
from transformer_cli.adapters.study.statistics import GroupScore, PairedScore
from transformer_cli.adapters.terminology.hook import Terminology
from transformer_cli.config.schema import Config, DataConfig, TranslationSettings
from transformer_cli.data.corpus import Corpus, PairCorpus
from transformer_cli.data.make_dataset import PreparedDataset, make_dataset
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run, find_tokenizer_run
from transformer_cli.scoring import evaluate as scoring
from transformer_cli.scoring.evaluate import Evaluation, LineScore
from transformer_cli.scoring.losses import warn_if_losses_changed
from transformer_cli.scoring.metrics import parse_metrics
from transformer_cli.search.interface import Engine
from transformer_cli.system.arguments import as_list, refuse_str
from transformer_cli.translate import RunLike, open_models, refuse_not_finite

if TYPE_CHECKING:  # they import torch
    from transformer_cli.adapters.study.inspection import Inspection
    from transformer_cli.training.callbacks import Callback


def prepare(
    config: Config,
    *,
    pairs: Mapping[str, Iterable[tuple[str, str]]] | None = None,
    multi30k_dir: Path | None = None,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
) -> PreparedDataset:
    """Make the dataset that `config.data` describes, unless it exists already, and warn of what looks wrong in it.

    pairs: with data.corpus: pairs, the text of each split, such as {"train": [("Ein Hund.", "A dog."), …], "valid":
    […]}. multi30k_dir: a folder with Multi30k's files, instead of the download. runs_dir: where the run that
    `data.tokenizer_from` names is found by its name. Raises DataError for text that is not as it should be,
    DownloadError, CheckpointError without the run of `data.tokenizer_from`, and ConfigError.
    """
    from transformer_cli.adapters.corpora.corpora import open_corpus
    from transformer_cli.adapters.corpora.notices import warn_of_suspicious_text

    if pairs is not None and config.data.corpus != "pairs":
        raise ConfigError(f"data.corpus: {config.data.corpus}, but pairs are given; set data.corpus: pairs")
    codec_dir = find_tokenizer_run(config.data, runs_dir)
    corpus: Corpus
    if pairs is None:
        corpus = open_corpus(config.data, multi30k_dir=Path(multi30k_dir) if multi30k_dir else None)
    else:
        corpus = PairCorpus({split: list(of_split) for split, of_split in pairs.items()})
    prepared = make_dataset(config, corpus, data_dir=Path(data_dir), codec_dir=codec_dir)
    if prepared.created:
        warn_of_suspicious_text(prepared.folder, prepared.manifest)
    return prepared


def train(
    config: Config,
    *,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
    fresh: bool = False,
    callbacks: "Sequence[Callback]" = (),
) -> Run:
    """Train a run, or resume it from its last save. Returns it when its epochs, steps or patience have run out.

    Sets torch's number of threads, if the config names one, and (at each step) its random seed for the whole process.

    fresh: move a run of this name aside and begin anew. callbacks: your own, besides those that settings ask for (see
    `Callback`). Raises DataError without a dataset, CheckpointError if the run on disk is damaged, ConfigError if it
    was begun with other settings, another process is training it, or training diverges, Interrupted (after a save) on
    SIGINT, SIGTERM, SIGHUP or SIGUSR1, DistributedError if another process of the same job ends early.
    """
    from transformer_cli.training import trainer

    data_dir, runs_dir = Path(data_dir), Path(runs_dir)
    of_settings = _training_callbacks(config, runs_dir)
    return trainer.train(
        config, data_dir=data_dir, runs_dir=runs_dir, fresh=fresh, callbacks=(*of_settings, *callbacks)
    )


def _training_callbacks(config: Config, runs_dir: Path) -> "list[Callback]":
    """Returns the callbacks that a config asks for. Raises ConfigError if one of them is not installed."""
    from transformer_cli.adapters.finetuning.interpolation import Interpolation
    from transformer_cli.adapters.finetuning.pretrained import InitialWeights, PretrainedVectors
    from transformer_cli.adapters.finetuning.replay import Replay
    from transformer_cli.adapters.study.curves import DrawCurves, TensorBoard

    def translate_by_initial_model(lines: Sequence[str]) -> Iterable[str]:
        translator = Translator(config.training.initialize_from, config.training.device, runs_dir=runs_dir)
        return translator.with_options(on_too_long="blank").translate(lines)

    found: list[Callback] = []
    if config.model.pretrained:
        found.append(PretrainedVectors())
    if config.training.initialize_from is not None:
        found.append(InitialWeights())
    if config.training.extra_valid:
        found.append(Interpolation())
    if config.training.replay:
        found.append(Replay(translate_by_initial_model))
    if config.training.tensorboard:
        found.append(TensorBoard())
    return [*found, DrawCurves()]


def finetuning_table(run: Run, *, data_dir: Path = Path("data")) -> list[tuple[str, ...]]:
    """Returns the losses of a finetuned run's validations as rows, with BLEU before and after (`training.extra_valid`).

    Raises DataError, and as `Translator.load` does.
    """
    from transformer_cli.adapters.finetuning.interpolation import INITIAL_VALIDATION, forgetting_table
    from transformer_cli.compute.devices import choose_device
    from transformer_cli.runs.checkpoints import load_validation_weights
    from transformer_cli.search.decoder import TransformerEngine

    device = run.config.training.device
    initial = (
        load_validation_weights(run, INITIAL_VALIDATION).to(choose_device(device)).eval()
    )  # its run may be gone, or trained further
    start = translate.Translator([run], TransformerEngine([initial]), ["start"], Terminology())
    return forgetting_table(run, start, Translator(run, device), data_dir=data_dir)


def read_glossary(path: Path | None, data: DataConfig) -> dict[str, str]:
    """Returns the entries of a glossary in a file, as `Translator.with_options` takes them; None has none.

    path: a TBX, or a table. data: which languages are the source and the target. What is not taken is said. Raises
    DataError.
    """
    from transformer_cli.adapters.corpora.termbases import read_terms
    from transformer_cli.adapters.terminology.glossary import merge_entries

    return merge_entries(read_terms(path, data)) if path else {}


class Translator(translate.Translator):
    """A trained or exported run, or an ensemble of several, ready to translate."""

    def __init__(
        self,
        run: str | Path | Run | None = None,
        device: str = "auto",
        *,
        others: str | Path | Run | Iterable[str | Path | Run] = (),
        runs_dir: Path = Path("runs"),
    ) -> None:
        """Loads the checkpoint with the best validation loss. Raises CheckpointError, DeviceError.

        run: a name under runs_dir, a folder (an exported run's too), an opened run, or None for the newest one. device:
        auto, cpu, cuda or cuda:N. others: runs whose models translate together with the first one's; raises
        ConfigError if their codecs differ, or if one of them is exported.
        """
        runs = [Run.load(each, runs_dir) for each in (run, *as_list(others))]
        for each in runs:
            each.warn_if_tokenizer_changed()
        super().__init__(runs, *_open_engine(runs, device), hook=Terminology())

    @staticmethod
    def load(run: str | Path | Run | None = None, *others: str | Path | Run, device: str = "auto") -> "Translator":
        """Load a run, or (None) the newest one; with others, an ensemble. A run is named as in `Translator(…)`."""
        return Translator(run, device, others=others)

    def translate_html(self, html: str) -> str:
        """Returns a page, or a fragment of one, with its text translated, sentence by sentence.

        Raises DataError for a word that is too long, and ConfigError for options that are about one sentence.
        """
        from transformer_cli.adapters.documents.translate import translate_html

        return translate_html(self, html)

    def translate_file(self, content: bytes, file_format: str) -> tuple[bytes, Counter[str]]:
        """Returns a file with its text translated, and how many texts were translated, were kept, or lack something.

        file_format: a key of FORMATS. Raises DataError if the file is not in this format, and as `translate_html` does.
        """
        from transformer_cli.adapters.documents.translate import translate_file

        return translate_file(self, content, file_format)

    @staticmethod
    def as_translator(
        run: RunLike | None, device: str = "auto", *, runs_dir: Path = Path("runs")
    ) -> translate.Translator:
        """Returns a translator as it is, or that of a run, which is named as in `Translator(…)`."""
        return run if isinstance(run, translate.Translator) else Translator(run, device, runs_dir=runs_dir)


def _open_engine(runs: Sequence[Run], device: str) -> tuple[Engine, list[str]]:
    """Open what translates; returns also the names of the checkpoints. Warns of models whose code is another one."""
    engine: Engine
    if len(runs) == 1 and runs[0].exported:
        from transformer_cli.adapters.interop.ctranslate2 import open_exported

        engine, names = open_exported(runs[0], device), [runs[0].best_checkpoint_name]
    else:
        engine, names = open_models(runs, device)
        for run, name, model in zip(runs, names, engine.models, strict=True):
            warn_if_losses_changed(model, run.folder / "checkpoints" / name)
    refuse_not_finite(engine, runs)
    return engine, names


def evaluate(
    run: RunLike | None = None,
    *,
    others: str | Path | Run | Iterable[str | Path | Run] = (),
    splits: str | Iterable[str] = (),
    files: Sequence[str | Path] | None = None,
    lists: Sequence[Sequence[str]] | None = None,
    device: str = "auto",
    settings: TranslationSettings | None = None,
    lowercase: bool = False,
    metrics: str | Iterable[str] = (),
    save_result: bool = True,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
) -> list[Evaluation]:
    """Judge a run's best checkpoint on splits of its dataset (by default every test set), on files or on lists.

    run: a name under runs_dir, a folder (an exported run's too), an opened run or a Translator, or None for the newest
    run. others: further runs, which make an ensemble with it. files: sentences, and one or several files of their
    references; losses are those of the first. lists: the same, as lists of str. settings: how to translate (None: as
    the run's config, or the Translator, says); too long lines are cut. lowercase: score without case; a lower-cased run
    is scored so anyway. metrics: which of "chrf++" and "ter" to find, too.
    save_result: append each result to the run's evaluations.jsonl, if that can be written.
    Returns one result for each text. Raises CheckpointError, ConfigError or DataError.
    """
    refuse_str("files", files)
    refuse_str("lists", lists)
    for number, each in enumerate(lists or ()):
        refuse_str(f"lists, item {number}", each)
    metrics = parse_metrics(metrics)
    if isinstance(run, translate.Translator) and others:
        raise ConfigError("others: a Translator translates alone; make one of all runs, Translator.load(run, …)")
    opened = run.run if isinstance(run, translate.Translator) else Run.load(run, runs_dir)
    texts = scoring.select_texts(
        opened.config.data, splits=as_list(splits), files=files, lists=lists, data_dir=Path(data_dir)
    )
    if isinstance(run, translate.Translator):
        translator = run
    else:
        translator = Translator(opened, device, others=others, runs_dir=runs_dir)
    if settings:
        translator = translator.with_options(**dict(settings))
    named = files or (() if lists is None else ["lists"])
    return scoring.evaluate(
        translator, texts, lowercase=lowercase, metrics=metrics, save_result=save_result, named=named
    )


def score_pairs(
    run: RunLike | None, pairs: Iterable[Sequence[str]], *, names: tuple[str, str] = ("source", "target")
) -> Iterator[LineScore]:
    """Yield the score of each sentence and its translation, and log the perplexity of them all.

    run: a run's name or folder, or None for the newest; or what is open already. pairs: (sentence, translation), which
    are read as the scores are. Words that the vocabulary lacks are scored as <unk>; a warning counts them. names: what
    is said of the two sides. Raises DataError for a line that is longer than the model's positions.
    """
    yield from scoring.score_pairs(Translator.as_translator(run), pairs, names=names)


def compare(
    systems: RunLike | Iterable[RunLike] | Mapping[str, RunLike],
    options: CompareOptions = CompareOptions(),
    *,
    examples: int = 3,
) -> list[Comparison[PairedScore]]:
    """Compare the first of these runs or files of translations with each other one; returns one result per text.

    systems: a mapping gives each a name. examples: how many sentences are shown of each pair. The scores of runs are
    appended to their evaluations.jsonl. Raises CheckpointError or DataError.
    """
    return comparing.compare(systems, options, Translator.as_translator, examples=examples)


def compare_groups(
    groups: Iterable[RunLike | Iterable[RunLike]] | Mapping[str, RunLike | Iterable[RunLike]],
    options: CompareOptions = CompareOptions(),
) -> list[Comparison[GroupScore]]:
    """Compare the first recipe with each other one, by the scores of the runs (or files) of each; one result per text.

    groups: at least two runs of each, all different; a mapping gives each recipe a name. The scores of runs are
    appended to their evaluations.jsonl. Raises CheckpointError or DataError.
    """
    return comparing.compare_groups(groups, options, Translator.as_translator)


def inspect_sentence(run: RunLike | None, sentence: str) -> "Inspection":
    """Translate a sentence and look into it. Raises DataError if it is blank or longer than the model's positions.

    run: a run's name or folder, or None for the newest; or what is open already.
    """
    from transformer_cli.adapters.study.inspection import inspect_translation

    translator = Translator.as_translator(run)
    return inspect_translation(translator, *translator.translate_detailed([sentence]))
