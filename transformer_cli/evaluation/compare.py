"""compare(systems): which of several translations of the same text is better, and whether that is more than chance.

`compare` judges single runs or files: sets of weights. `compare_recipes` judges several runs of each recipe. All
systems are judged on the same text.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from transformer_cli.config.load import settings_by_key
from transformer_cli.config.yamltext import as_line
from transformer_cli.errors import CheckpointError, DataError
from transformer_cli.evaluation.evaluate import ParallelText, keep, read_splits, read_text, what_translates
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
from transformer_cli.runs.run import Run
from transformer_cli.system.arguments import as_list, check, checked
from transformer_cli.system.terminal import counted, note
from transformer_cli.text.lines import read_lines
from transformer_cli.translator import AnyRun, Translator

log = logging.getLogger(__name__)

Opened = Run | Translator | Path
"""a system: one that translates, or the file of its translations"""
Item = TypeVar("Item")

BY_CHANCE = ("training.seed", "training.device", "training.lanes")  # in which the runs of a recipe may differ


@dataclass(frozen=True)
class Conditions:
    """On what text systems are compared, and how it is scored."""

    splits: str | Iterable[str] = ()
    """splits of the first run's dataset; by default every test set"""
    sources: str | Path | None = None
    """a file of sentences; runs need it if `references` is set"""
    references: str | Path | Iterable[str | Path] = ()
    """their reference translations, one file or several; with them, `splits` are not read"""
    lowercase: bool = False
    """score without case; this happens by itself if a run is lower-cased"""
    language: str | None = None
    """the language of the translations, for sacreBLEU's tokeniser; by default the runs', or en"""
    metrics: str | Iterable[str] = ()
    """which of "chrf++" and "ter" to find, too; the verdicts are by BLEU and chrF alone"""
    beam_size: int | None = None
    """how all runs search (None: each as its own config says)"""
    device: str = "auto"
    data_dir: Path = Path("data")
    runs_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        check(Conditions, vars(self))

    @property
    def reference_files(self) -> list[Path]:
        """`references` as paths."""
        return [*map(Path, as_list(self.references))]


@dataclass(frozen=True)
class Outputs:
    """A text, what each system wrote for it, and how that is scored."""

    text: ParallelText
    systems: Sequence[Sequence[str]]
    runs: Sequence["Written | None"]
    """by what run each of them was written; None for a file"""
    language: str
    lowercase: bool

    @property
    def searches(self) -> list[str | None]:
        """How each of them was searched for; None for a file."""
        return [each.search if each else None for each in self.runs]

    def keep(self, scores: Mapping[str, tuple[Sequence[float], str]]) -> None:
        """Append each run's scores to its evaluations.jsonl. scores: by metric, those of all, and the signature."""
        for row, each in enumerate(self.runs):
            if each:
                found: dict[str, Any] = {"split": self.text.name, "sentences": len(self.text.references[0])}
                for name in METRICS:
                    of_all, signature = scores[name]
                    found |= {name.lower(): of_all[row], f"{name.lower()}_signature": signature}
                keep(each.run, {**each.by, **found}, self.text, each.device)


@dataclass(frozen=True)
class Written:
    """How a run wrote its translations."""

    run: Run
    search: str
    """in words"""
    by: Mapping[str, Any]
    """as evaluations.jsonl has it"""
    device: str


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
    """the run, or the file; of a recipe its runs, with commas between them; or what the caller calls it"""
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


@checked
def compare(
    systems: AnyRun | Iterable[AnyRun] | Mapping[str, AnyRun],
    conditions: Conditions = Conditions(),
    *,
    examples: int = 3,
) -> list[Comparison[PairedScore]]:
    """Compare the first of these runs or files of translations with each other one; returns one result per text.

    systems: a mapping gives each a name. examples: how many sentences are shown of each pair. The scores of runs are
    appended to their evaluations.jsonl. Raises CheckpointError or DataError.
    """
    names, given = _named(systems)
    further, opened = further_metrics(conditions.metrics), _open_all(given, conditions.runs_dir)
    comparisons = []
    for written in _translate_all(names, opened, conditions):
        text, lines, lowercase = written.text, written.systems, written.lowercase
        note(f"{text.name}: testing whether chance explains the differences")
        tests = paired_tests(lines, *text.references, language=written.language, lowercase=lowercase, further=further)
        written.keep({name: ([one.score for one in by.scores], by.signatures[0]) for name, by in tests.items()})
        n_sentences = len(text.references[0])
        single = [sentence_chrf(each, *text.references, lowercase=lowercase) if examples else [] for each in lines]
        comparison = _comparison(
            text,
            names,
            tests,
            written.searches,
            judges=[counted(n_sentences, "sentence")] * (len(names) - 1),
            # The sentences can be exchanged between two systems in 2^n ways, of which two make the difference that was
            # found, or its mirror image. sacreBLEU counts larger ones only: of three it may print p = 0.0001, not 0.25.
            least_p=2.0 ** (1 - n_sentences),
            examples=[_examples(text, lines, single, index)[:examples] for index in range(len(names))],
        )
        comparisons.append(comparison)
    return comparisons


