"""compare(systems): which of several translations of the same text is better, and whether that is more than chance.

`compare` judges single runs or files: sets of weights. `compare_recipes` judges several runs of each recipe. All
systems are judged on the same text.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Generic, Literal

from transformer_cli.config.load import settings_by_key
from transformer_cli.config.schema import DecodingConfig
from transformer_cli.config.yamltext import as_line
from transformer_cli.errors import CheckpointError, DataError
from transformer_cli.evaluation.evaluate import ParallelText, read_splits, read_text
from transformer_cli.evaluation.metrics import METRICS, further_metrics, sentence_chrf, text_metrics, warn_of_form
from transformer_cli.evaluation.statistics import (
    ByMetric,
    Difference,
    PairedScore,
    RecipeDifference,
    RecipeScore,
    Score,
    paired_tests,
    recipe_scores,
    verdicts,
)
from transformer_cli.runs.listing import differing_settings
from transformer_cli.runs.run import Run, find_run
from transformer_cli.system.terminal import counted, note
from transformer_cli.text.lines import read_lines
from transformer_cli.translator import Translator

log = logging.getLogger(__name__)

BY_CHANCE = ("training.seed", "training.device", "training.lanes")  # in which the runs of a recipe may differ


@dataclass(frozen=True)
class Conditions:
    """On what text systems are compared, and how it is scored."""

    splits: Sequence[str] = ()
    """splits of the first run's dataset; by default every test set"""
    sources: Path | None = None
    """a file of sentences; runs need it if `references` is set"""
    references: Sequence[Path] = ()
    """their reference translations, one file or several; with them, `splits` are not read"""
    lowercase: bool = False
    """score without case; this happens by itself if a run is lower-cased"""
    language: str | None = None
    """the language of the translations, for sacreBLEU's tokeniser; by default the runs', or en"""
    metrics: str | Sequence[str] = ()
    """which of "chrf++" and "ter" to find, too; the verdicts are by BLEU and chrF alone"""
    beam_size: int | None = None
    """how all runs search (None: each as its own config says)"""
    device: str = "auto"
    data_dir: Path = Path("data")
    runs_dir: Path = Path("runs")


@dataclass(frozen=True)
class Outputs:
    """A text, what each system wrote for it, and how that is scored."""

    text: ParallelText
    systems: Sequence[Sequence[str]]
    searches: Sequence[str | None]
    """how each of them searched; None for a file"""
    language: str
    lowercase: bool


@dataclass(frozen=True)
class Example:
    """A sentence that two systems translate differently."""

    line: int
    """from 1"""
    source: str | None
    reference: str
    translations: tuple[str, str]
    """the first system's and the other's"""
    chrf: tuple[float, float]
    """of these translations"""


@dataclass(frozen=True)
class System(Generic[Score]):
    """How a system or a recipe did, alone and beside the first one."""

    name: str
    """the run, or the file; of a recipe its runs, with commas between them"""
    bleu: Score
    chrf: Score
    further: dict[str, Score] = field(default_factory=dict)
    """chrF++ and TER, by "chrf++" and "ter", as far as they were asked for"""
    verdict: str | None = None
    """None for the first one"""
    examples: list[Example] = field(default_factory=list)
    """the sentences whose chrF differs most from the first system's, the largest difference first"""
    search: str | None = None
    """how it searched, such as "beam 6, length penalty 1"; None for files"""

    @property
    def scores(self) -> dict[str, Score]:
        """All of its scores, by the names of the metrics."""
        return dict(zip(METRICS, (self.bleu, self.chrf), strict=True)) | self.further


@dataclass(frozen=True)
class Comparison(Generic[Score]):
    """Systems or recipes on the same text. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    judges: Literal["weights", "recipes"]
    """weights are one run each of some recipes, which are not judged"""
    signatures: dict[str, list[str]]
    """sacreBLEU's, by metric; of systems those of the bootstrap and of approximate randomisation"""
    systems: list[System[Score]]
    """`recipes` in JSON, if these are judged"""


