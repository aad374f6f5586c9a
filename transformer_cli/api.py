"""The Python API: the functions of `import transformer_cli`. Only this module connects the core and its adapters.

    setting or function                         adapter
    data.corpus (except pairs)                  corpora: reads, cleans and splits the text
    model.vectors, training.initialize_from,
      training.extra_valid, training.replay     finetuning: callbacks of the training loop
    training.tensorboard; curves.png            study/curves.py: callbacks, too
    glossary files                              corpora reads them; terminology applies their entries
    protect, protect_pattern, glossary          terminology: a hook for each line
    translate_html, translate_file              documents
    exported runs                               interop/ctranslate2.py: their engine
    compare, compare_groups, inspect_sentence   study

Modules that take long to import are imported inside functions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli import translate
from transformer_cli.adapters.terminology.hook import Terminology
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DataConfig, TranslationSettings
from transformer_cli.data.corpus import Corpus, PairCorpus
from transformer_cli.data.make_dataset import PreparedDataset, make_dataset
from transformer_cli.errors import ArgumentError, ConfigError
from transformer_cli.runs.run import Run, find_tokenizer_run
from transformer_cli.scoring import evaluate as scoring
from transformer_cli.scoring.evaluate import Evaluation, LineScore
from transformer_cli.scoring.losses import warn_if_losses_changed
from transformer_cli.scoring.metrics import parse_metrics
from transformer_cli.search.protocols import Engine
from transformer_cli.system.arguments import as_list, check_list
from transformer_cli.system.terminal import pluralize
from transformer_cli.translate import RunLike, open_models, refuse_not_finite

if TYPE_CHECKING:
    from transformer_cli.adapters.documents.translate import TranslatedFile
    from transformer_cli.adapters.study.compare import CompareOptions, Comparison
    from transformer_cli.adapters.study.inspection import Inspection
    from transformer_cli.adapters.study.statistics import GroupScore, PairedScore
    from transformer_cli.training.callbacks import Callback


def prepare(
    config: Config | str | Path,
    *,
    pairs: Mapping[str, Iterable[tuple[str, str]]] | None = None,
    multi30k_dir: Path | None = None,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
) -> PreparedDataset:
    """Makes the dataset that `config.data` describes, unless it exists, and warns of suspicious text in it.

    config: or what `load_config` takes, such as "demo". pairs: with data.corpus: pairs, the text of each split, such as
    {"train": [("Ein Hund.", "A dog."), …], "valid": […]}. multi30k_dir: a folder with Multi30k's files (None: download
    them). runs_dir: the folder of the run named by `data.tokenizer_from`. Raises DataError for text that cannot be
    used, DownloadError, ConfigError, and CheckpointError if that run does not exist.
    """
    from transformer_cli.adapters.corpora.corpora import open_corpus
    from transformer_cli.adapters.corpora.notices import warn_of_suspicious_text

    config = _as_config(config)
    if pairs is not None and config.data.corpus != "pairs":
        raise ConfigError(f"data.corpus: {config.data.corpus}, but pairs are given; set data.corpus: pairs")
    if not isinstance(pairs, Mapping | None):
        raise ArgumentError(f"pairs: a {type(pairs).__name__}, where a dict is wanted: {{'train': […], 'valid': […]}}")
    for split, of_split in (pairs or {}).items():
        check_list(f"pairs[{split!r}]", of_split, "pairs")
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
    config: Config | str | Path,
    *,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
    fresh: bool = False,
    callbacks: "Sequence[Callback]" = (),
) -> Run:
    """Trains a run, or resumes it from its last checkpoint. Returns it when its epochs, steps or patience are used up.

    Sets torch's number of threads, if the config has one, and (at each step) its random seed for the whole process.

    config: or what `load_config` takes, such as "demo". fresh: start a new run, and move one of this name aside.
    callbacks: your own (see `Callback`), in addition to those of the settings. Raises DataError without a dataset;
    CheckpointError if the run on disk is damaged; ConfigError if it was begun with other settings, another process is
    training it, or training diverges; Interrupted (after saving) on SIGINT, SIGTERM, SIGHUP or SIGUSR1;
    DistributedError if another process of the job ends early.
    """
    from transformer_cli.training import trainer

    config, data_dir, runs_dir = _as_config(config), Path(data_dir), Path(runs_dir)
    callbacks = (*_training_callbacks(config, runs_dir), *callbacks)
    return trainer.train(config, data_dir=data_dir, runs_dir=runs_dir, fresh=fresh, callbacks=callbacks)


def _as_config(config: Config | str | Path) -> Config:
    return config if isinstance(config, Config) else load_config(config)


def _training_callbacks(config: Config, runs_dir: Path) -> "list[Callback]":
    """Returns the callbacks that a config needs. Raises ConfigError if a library for them is not installed."""
    from transformer_cli.adapters.finetuning.interpolation import Interpolation
    from transformer_cli.adapters.finetuning.pretrained import InitialWeights, PretrainedVectors
    from transformer_cli.adapters.finetuning.replay import Replay
    from transformer_cli.adapters.study.curves import DrawCurves, TensorBoard
    from transformer_cli.training.callbacks import keys_of_callbacks
    from transformer_cli.training.translation_score import Examples, TranslationScore

    def translate_by_initial_model(lines: Sequence[str]) -> Iterable[str]:
        translator = Translator(config.training.initialize_from, config.training.device, runs_dir=runs_dir)
        return translator.with_options(on_too_long="blank").translate(lines)

    kinds = (PretrainedVectors, InitialWeights, Interpolation, TensorBoard, TranslationScore, Examples)
    makers: dict[str, Callable[[], Callback]] = {kind.implements: kind for kind in kinds}
    makers[Replay.implements] = partial(Replay, translate_by_initial_model)
    return [*(makers[key]() for key in keys_of_callbacks(config)), DrawCurves()]


def finetuning_table(run: Run, *, data_dir: Path = Path("data")) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns rows with the losses of a fine-tuned run's validations, and BLEU before and after fine-tuning.

    Also returns a verdict on each text that has too few lines for its BLEU to show a difference. The run has
    `training.extra_valid`. Raises DataError, and as `Translator` does.
    """
    from transformer_cli.adapters.finetuning.interpolation import INITIAL_VALIDATION, forgetting_table
    from transformer_cli.adapters.study.statistics import paired_verdict
    from transformer_cli.compute.devices import choose_device
    from transformer_cli.runs.checkpoints import load_validation_weights
    from transformer_cli.search.decoder import TransformerEngine

    device = run.config.training.device
    # Not those of the initial run, which may have been deleted or trained further
    weights = load_validation_weights(run, INITIAL_VALIDATION).to(choose_device(device)).eval()
    initial = translate.Translator([run], TransformerEngine([weights]), ["initial"], Terminology())
    data, names = run.config.data, ("the initial model", "the final one")
    judge = partial(paired_verdict, names, language=data.output_language, lowercase=data.lowercased)
    return forgetting_table(run, initial, Translator(run, device), data_dir=data_dir, judge=judge)