@checked
def compare_recipes(
    recipes: Iterable[Iterable[AnyRun]] | Mapping[str, Iterable[AnyRun]], conditions: Conditions = Conditions()
) -> list[Comparison[RecipeScore]]:
    """Compare the first recipe with each other one, by the scores of the runs (or files) of each; one result per text.

    recipes: at least two runs of each, all different; a mapping gives each recipe a name. The scores of runs are
    appended to their evaluations.jsonl. Raises CheckpointError or DataError.
    """
    of_recipes = [_named(runs) for runs in (recipes.values() if isinstance(recipes, Mapping) else recipes)]
    joined = [*recipes] if isinstance(recipes, Mapping) else [",".join(runs) for runs, _ in of_recipes]
    sizes = [len(runs) for runs, _ in of_recipes]
    names = [name for runs, _ in of_recipes for name in runs]
    if few := next((runs for runs, _ in of_recipes if len(runs) < 2), None):
        what = "one run has no spread; name at least two runs of each recipe, or one of each"
        raise DataError(f"{''.join(few) or 'a recipe without a run'}: {what}")
    given = [each for _, runs in of_recipes for each in runs]
    further, opened = further_metrics(conditions.metrics), _open_all(given, conditions.runs_dir)
    _check_recipes([runs for runs, _ in of_recipes], dict(zip(names, map(_run_of, opened), strict=True)))
    comparisons = []
    for written in _translate_all(names, opened, conditions):
        case, references = written.lowercase, written.text.references
        metrics = text_metrics(language=written.language, lowercase=case, references=references, further=further)
        tests, kept = {}, {}
        for name, metric in metrics.items():
            scores = [float(metric.corpus_score(lines, None).score) for lines in written.systems]
            kept[name] = scores, str(metric.get_signature())
            tests[name] = ByMetric([kept[name][1]], recipe_scores(_split(scores, sizes)))
        written.keep(kept)
        judges = [f"{sizes[0]} and {size} runs" for size in sizes[1:]]
        searches = [" / ".join(dict.fromkeys(filter(None, each))) or None for each in _split(written.searches, sizes)]
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


def _named(systems: AnyRun | Iterable[AnyRun] | Mapping[str, AnyRun]) -> tuple[list[str], list[AnyRun]]:
    """Returns what systems are called, and the systems."""
    if isinstance(systems, Mapping):
        return [*systems], [*systems.values()]
    given = as_list(systems)
    runs = [each.run if isinstance(each, Translator) else each for each in given]
    return [str(each.folder if isinstance(each, Run) else each) for each in runs], given


def _split(values: Sequence[Item], sizes: Sequence[int]) -> list[list[Item]]:
    """Returns the values of each recipe. For example, a, b, c of sizes 2 and 1 are [a, b] and [c]."""
    left = iter(values)
    return [[*islice(left, size)] for size in sizes]


def _run_of(system: Opened) -> Run | None:
    return system.run if isinstance(system, Translator) else system if isinstance(system, Run) else None


def _translate_all(names: Sequence[str], systems: Sequence[Opened], conditions: Conditions) -> list[Outputs]:
    """Returns for each text what the systems of these names write: one line for each line of the text.

    systems: runs, each with its own decoding settings, or files of translations. Raises CheckpointError or DataError.
    """
    runs = [(name, run) for name, run in zip(names, map(_run_of, systems), strict=True) if run]
    pairs = {name: f"{run.config.data.source}→{run.config.data.into}" for name, run in runs}
    if len(set(pairs.values())) > 1:
        found = ", ".join(f"{name} {pair}" for name, pair in pairs.items())
        raise DataError(f"runs of different languages cannot be compared: {found}; name runs of one pair of languages")
    if conditions.beam_size and not runs:
        raise DataError("--beam-size is about runs, and all of these are files; leave it out")
    lowered = [name for name, run in runs if run.config.data.lowercased]
    if lowered and len(lowered) < len(names):
        log.info("%s: lower-cased, so all are scored without case", ", ".join(dict.fromkeys(lowered)))
    beam = _beam(conditions)
    searches = {
        name: (each.settings if isinstance(each, Translator) else each.config.decoding).model_copy(update=beam).in_words
        for name, each in zip(names, systems, strict=True)
        if not isinstance(each, Path)
    }
    if len(set(searches.values())) > 1:
        found = "; ".join(f"{name}: {search}" for name, search in searches.items())
        log.warning("the runs search in different ways, which are compared too (%s); --beam-size makes them one", found)
    texts = _texts([run for _, run in runs], conditions)
    if len(texts) > 1 and len(runs) < len(names):
        among = ", ".join(text.name for text in texts)
        raise DataError(f"files hold the translations of one text, but there are {among}; choose one with --split")
    files_first = sorted(range(len(systems)), key=lambda number: not isinstance(systems[number], Path))
    of = {number: _write(systems[number], texts, conditions) for number in files_first}  # what is wrong is told soon
    written, by = zip(*(of[number] for number in range(len(systems))), strict=True)
    language = conditions.language or next((run.config.data.into for _, run in runs), "en")
    for name, of_system in zip(names, written, strict=True):
        for each, lines in zip(texts, of_system, strict=True):
            warn_of_form(lines, each.references[0], name if len(texts) == 1 else f"{name}, {each.name}", language)
    return [
        Outputs(text, lines, by, language, conditions.lowercase or bool(lowered))
        for text, lines in zip(texts, zip(*written, strict=True), strict=True)
    ]