def compare(
    names: Sequence[str], conditions: Conditions = Conditions(), *, examples: int = 3
) -> list[Comparison[PairedScore]]:
    """Compare the first of these runs or files of translations with each other one; returns one result per text.

    examples: how many sentences are shown of each pair. Raises CheckpointError or DataError.
    """
    further, opened = further_metrics(conditions.metrics), _open_all(names, conditions.runs_dir)
    comparisons = []
    for written in _translate_all(names, opened, conditions):
        text, systems, lowercase = written.text, written.systems, written.lowercase
        note(f"{text.name}: testing whether chance explains the differences")
        tests = paired_tests(systems, *text.references, language=written.language, lowercase=lowercase, further=further)
        n_sentences = len(text.references[0])
        single = [sentence_chrf(lines, *text.references, lowercase=lowercase) if examples else [] for lines in systems]
        comparison = _comparison(
            text,
            names,
            tests,
            written.searches,
            judges=[counted(n_sentences, "sentence")] * (len(names) - 1),
            # The sentences can be exchanged between two systems in 2^n ways, of which two make the difference that was
            # found, or its mirror image. sacreBLEU counts larger ones only: of three it may print p = 0.0001, not 0.25.
            least_p=2.0 ** (1 - n_sentences),
            examples=[_examples(text, systems, single, index)[:examples] for index in range(len(names))],
        )
        comparisons.append(comparison)
    return comparisons


def compare_recipes(
    recipes: Sequence[Sequence[str]], conditions: Conditions = Conditions()
) -> list[Comparison[RecipeScore]]:
    """Compare the first recipe with each other one, by the scores of the runs (or files) of each; one result per text.

    recipes: at least two runs of each, all different. Raises CheckpointError or DataError.
    """
    names = [name for runs in recipes for name in runs]
    if few := next((runs for runs in recipes if len(runs) < 2), None):
        raise DataError(f"{few[0]}: one run has no spread; name at least two runs of each recipe, or one of each")
    further, opened = further_metrics(conditions.metrics), _open_all(names, conditions.runs_dir)
    _check_recipes(recipes, dict(zip(names, opened, strict=True)))
    comparisons = []
    for written in _translate_all(names, opened, conditions):
        case, references = written.lowercase, written.text.references
        metrics = text_metrics(language=written.language, lowercase=case, references=references, further=further)
        tests = {}
        for name, metric in metrics.items():
            scores = iter([float(metric.corpus_score(lines, None).score) for lines in written.systems])
            found = recipe_scores([list(islice(scores, len(runs))) for runs in recipes])
            tests[name] = ByMetric([str(metric.get_signature())], found)
        joined = [",".join(runs) for runs in recipes]
        judges = [f"{len(recipes[0])} and {len(runs)} runs" for runs in recipes[1:]]
        of_runs = iter(written.searches)
        searches = [" / ".join(dict.fromkeys(filter(None, islice(of_runs, len(runs))))) or None for runs in recipes]
        comparisons.append(_comparison(written.text, joined, tests, searches, judges=judges))
    return comparisons


def _comparison(
    text: ParallelText,
    names: Sequence[str],
    tests: Mapping[str, ByMetric[Score]],
    searches: Sequence[str | None],
    *,
    judges: Sequence[str],
    least_p: float = 0.0,
    examples: Sequence[list[Example]] | None = None,
) -> Comparison[Score]:
    """Returns what tests by all metrics say of systems; of recipes, which have no examples. judges, least_p: see
    `verdicts`."""
    differences: list[list[Difference | RecipeDifference]] = [
        [each.difference for each in tests[metric].scores if each.difference] for metric in METRICS
    ]
    said = [None, *verdicts(names, *differences, judges=judges, least_p=least_p)]
    systems = []
    for row, name in enumerate(names):
        scores = {metric: found.scores[row] for metric, found in tests.items()}
        bleu, chrf = (scores.pop(metric) for metric in METRICS)
        shown = examples[row] if examples else []
        systems.append(System(name, bleu, chrf, scores, said[row], shown, searches[row]))
    signatures = {metric: found.signatures for metric, found in tests.items()}
    judged: Literal["weights", "recipes"] = "recipes" if examples is None else "weights"
    return Comparison(text.name, len(text.references[0]), judged, signatures, systems)


