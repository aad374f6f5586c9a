"""compare(systems): which of several translations of the same text is better, and whether that is more than chance.

`compare` judges single runs or files: sets of weights. `compare_recipes` judges several runs of each recipe. All
systems are judged on the same text.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Literal

from transformer_cli.compute.devices import choose_device
from transformer_cli.data.lengths import fits
from transformer_cli.data.lines import read_lines
from transformer_cli.errors import CheckpointError, DataError
from transformer_cli.evaluation.evaluate import ParallelText, read_splits, read_text
from transformer_cli.evaluation.metrics import sentence_chrf, text_metrics
from transformer_cli.evaluation.statistics import PairedScore, RecipeDifference, paired_tests, verdicts, welch
from transformer_cli.runs.exported import Exported, open_any
from transformer_cli.runs.run import Opened, Run, find_run
from transformer_cli.system.terminal import counted, note
from transformer_cli.translator import Options, Translator

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """On what text systems are compared, and how it is scored."""

    splits: Sequence[str] = ()
    """splits of the first run's dataset; by default every test set"""
    sources: Path | None = None
    """a file of sentences; runs need it if `references` is set"""
    references: Path | None = None
    """their reference translations; with them, `splits` are not read"""
    lowercase: bool = False
    """score without case; this happens by itself if a run is lower-cased"""
    language: str | None = None
    """the language of the translations, for sacreBLEU's tokeniser; by default the runs', or en"""
    device: str = "auto"
    data_dir: Path = Path("data")
    runs_dir: Path = Path("runs")


@dataclass(frozen=True)
class Translated:
    """A text, and what each system wrote for it."""

    name: str
    sources: Sequence[str] | None
    references: Sequence[str]
    systems: list[Sequence[str]]
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
class SystemResult:
    """How a system did, alone and beside the first one."""

    name: str
    bleu: PairedScore
    chrf: PairedScore
    verdict: str | None
    """None for the first system, as the next one"""
    examples: list[Example] | None
    """the sentences whose chrF differs most from the first system's, the largest difference first"""


@dataclass(frozen=True)
class Comparison:
    """Systems on the same text. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    bleu_signatures: list[str]
    """sacreBLEU's, of the bootstrap and of approximate randomisation"""
    chrf_signatures: list[str]
    systems: list[SystemResult]
    judges: Literal["weights"] = "weights"
    """not recipes, of which these are one run each"""


@dataclass(frozen=True)
class RecipeScore:
    """The scores of a recipe's runs by one metric, from 0 to 100."""

    scores: list[float]
    mean: float
    standard_deviation: float
    difference: RecipeDifference | None
    """None for the first recipe"""


@dataclass(frozen=True)
class RecipeResult:
    """How the runs of a recipe did, alone and beside the first recipe's."""

    runs: list[str]
    bleu: RecipeScore
    chrf: RecipeScore
    verdict: str | None
    """None for the first recipe"""