def _check_recipes(recipes: Sequence[Sequence[str]], systems: Mapping[str, Run | None]) -> None:
    """Say what makes the spread of a recipe's runs mean less. Raises DataError for the same weights under two names.

    Runs of a recipe differ by chance, which is another seed. A copy of a run adds none, and another setting adds more.
    """
    weights: dict[str, str] = {}
    for name, run in systems.items():
        if run:
            other = weights.setdefault(run.sum_of_weights, name)
            if other != name:
                raise DataError(f"{name}: has the weights of {other}, so they are one run; name runs of other seeds")
    for names in recipes:
        settings = {name: settings_by_key(run.config) for name in names if (run := systems[name])}
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


def _open_all(systems: Sequence[AnyRun], runs_dir: Path) -> list[Opened]:
    """Returns runs, and the paths of files. Raises DataError for what is named twice, by one name or by two."""
    named = [each for each in systems if isinstance(each, str | Path)]
    places = [(runs_dir / each if (runs_dir / each).is_dir() else Path(each)).resolve() for each in named]
    if twice := next((each for each, place in zip(named, places, strict=True) if places.count(place) > 1), None):
        raise DataError(f"{twice}: named twice; name different runs or files")
    return [_open(each, runs_dir) for each in systems]


def _open(system: AnyRun, runs_dir: Path) -> Opened:
    if isinstance(system, Translator | Run):
        return system
    path = Path(system)
    if path.exists() and not path.is_dir() and not (runs_dir / system).is_dir():
        return path  # a file, or a pipe
    try:
        return Run.named(system, runs_dir)
    except CheckpointError as error:
        if path.exists() or (runs_dir / system).exists():
            raise
        raise CheckpointError(f"{error}; and there is no file {system}") from None


def _texts(runs: Sequence[Run], conditions: Conditions) -> list[ParallelText]:
    """Returns what is translated.

    A warning names a run whose own dataset has other text under the same name: it may have learned from what judges it.
    """
    if references := conditions.reference_files:
        if runs and not conditions.sources:
            raise DataError(f"{runs[0].folder}: a run needs sentences to translate; name their file with --input")
        return [read_text(Path(conditions.sources) if conditions.sources else None, *references)]
    if conditions.sources:
        raise DataError(f"{conditions.sources}: sentences to translate need their references; name their file, too")
    if not runs:
        raise DataError("files of translations need a reference: name it with --reference")
    texts = read_splits(runs[0].config.data, as_list(conditions.splits), conditions.data_dir)
    for run, text in product(runs[1:], texts):
        with suppress(DataError):  # its dataset is not here, or has no such split
            (own,) = read_splits(run.config.data, [text.name], conditions.data_dir)
            if (own.sources, own.references) != (text.sources, text.references):
                what = "%s: in its own dataset, %s is another text; make sure that it was not trained on this one"
                log.warning(what, run.folder, text.name)
    return texts


def _write(
    system: Opened, texts: Sequence[ParallelText], conditions: Conditions
) -> tuple[list[list[str]], Written | None]:
    """Returns the lines that a system has for each text, and how it wrote them; None for a file."""
    if isinstance(system, Path):
        lines, n_references = list(read_lines(system)), len(texts[0].references[0])
        if len(lines) != n_references:
            where = next(iter(conditions.reference_files), texts[0].name)
            found = f"{system} has {counted(len(lines), 'line')}, {where} has {n_references}"
            raise DataError(f"{found}; line n must translate line n")
        return [lines], None
    translator = Translator.of(system, conditions.device).with_options(on_error="truncate", **_beam(conditions))
    written = []
    for text in texts:
        translations = translator.translations(text.sources)
        if n_long := sum(each.was_too_long for each in translations):
            log.warning("%s: %s: %s too long: cut", translator.run.folder, text.name, counted(n_long, "sentence"))
        written.append([each.text for each in translations])
    given = [conditions.sources, *conditions.reference_files] if conditions.sources else []
    how = {**what_translates(translator), "files": [*map(str, given)] or None}
    return written, Written(translator.run, translator.settings.in_words, how, translator.engine.device)


def _beam(conditions: Conditions) -> dict[str, Any]:
    return {} if conditions.beam_size is None else {"beam_size": conditions.beam_size}