def _examples(
    text: ParallelText, systems: Sequence[Sequence[str]], single: Sequence[Sequence[float]], index: int
) -> list[Example]:
    """Returns the sentences whose chrF differs between the first system and number `index`, largest difference first.

    single: the chrF of each sentence of each system.
    """
    before, after = single[0], single[index]
    rows = [row for row in range(len(before)) if before[row] != after[row]]
    rows.sort(key=lambda row: -abs(after[row] - before[row]))
    return [
        Example(
            row + 1,
            text.sources[row] if text.sources else None,
            text.references[0][row],
            (systems[0][row], systems[index][row]),
            (before[row], after[row]),
        )
        for row in rows
    ]


def _translate_all(names: Sequence[str], systems: Sequence[Run | Path], conditions: Conditions) -> list[Outputs]:
    """Returns for each text what the systems of these names write: one line for each line of the text.

    systems: runs, each with its own decoding settings, or files of translations. Raises CheckpointError or DataError.
    """
    runs = {name: system for name, system in zip(names, systems, strict=True) if not isinstance(system, Path)}
    pairs = {name: f"{run.config.data.source}→{run.config.data.into}" for name, run in runs.items()}
    if len(set(pairs.values())) > 1:
        found = ", ".join(f"{name} {pair}" for name, pair in pairs.items())
        raise DataError(f"runs of different languages cannot be compared: {found}; name runs of one pair of languages")
    if conditions.beam_size and not runs:
        raise DataError("--beam-size is about runs, and all of these are files; leave it out")
    lowered = [name for name, run in runs.items() if run.config.data.lowercased]
    if lowered and len(lowered) < len(set(names)):
        log.info("%s: lower-cased, so all are scored without case", ", ".join(lowered))
    decoding = {
        name: run.config.decoding.model_copy(
            update={"beam_size": conditions.beam_size or run.config.decoding.beam_size}
        )
        for name, run in runs.items()
    }
    searches = {name: search_in_words(each) for name, each in decoding.items()}
    if len(set(searches.values())) > 1:
        found = "; ".join(f"{name}: {search}" for name, search in searches.items())
        log.warning("the runs search in different ways, which are compared too (%s); --beam-size makes them one", found)
    texts = _texts(list(runs.values()), conditions)
    if len(texts) > 1 and len(runs) < len(set(names)):
        among = ", ".join(text.name for text in texts)
        raise DataError(f"files hold the translations of one text, but there are {among}; choose one with --split")
    files_first = sorted(range(len(systems)), key=lambda number: not isinstance(systems[number], Path))
    lines_of = {
        number: _write(systems[number], texts, conditions) for number in files_first
    }  # what is wrong is told soon
    written = [lines_of[number] for number in range(len(systems))]
    language = conditions.language or next((run.config.data.into for run in runs.values()), "en")
    for name, of_system in zip(names, written, strict=True):
        for each, lines in zip(texts, of_system, strict=True):
            warn_of_form(lines, each.references[0], name if len(texts) == 1 else f"{name}, {each.name}", language)
    return [
        Outputs(text, lines, [*map(searches.get, names)], language, conditions.lowercase or bool(lowered))
        for text, lines in zip(texts, zip(*written, strict=True), strict=True)
    ]


def _check_recipes(recipes: Sequence[Sequence[str]], systems: Mapping[str, Run | Path]) -> None:
    """Say what makes the spread of a recipe's runs mean less. Raises DataError for the same weights under two names.

    Runs of a recipe differ by chance, which is another seed. A copy of a run adds none, and another setting adds more.
    """
    weights: dict[str, str] = {}
    for name, run in systems.items():
        if isinstance(run, Run):
            other = weights.setdefault(run.sum_of_weights, name)
            if other != name:
                raise DataError(f"{name}: has the weights of {other}, so they are one run; name runs of other seeds")
    for names in recipes:
        settings = {name: settings_by_key(run.config) for name in names if isinstance(run := systems[name], Run)}
        of_seed: dict[int, list[str]] = {}
        for name, values in settings.items():
            of_seed.setdefault(values["training.seed"], []).append(name)
        for seed, alike in of_seed.items():
            if len(alike) > 1:
                what = "%s: the same training.seed, %d; their spread says little of what another seed does"
                log.warning(what, ", ".join(alike), seed)
        for key in differing_settings(list(settings.values())):
            if key not in BY_CHANCE:
                each = ", ".join(f"{name} {as_line(found[key])}" for name, found in settings.items())
                log.warning("%s differs within a recipe: %s; so their spread is not of chance alone", key, each)