@dataclass(frozen=True)
class RecipeComparison:
    """Recipes on the same text, several runs of each. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    bleu_signature: str
    chrf_signature: str
    recipes: list[RecipeResult]
    judges: Literal["recipes"] = "recipes"


def compare(names: Sequence[str], terms: Terms = Terms(), *, examples: int = 3) -> list[Comparison]:
    """Compare the first of these runs or files of translations with each other one; returns one result per text.

    examples: how many sentences are shown of each pair. Raises CheckpointError or DataError.
    """
    if len(names) < 2:
        raise DataError("one system alone cannot be compared; name at least two")
    return [_compare(names, text, examples) for text in _translate_all(names, terms)]


def compare_recipes(recipes: Sequence[Sequence[str]], terms: Terms = Terms()) -> list[RecipeComparison]:
    """Compare the first recipe with each other one, by the scores of the runs (or files) of each; one result per text.

    recipes: at least two runs of each, all different. Raises CheckpointError or DataError.
    """
    names = [name for runs in recipes for name in runs]
    if len(recipes) < 2:
        raise DataError("one recipe alone cannot be compared; name the runs of at least two")
    if few := next((runs for runs in recipes if len(runs) < 2), None):
        raise DataError(f"{few[0]}: one run has no spread; name at least two runs of each recipe, or one of each")
    places = [(terms.runs_dir / name if (terms.runs_dir / name).is_dir() else Path(name)).resolve() for name in names]
    if twice := next((name for name, place in zip(names, places, strict=True) if places.count(place) > 1), None):
        raise DataError(f"{twice}: named twice; the runs must be different ones")
    return [_compare_recipes(recipes, text) for text in _translate_all(names, terms)]


def _compare(names: Sequence[str], text: Translated, n_examples: int) -> Comparison:
    note(f"{text.name}: testing whether chance explains the differences")
    tested = paired_tests(text.systems, text.references, language=text.language, lowercase=text.lowercase)
    single = [
        sentence_chrf(lines, text.references, lowercase=text.lowercase) if n_examples else [] for lines in text.systems
    ]
    scores = list(zip(tested.scores["BLEU"], tested.scores["chrF"], strict=True))
    n_sentences = len(text.references)
    said = verdicts(
        names,
        [(bleu.difference, chrf.difference) for bleu, chrf in scores if bleu.difference and chrf.difference],
        judges=[counted(n_sentences, "sentence")] * (len(names) - 1),
        least_p=_least_p(n_sentences),
    )
    shown = [_examples(text, index, single[0], single[index])[:n_examples] for index in range(1, len(names))]
    systems = [
        SystemResult(*each)
        for each in zip(names, *zip(*scores, strict=True), [None, *said], [None, *shown], strict=True)
    ]
    return Comparison(text.name, len(text.references), tested.signatures["BLEU"], tested.signatures["chrF"], systems)


def _least_p(sentences: int) -> float:
    """Returns the smallest p that so many sentences can show.

    They can be exchanged between two systems in 2^n ways, of which two make the difference that was found, or its
    mirror image. sacreBLEU counts larger differences only: with three sentences it may print p = 0.0001, not 0.25.
    """
    return float(2.0 ** (1 - sentences))


def _examples(text: Translated, index: int, before: Sequence[float], after: Sequence[float]) -> list[Example]:
    """Returns the sentences whose chrF differs between the first system and number `index`, largest difference first.

    before, after: the chrF of each sentence of the two.
    """
    rows = [row for row, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    rows.sort(key=lambda row: -abs(after[row] - before[row]))
    return [
        Example(
            row + 1,
            text.sources[row] if text.sources else None,
            text.references[row],
            (text.systems[0][row], text.systems[index][row]),
            (before[row], after[row]),
        )
        for row in rows
    ]


def _compare_recipes(recipes: Sequence[Sequence[str]], text: Translated) -> RecipeComparison:
    metrics = text_metrics(language=text.language, lowercase=text.lowercase, references=text.references)
    found = []
    for metric in metrics.values():
        scores = iter([float(metric.corpus_score(lines, None).score) for lines in text.systems])
        found.append(_recipe_scores([list(islice(scores, len(runs))) for runs in recipes]))
    bleu, chrf = found
    said = verdicts(
        [",".join(runs) for runs in recipes],
        [
            (one.difference, other.difference)
            for one, other in zip(bleu, chrf, strict=True)
            if one.difference and other.difference
        ],
        judges=[f"{len(recipes[0])} and {len(runs)} runs" for runs in recipes[1:]],
    )
    results = [
        RecipeResult(list(runs), own_bleu, own_chrf, verdict)
        for runs, own_bleu, own_chrf, verdict in zip(recipes, bleu, chrf, [None, *said], strict=True)
    ]
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    return RecipeComparison(text.name, len(text.references), signatures["BLEU"], signatures["chrF"], results)


def _recipe_scores(recipes: Sequence[list[float]]) -> list[RecipeScore]:
    """Returns what the scores of each recipe's runs are together, and beside the first recipe's."""
    return [
        RecipeScore(scores, mean(scores), stdev(scores), welch(scores, recipes[0]) if number else None)
        for number, scores in enumerate(recipes)
    ]


def _translate_all(names: Sequence[str], terms: Terms) -> list[Translated]:
    """Returns for each text what the systems of these names write: one line for each line of the text.

    names: runs (by name or folder), each with its own decoding settings, or files of translations. Raises
    CheckpointError or DataError.
    """
    systems = [_open(name, terms.runs_dir) for name in names]
    runs = {name: system for name, system in zip(names, systems, strict=True) if not isinstance(system, Path)}
    language = _language(runs)
    lowercase = _lowercase(names, runs, terms)
    texts = _texts(list(runs.values()), terms)
    if len(texts) > 1 and any(isinstance(system, Path) for system in systems):
        found = ", ".join(text.name for text in texts)
        raise DataError(f"files hold the translations of one text, but there are {found}; choose one with --split")
    written = [_write(system, texts, terms) for system in systems]
    return [
        Translated(text.name, text.sources or None, text.references, list(lines), terms.language or language, lowercase)
        for text, lines in zip(texts, zip(*written, strict=True), strict=True)
    ]


def _open(name: str, runs_dir: Path) -> Run | Exported | Path:
    path = Path(name)
    if path.exists() and not path.is_dir() and not (runs_dir / name).is_dir():
        return path  # a file, or a pipe
    try:
        return open_any(find_run(name, runs_dir))
    except CheckpointError as error:
        if path.exists() or (runs_dir / name).exists():
            raise
        raise CheckpointError(f"{error}; and there is no file {name}") from None


def _language(runs: Mapping[str, Opened]) -> str:
    """Returns the target language of all runs."""
    pairs = {name: f"{run.config.data.source}→{run.config.data.target}" for name, run in runs.items()}
    if len(set(pairs.values())) > 1:
        found = ", ".join(f"{name} {pair}" for name, pair in pairs.items())
        raise DataError(f"runs of different languages cannot be compared: {found}; name runs of one pair of languages")
    return next((run.config.data.target for run in runs.values()), "en")


def _lowercase(names: Sequence[str], runs: Mapping[str, Opened], terms: Terms) -> bool:
    lowered = [name for name, run in runs.items() if run.config.data.lowercased]
    if lowered and len(lowered) < len(set(names)):
        log.info("%s: lower-cased, so all are scored without case", ", ".join(lowered))
    return terms.lowercase or bool(lowered)


def _texts(runs: Sequence[Opened], terms: Terms) -> list[ParallelText]:
    if terms.references:
        if terms.sources:
            return [read_text(terms.sources, terms.references)]
        if runs:
            raise DataError(f"{runs[0].folder}: a run needs sentences to translate; name their file with --input")
        references = list(read_lines(terms.references))
        if not references:
            raise DataError(f"{terms.references}: empty; name a file with one reference translation per line")
        return [ParallelText(terms.references.name, [], references)]
    if not runs:
        raise DataError("files of translations need a reference: name it with --reference")
    texts = read_splits(runs[0].config.data, terms.splits, terms.data_dir)
    for run in runs[1:]:
        for text in texts:
            _say_other_text(run, text, terms.data_dir)
    return texts


def _say_other_text(run: Opened, text: ParallelText, data_dir: Path) -> None:
    """Warn if a run's own dataset has other text under this name: then it may have learned from what judges it here."""
    try:
        (own,) = read_splits(run.config.data, [text.name], data_dir)
    except DataError:
        return  # the dataset is not here, or has no such split
    if (own.sources, own.references) != (text.sources, text.references):
        what = "%s: in its own dataset, %s is another text; make sure that it was not trained on this one"
        log.warning(what, run.folder, text.name)


def _write(system: Run | Exported | Path, texts: Sequence[ParallelText], terms: Terms) -> list[list[str]]:
    """Returns the lines that a system has for each text."""
    if not isinstance(system, Path):
        translator = Translator(system, choose_device(terms.device))
        return [_translate(translator, text) for text in texts]
    lines, references = list(read_lines(system)), texts[0].references
    if len(lines) != len(references):
        where = terms.references or texts[0].name
        raise DataError(
            f"{system} has {counted(len(lines), 'line')}, {where} has {len(references)}; line n must translate line n"
        )
    return [lines]


def _translate(translator: Translator, text: ParallelText) -> list[str]:
    encoded = [translator.run.codecs.source.encode(line) for line in text.sources]
    limit = translator.max_length
    if n_long := sum(not fits(len(line), limit) for line in encoded):
        log.warning("%s: %s: %s too long: cut", translator.run.folder, text.name, counted(n_long, "sentence"))
    return [each.text for each in translator.translate_encoded(text.sources, encoded, Options(on_error="truncate"))]