def read_glossary(path: Path | None, data: DataConfig) -> dict[str, str]:
    """Returns the entries of a glossary file for `Translator.with_options`; {} if path is None.

    path: a TBX or a table. data: says the source and the target language. Warns of skipped entries. Raises DataError.
    """
    if path is None:
        return {}
    from transformer_cli.adapters.corpora.termbases import read_terms
    from transformer_cli.adapters.terminology.glossary import merge_entries

    return merge_entries(read_terms(path, data))


class Translator(translate.Translator):
    """Translates with a trained or exported run, or with an ensemble of several runs."""

    def __init__(
        self,
        run: str | Path | Run | None = None,
        device: str = "auto",
        *,
        others: str | Path | Run | Iterable[str | Path | Run] = (),
        runs_dir: Path = Path("runs"),
    ) -> None:
        """Loads the checkpoint with the best validation loss. Raises CheckpointError, DeviceError.

        run: a name under runs_dir, a folder (an exported one, too), an opened run, or None for the newest run. device:
        auto, cpu, cuda or cuda:N. others: further runs, which form an ensemble with the first one. Raises ConfigError
        if their codecs differ, or if one of them is exported.
        """
        runs = [Run.load(each, runs_dir) for each in (run, *as_list(others))]
        for each in runs:
            each.warn_if_tokenizer_changed()
        super().__init__(runs, *_open_engine(runs, device), hook=Terminology())

    def translate_html(self, html: str) -> str:
        """Returns an HTML page, or a fragment of one, with its text translated sentence by sentence.

        Raises DataError for a word that is too long, and ConfigError for options that work on one sentence only.
        """
        from transformer_cli.adapters.documents.translate import translate_html

        return translate_html(self, html)

    def translate_file(self, content: bytes, file_format: str) -> "TranslatedFile":
        """Returns a document with its text translated, counts, warnings, and each text with what to check in it.

        file_format: a key of FORMATS. Raises DataError if the file is not in this format or is of other languages, and
        as `translate_html` does.
        """
        from transformer_cli.adapters.documents.translate import translate_file

        return translate_file(self, content, file_format)


def _as_translator(run: RunLike | None, device: str = "auto") -> translate.Translator:
    """Returns a given translator, or one for a run, which is named as in `Translator(…)`."""
    return run if isinstance(run, translate.Translator) else Translator(run, device)