def _open_all(names: Sequence[str], runs_dir: Path) -> list[Run | Path]:
    """Returns each run, or the path of each file. Raises DataError for one that is named twice."""
    places = [(runs_dir / name if (runs_dir / name).is_dir() else Path(name)).resolve() for name in names]
    if twice := next((name for name, place in zip(names, places, strict=True) if places.count(place) > 1), None):
        raise DataError(f"{twice}: named twice; name different runs or files")
    return [_open(name, runs_dir) for name in names]


def _open(name: str, runs_dir: Path) -> Run | Path:
    path = Path(name)
    if path.exists() and not path.is_dir() and not (runs_dir / name).is_dir():
        return path  # a file, or a pipe
    try:
        return Run.open(find_run(name, runs_dir))
    except CheckpointError as error:
        if path.exists() or (runs_dir / name).exists():
            raise
        raise CheckpointError(f"{error}; and there is no file {name}") from None


def _texts(runs: Sequence[Run], conditions: Conditions) -> list[ParallelText]:
    """Returns what is translated.

    A warning names a run whose own dataset has other text under the same name: it may have learned from what judges it.
    """
    if conditions.references:
        if runs and not conditions.sources:
            raise DataError(f"{runs[0].folder}: a run needs sentences to translate; name their file with --input")
        return [read_text(conditions.sources, *conditions.references)]
    if conditions.sources:
        raise DataError(f"{conditions.sources}: sentences to translate need their references; name their file, too")
    if not runs:
        raise DataError("files of translations need a reference: name it with --reference")
    texts = read_splits(runs[0].config.data, conditions.splits, conditions.data_dir)
    for run, text in product(runs[1:], texts):
        with suppress(DataError):  # its dataset is not here, or has no such split
            (own,) = read_splits(run.config.data, [text.name], conditions.data_dir)
            if (own.sources, own.references) != (text.sources, text.references):
                what = "%s: in its own dataset, %s is another text; make sure that it was not trained on this one"
                log.warning(what, run.folder, text.name)
    return texts


def search_in_words(decoding: DecodingConfig) -> str:
    """Returns how a run searches: "greedy", "beam 6, length penalty 1" or "samples", with what else is not usual."""
    words = "samples" if decoding.sample else "greedy"
    if decoding.beam_size > 1:
        words = f"beam {decoding.beam_size}, length penalty {decoding.length_penalty:g}"
    return words + (f", no {decoding.no_repeat_ngram} tokens twice" if decoding.no_repeat_ngram else "")


def _write(system: Run | Path, texts: Sequence[ParallelText], conditions: Conditions) -> list[list[str]]:
    """Returns the lines that a system has for each text."""
    if isinstance(system, Path):
        lines, references = list(read_lines(system)), texts[0].references[0]
        if len(lines) != len(references):
            where, found = (
                conditions.references[0] if conditions.references else texts[0].name,
                counted(len(lines), "line"),
            )
            raise DataError(f"{system} has {found}, {where} has {len(references)}; line n must translate line n")
        return [lines]
    beam = {} if conditions.beam_size is None else {"beam_size": conditions.beam_size}
    translator, written = Translator(system, conditions.device).with_options(on_error="truncate", **beam), []
    for text in texts:
        translations = translator.translations(text.sources)
        if n_long := sum(each.was_too_long for each in translations):
            log.warning("%s: %s: %s too long: cut", system.folder, text.name, counted(n_long, "sentence"))
        written.append([each.text for each in translations])
    return written