def _open_engine(runs: Sequence[Run], device: str) -> tuple[Engine, list[str]]:
    """Returns the engine of runs, and the names of their checkpoints. Warns if a model's losses have changed."""
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
    splits: str | Iterable[str] = (),
    *,
    others: str | Path | Run | Iterable[str | Path | Run] = (),
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
    """Evaluates a run's best checkpoint on splits of its dataset (by default every test set), on files or on lists.

    run: a name under runs_dir, a folder (an exported one, too), an opened run, a Translator, or None for the newest
    run. others: further runs, which form an ensemble with it. files: a file of sentences and one or several files of
    references; the loss uses the first. lists: the same as lists of str. settings: how to translate (None: as in the
    run's config or the Translator); lines that are too long are truncated. lowercase: ignore case in scores; always
    done for lower-cased runs. metrics: further ones, "chrf++" or "ter". save_result: append the results to the run's
    evaluations.jsonl, if it can be written.
    Returns one result for each text. Raises CheckpointError, ConfigError or DataError.
    """
    check_list("files", files or ())
    check_list("lists", lists or ())
    lists = lists and [*lists]
    for number, each in enumerate(lists or ()):
        check_list(f"lists, item {number}", each)
    metrics = parse_metrics(metrics)
    if isinstance(run, translate.Translator) and others:
        raise ConfigError("others: cannot be added to a Translator; make one of all runs, Translator(run, others=…)")
    opened = run.run if isinstance(run, translate.Translator) else Run.load(run, runs_dir)
    texts = scoring.select_texts(
        opened.config.data, splits=as_list(splits), files=files, lists=lists, data_dir=Path(data_dir)
    )
    if files is not None or lists is not None:
        from transformer_cli.adapters.corpora.notices import warn_of_scored_text

        warn_of_scored_text(texts[0], (opened.config.data.input_language, opened.config.data.output_language))
    if isinstance(run, translate.Translator):
        translator = run
    else:
        translator = Translator(opened, device, others=others, runs_dir=runs_dir)
    if settings:
        translator = translator.with_options(**dict(settings))
    names = files or (() if lists is None else ["lists"])
    return scoring.evaluate(
        translator, texts, lowercase=lowercase, metrics=metrics, save_result=save_result, files=names
    )


def score_pairs(
    run: RunLike | None,
    pairs: Iterable[Sequence[str]],
    targets: Sequence[str] | None = None,
    *,
    names: tuple[str, str] = ("source", "target"),
) -> Iterator[LineScore]:
    """Yields the score of each (sentence, translation) pair, and logs the perplexity of all.

    run: a name or folder, an opened run, a Translator, or None for the newest run. pairs: read lazily; with targets,
    the sources alone. names: of the two sides, in errors. Unknown words are scored as <unk>; a warning counts them.
    Raises DataError for a line longer than the model's maximum length.
    """
    check_list("pairs", pairs, "pairs" if targets is None else "str")
    if targets is not None:
        check_list("targets", targets)
        sources, translations = list[Any](pairs), [*targets]
        if len(sources) != len(translations):
            counts = f"{pluralize(len(sources), 'source')} and {pluralize(len(translations), 'target')}"
            raise ArgumentError(f"score_pairs: {counts}; give as many")
        pairs = zip(sources, translations, strict=True)
    yield from scoring.score_pairs(_as_translator(run), pairs, names=names)


def compare(
    systems: RunLike | Iterable[RunLike] | Mapping[str, RunLike],
    options: "CompareOptions | None" = None,
    *,
    examples: int = 3,
) -> "list[Comparison[PairedScore]]":
    """Compares the first of these runs or files of translations with each of the others; one result per text.

    systems: a list, or a mapping from names to them. options: None for those of `CompareOptions()`. examples: number of
    example sentences for each pair of systems. Scores of runs are appended to their evaluations.jsonl. Raises
    CheckpointError or DataError.
    """
    from transformer_cli.adapters.study import compare as comparing

    return comparing.compare(systems, options or comparing.CompareOptions(), _as_translator, examples=examples)


def compare_groups(
    groups: Iterable[RunLike | Iterable[RunLike]] | Mapping[str, RunLike | Iterable[RunLike]],
    options: "CompareOptions | None" = None,
) -> "list[Comparison[GroupScore]]":
    """Compares the first training recipe with each of the others; one result per text.

    groups: for each recipe at least two runs (or files), all different; or a mapping from names to such groups.
    options: as in `compare`. Scores of runs are appended to their evaluations.jsonl. Raises CheckpointError or
    DataError.
    """
    from transformer_cli.adapters.study import compare as comparing

    return comparing.compare_groups(groups, options or comparing.CompareOptions(), _as_translator)


def inspect_sentence(run: RunLike | None, sentence: str) -> "Inspection":
    """Translates a sentence, and returns attention weights and vectors of the model.

    run: a name or folder, an opened run, a Translator, or None for the newest run. Raises DataError if the sentence is
    blank or longer than the model's maximum length.
    """
    from transformer_cli.adapters.study.inspection import inspect_translation

    translator = _as_translator(run)
    return inspect_translation(translator, *translator.translate_detailed([sentence]))
