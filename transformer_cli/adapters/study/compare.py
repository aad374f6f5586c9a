"""Compares translations of the same text, and tests whether differences in their scores are due to chance.

`compare` compares single runs or files of translations. `compare_groups` compares groups of runs: each has several runs
of one recipe, which differ in their seeds.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Generic, Literal

from transformer_cli.adapters.corpora.notices import warn_of_scored_text
from transformer_cli.adapters.study import statistics
from transformer_cli.adapters.study.listing import MAX_LISTED_SETTINGS, differing_settings
from transformer_cli.adapters.study.statistics import Difference, GroupDifference, GroupScore, PairedScore, Score
from transformer_cli.config.load import settings_by_key
from transformer_cli.errors import ArgumentError, CheckpointError, DataError
from transformer_cli.runs.folder import is_pointer
from transformer_cli.runs.run import Run
from transformer_cli.scoring.evaluate import (
    ParallelText,
    ResultSink,
    read_splits,
    read_text,
    result_sink,
    warn_of_training_text,
)
from transformer_cli.scoring.metrics import METRICS, nonblank_rows, parse_metrics, text_metrics, warn_about_text
from transformer_cli.system.arguments import as_list
from transformer_cli.system.terminal import first_few, pluralize, shorten, show_status
from transformer_cli.text.lines import read_lines
from transformer_cli.translate import RunLike, Translator

log = logging.getLogger(__name__)

OpenSystem = Run | Translator | Path
"""a run, a translator, or a file of translations"""
OpenRun = Callable[[Run, str], Translator]
"""opens a run on a device"""

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)  # finite
MAY_DIFFER = ("training.seed", "training.device", "training.shards")  # settings in which runs of a group may differ


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """The text to compare systems on, and how to score it."""

    splits: str | Iterable[str] = ()
    """splits of the first run's dataset; by default every test set"""
    sources: str | Path | None = None
    """a file of sentences; runs need it if `references` are given"""
    references: str | Path | Iterable[str | Path] = ()
    """one or several files of reference translations, used instead of `splits`"""
    lowercase: bool = False
    """ignore case; always done if a run is lower-cased"""
    language: str | None = None
    """the language of the translations, for sacreBLEU's tokeniser; by default that of the runs, or en"""
    metrics: str | Iterable[str] = ()
    """metrics to add: "chrf++", "ter"; verdicts use BLEU and chrF only"""
    scores: Mapping[str, str | Path | Iterable[str | Path]] = field(default_factory=dict)
    """other metrics, or ratings: name → a file for each system, with the score of one sentence per line"""
    beam_size: int | None = None
    """the beam size of all runs (None: that of each run's config)"""
    device: str = "auto"
    data_dir: Path = Path("data")
    runs_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        vars(self).update(data_dir=Path(self.data_dir), runs_dir=Path(self.runs_dir))

    @property
    def reference_files(self) -> list[Path]:
        """`references` as paths."""
        return [*map(Path, as_list(self.references))]


@dataclass(frozen=True)
class SystemOutput:
    """The translations of a system."""

    texts: list[list[str]]
    """the lines of each text"""
    search: str | None = None
    """a description of the search; None for a file, like `save`"""
    save: ResultSink | None = None


@dataclass(frozen=True)
class Example:
    """A sentence whose translations by two systems differ."""

    line: int
    """from 1"""
    source: str | None
    reference: str
    translations: tuple[str, str]
    """of the first system and the other one"""
    chrf: tuple[float, float]


@dataclass(frozen=True)
class System(Generic[Score]):
    """The scores of a system or a group, and their comparison with the first one."""

    name: str
    """the caller's name; by default the run or file, or the group's runs, separated by commas"""
    bleu: Score
    chrf: Score
    extra_metrics: dict[str, Score] = field(default_factory=dict)
    """chrf++ and ter, if requested"""
    verdict: str | None = None
    """None for the first system"""
    examples: list[Example] = field(default_factory=list)
    """the sentences whose chrF differs most from the first system's, the largest difference first"""
    search: str | None = None
    """a description such as "beam 6, length penalty 1"; None for files"""

    @property
    def scores(self) -> dict[str, Score]:
        """All scores, by the names of the metrics."""
        return dict(zip(METRICS, (self.bleu, self.chrf), strict=True)) | self.extra_metrics


@dataclass(frozen=True)
class Comparison(Generic[Score]):
    """The comparison of systems or groups on one text. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    compares: Literal["systems", "groups"]
    signatures: dict[str, list[str]]
    """sacreBLEU's signatures by metric; for systems, those of the bootstrap and of approximate randomisation"""
    systems: list[System[Score]]
    """in JSON the key is `groups` if groups are compared"""


def compare(
    systems: RunLike | Iterable[RunLike] | Mapping[str, RunLike],
    options: CompareOptions,
    open_run: OpenRun,
    *,
    examples: int = 3,
) -> list[Comparison[PairedScore]]:
    """Compare the first of these runs or files with each of the others; see `api.compare`."""
    if not isinstance(options, CompareOptions):  # compare(one, another)
        raise ArgumentError(f"compare: options: {options!r}, where CompareOptions is wanted; put systems into a list")
    if examples < 0:
        raise ArgumentError(f"compare: examples: {examples}; give 0 or more")
    names, given = _names_of(systems)
    groups = [([name], [each]) for name, each in zip(names, given, strict=True)]
    return _comparisons(names, groups, options, open_run, statistics.paired_tests, examples)


def compare_groups(
    groups: Iterable[RunLike | Iterable[RunLike]] | Mapping[str, RunLike | Iterable[RunLike]],
    options: CompareOptions,
    open_run: OpenRun,
) -> list[Comparison[GroupScore]]:
    """Compare the first group of runs (or files) with each of the others; see `api.compare_groups`."""
    of_groups = [_names_of(runs) for runs in (groups.values() if isinstance(groups, Mapping) else groups)]
    joined = [*groups] if isinstance(groups, Mapping) else [",".join(runs) for runs, _ in of_groups]
    if few := [runs for runs, _ in of_groups if len(runs) < 2]:
        what = "fewer than two runs have no spread; give at least two runs in each group, or one in each"
        raise DataError(f"{''.join(few[0]) or 'an empty group'}: {what}")
    tests = partial(statistics.group_tests, sizes=[len(runs) for runs, _ in of_groups])
    return _comparisons(joined, of_groups, options, open_run, tests)


def _comparisons(
    names: Sequence[str],
    groups: Sequence[tuple[Sequence[str], Sequence[RunLike]]],
    options: CompareOptions,
    open_run: OpenRun,
    tests: Callable[..., Mapping[str, statistics.ByMetric[Score]]],
    examples: int | None = None,
) -> list[Comparison[Score]]:
    """Returns the comparison on each text.

    names: of the systems or groups. groups: for each, the names of its runs or files, and these; a system is a group of
    one. tests: `paired_tests` or `group_tests`, which receive the lines of all runs. examples: None for groups.
    """
    members, sizes = [name for labels, _ in groups for name in labels], [len(labels) for labels, _ in groups]
    if not groups:
        raise DataError("nothing to compare; name at least two runs or files")
    extra: list[str] = parse_metrics(options.metrics)
    if own := {*options.scores} & {*METRICS, *extra}:
        raise DataError(f"scores: {min(own)} is a metric that is computed here; choose another name")
    systems = _open_all(members, [each for _, given in groups for each in given], options.runs_dir)
    if examples is None:
        _check_groups([labels for labels, _ in groups], dict(zip(members, map(_run_of, systems), strict=True)))
    texts, outputs, of_sentences, language, lowercase = _translate_all(members, systems, options, open_run)
    outputs_of = statistics.split_by_size(outputs, sizes)
    searches = [dict.fromkeys(each.search for each in group if each.search) for group in outputs_of]
    comparisons: list[Comparison[Score]] = []
    for text, lines in zip(texts, zip(*(each.texts for each in outputs), strict=True), strict=True):
        references = text.references
        rows = nonblank_rows(text.sources or references[0], references[0], *lines)
        if not rows:
            raise DataError(f"{text.name}: every line is blank; name text with sentences")
        n_sentences = len(rows)
        show_status(f"{text.name}: testing whether chance explains the differences")
        of_systems, of_references = ([[one[row] for row in rows] for one in each] for each in (lines, references))
        metrics = text_metrics(language=language, lowercase=lowercase, references=of_references, extra_metrics=extra)
        results = {**tests(of_systems, metrics)}
        for metric, numbers in of_sentences.items():
            results |= tests([[one[row] for row in rows] for one in numbers], {metric: statistics.SegmentScores()})
        for row, output in enumerate(outputs):
            record: dict[str, Any] = {"split": text.name, "sentences": n_sentences}
            for metric in METRICS:
                of_runs = [score for of_group in results[metric].scores for score in of_group.scores]
                record |= {metric.lower(): of_runs[row], f"{metric.lower()}_signature": results[metric].signatures[0]}
            if output.save:
                output.save(record, text)
        differences: list[list[Difference | GroupDifference]] = [
            [each.difference for each in results[metric].scores if each.difference] for metric in METRICS
        ]
        sentences = None if examples is None else pluralize(n_sentences, "sentence")
        evidence: list[str] = [sentences or f"{sizes[0]} and {size} runs" for size in sizes[1:]]
        verdict_of = [None, *statistics.verdicts(names, *differences, evidence=evidence)]
        chrfs = [_sentence_chrf(metrics["chrF"], each, references) for each in lines] if examples else []
        compared = []
        for row, name in enumerate(names):
            scores = {metric: result.scores[row] for metric, result in results.items()}
            bleu, chrf = (scores.pop(metric) for metric in METRICS)
            shown = _examples(text, (lines[0], lines[row]), (chrfs[0], chrfs[row]))[:examples] if chrfs else []
            compared.append(System(name, bleu, chrf, scores, verdict_of[row], shown, " / ".join(searches[row]) or None))
        signatures = {metric: result.signatures for metric, result in results.items()}
        compared_as: Literal["systems", "groups"] = "groups" if examples is None else "systems"
        comparisons.append(Comparison(text.name, n_sentences, compared_as, signatures, compared))
    return comparisons


def _sentence_chrf(chrf: Any, lines: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Returns the chrF of each sentence. BLEU of a sentence is often 0, since no 4-gram matches."""
    return [float(chrf.sentence_score(line, own).score) for line, *own in zip(lines, *references, strict=True)]


def _examples(
    text: ParallelText, systems: tuple[Sequence[str], Sequence[str]], chrf: tuple[Sequence[float], Sequence[float]]
) -> list[Example]:
    """Returns the sentences whose chrF differs between two systems, the largest difference first.

    chrf: of each sentence of both systems.
    """
    pairs = enumerate(zip(zip(*systems, strict=True), zip(*chrf, strict=True), strict=True))
    found = [
        Example(row + 1, text.sources[row] if text.sources else None, text.references[0][row], *pair)
        for row, pair in pairs
        if len({*pair[1]}) > 1
    ]
    return sorted(found, key=lambda each: -abs(each.chrf[1] - each.chrf[0]))


def _names_of(systems: RunLike | Iterable[RunLike] | Mapping[str, RunLike]) -> tuple[list[str], list[RunLike]]:
    """Returns the names of systems, and the systems."""
    if isinstance(systems, Mapping):
        return [*systems], [*systems.values()]
    given = as_list(systems)
    runs = [each.run if isinstance(each, Translator) else each for each in given]
    return [str(each.folder if isinstance(each, Run) else each) for each in runs], given


def _run_of(system: OpenSystem) -> Run | None:
    return system.run if isinstance(system, Translator) else system if isinstance(system, Run) else None


def _translate_all(
    names: Sequence[str], systems: Sequence[OpenSystem], options: CompareOptions, open_run: OpenRun
) -> tuple[list[ParallelText], list[SystemOutput], dict[str, list[list[str]]], str, bool]:
    """Returns the texts, each system's translations, `_segment_scores`, the language, and whether case is ignored.

    Each run translates with its own decoding settings. Raises CheckpointError or DataError.
    """
    runs = [(name, run) for name, run in zip(names, map(_run_of, systems), strict=True) if run]
    pairs = {name: f"{run.config.data.input_language}→{run.config.data.output_language}" for name, run in runs}
    if len(set(pairs.values())) > 1:
        found = ", ".join(f"{name} {pair}" for name, pair in pairs.items())
        raise DataError(f"runs of different languages cannot be compared: {found}; name runs of one pair of languages")
    run_options = {"beam_size": options.beam_size is not None, "device": options.device != "auto"}
    for name, is_given in run_options.items():
        if is_given and not runs:
            raise DataError(f"{name} applies to runs, but all of these are files; omit it")
    lowercased_runs = [name for name, run in runs if run.config.data.lowercased]
    if lowercased_runs and len(lowercased_runs) < len(names):
        log.info("%s: lower-cased, so all are scored without case", ", ".join(dict.fromkeys(lowercased_runs)))
    beam = _beam(options)
    searches = {
        name: (each.settings if isinstance(each, Translator) else each.config.decoding).model_copy(update=beam).describe
        for name, each in zip(names, systems, strict=True)
        if not isinstance(each, Path)
    }
    if len(set(searches.values())) > 1:
        found = "; ".join(f"{name}: {search}" for name, search in searches.items())
        log.warning("the runs search in different ways, which affects scores (%s); set one beam size for all", found)
    joiner = next((run.config.data.joiner for _, run in runs), None)
    texts = [each.joined(joiner) for each in _texts([run for _, run in runs], options)]
    if len(texts) > 1 and (options.scores or len(runs) < len(names)):
        split_names = ", ".join(text.name for text in texts)
        raise DataError(f"files belong to one text, but there are {split_names}; name one split")
    scores = _segment_scores(options, len(names), texts[0])
    files_first = sorted(range(len(systems)), key=lambda number: not isinstance(systems[number], Path))
    # files before any run translates, so that errors in them come soon
    by_number = {number: _output_of(systems[number], texts, options, open_run) for number in files_first}
    outputs = [by_number[number] for number in range(len(systems))]
    language = options.language or next((run.config.data.output_language for _, run in runs), "en")
    files = {name: output.texts[0] for name, output in zip(names, outputs, strict=True) if output.save is None}
    if files or options.references:
        source_language = next((run.config.data.input_language for _, run in runs), "xx")
        warn_of_scored_text(texts[0], (source_language, language), files)
    for name, output in zip(names, outputs, strict=True):
        for each, lines in zip(texts, output.texts, strict=True):
            called = name if len(texts) == 1 else f"{name}, {each.name}"
            warn_about_text(lines, each.references[0], called, language, each.sources)
    return texts, outputs, scores, language, options.lowercase or bool(lowercased_runs)


def _check_groups(groups: Sequence[Sequence[str]], systems: Mapping[str, Run | None]) -> None:
    """Warn of groups whose spread is not due to chance alone: equal seeds, or different settings.

    Raises DataError for two runs with the same weights.
    """
    weights: dict[str, str] = {}
    for name, run in systems.items():
        if run:
            other = weights.setdefault(run.weights_sha256, name)
            if other != name:
                raise DataError(f"{name}: has the same weights as {other}; name runs with different seeds")
    for names in groups:
        settings = {name: settings_by_key(run.config) for name in names if (run := systems[name])}
        by_seed: dict[int, list[str]] = {}
        for name, values in settings.items():
            by_seed.setdefault(values["training.seed"], []).append(name)
        for seed, same_seed in by_seed.items():
            if len(same_seed) > 1:
                what = "%s: trained with the same training.seed, %d; their spread does not show the effect of the seed"
                log.warning(what, ", ".join(same_seed), seed)
        keys = [key for key in differing_settings(list(settings.values())) if key not in MAY_DIFFER]
        if keys:
            listed = first_few(keys, MAX_LISTED_SETTINGS)
            what = "%s: runs of one group that differ in %s; their spread is not due to chance alone"
            log.warning(what, ", ".join(settings), listed)


def _open_all(names: Sequence[str], systems: Sequence[RunLike], runs_dir: Path) -> list[OpenSystem]:
    """Returns runs, and the paths of files. Raises DataError if one is named twice, even in two ways."""
    named: dict[Path, str | Path] = {}
    for each in (each for each in systems if isinstance(each, str | Path)):
        try:
            place = (runs_dir / each if (runs_dir / each).is_dir() else Path(each)).resolve()
        except (OSError, ValueError) as error:  # an impossible name, such as a long sentence
            what = f"{shorten(str(each), 40)!r}: not a run or a file: {error.args[-1]}"
            raise DataError(f"{what}; name one that exists") from None
        if place in named:
            raise DataError(f"{named[place]}: named twice; name different runs or files")
        named[place] = each
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{twice[0]}: named twice; name different runs or files")
    return [_open(each, runs_dir) for each in systems]


def _open(system: RunLike, runs_dir: Path) -> OpenSystem:
    if isinstance(system, Translator | Run):
        return system
    path = Path(system)
    if path.exists() and not path.is_dir() and not is_pointer(path) and not (runs_dir / system).is_dir():
        return path  # a file, or a pipe
    try:
        return Run.load(system, runs_dir)
    except CheckpointError as error:
        if path.exists() or (runs_dir / system).exists():
            raise
        raise CheckpointError(f"{error}; and there is no file {system}") from None


def _texts(runs: Sequence[Run], options: CompareOptions) -> list[ParallelText]:
    """Returns the texts to translate.

    Warns of a run whose own dataset has a different split of the same name: it may have been trained on these texts.
    """
    if options.sources or options.reference_files:
        if runs and not options.sources:
            raise DataError(f"{runs[0].folder}: a run needs sentences to translate; name their file")
        text = read_text(Path(options.sources) if options.sources else None, *options.reference_files)
        for data in {run.config.data.fingerprint: run.config.data for run in runs}.values():
            warn_of_training_text(data, text, options.data_dir)
        return [text]
    if not runs:
        raise DataError("files of translations need a reference; name its file")
    texts = read_splits(runs[0].config.data, as_list(options.splits), options.data_dir)
    for run, text in product(runs[1:], texts):
        with suppress(DataError):  # its dataset is not here, or has no such split
            (own,) = read_splits(run.config.data, [text.name], options.data_dir)
            if (own.sources, own.references) != (text.sources, text.references):
                what = "%s: in its own dataset, %s is another text; make sure that the run was not trained on this one"
                log.warning(what, run.folder, text.name)
    return texts


def _segment_scores(options: CompareOptions, n_systems: int, text: ParallelText) -> dict[str, list[list[str]]]:
    """Returns the lines of each file of `CompareOptions.scores`. Raises DataError if one is not a number."""
    found: dict[str, list[list[str]]] = {}
    for metric, files in options.scores.items():
        paths = [*map(Path, as_list(files))]
        if len(paths) != n_systems:
            raise DataError(f"scores: {metric} has {len(paths)} of {n_systems} files; name one for each run or file")
        found[metric] = [_lines_for(text, path, options) for path in paths]
        for path, lines in zip(paths, found[metric], strict=True):
            if wrong := [number for number, line in enumerate(lines, 1) if not NUMBER.fullmatch(line.strip())]:
                raise DataError(f"{path}: line {wrong[0]} is not a number; write the score of one sentence per line")
    return found


def _lines_for(text: ParallelText, path: Path, options: CompareOptions) -> list[str]:
    """Returns the lines of a file. Raises DataError if they are not as many as the text's."""
    lines, n_references = list(read_lines(path)), len(text.references[0])
    if len(lines) != n_references:
        where = next(iter(options.reference_files), text.name)
        found = f"{path} has {pluralize(len(lines), 'line')}, {where} has {n_references}"
        raise DataError(f"{found}; line n must belong to line n")
    return lines


def _output_of(
    system: OpenSystem, texts: Sequence[ParallelText], options: CompareOptions, open_run: OpenRun
) -> SystemOutput:
    """Returns a system's translation of each text."""
    if isinstance(system, Path):
        return SystemOutput([_lines_for(texts[0], system, options)])
    opened = system if isinstance(system, Translator) else open_run(system, options.device)
    translator = opened.with_options(on_too_long="truncate", **_beam(options))
    lines_of_texts = []
    for text in texts:
        translations = translator.translate_detailed(text.sources)
        if n_long := sum(each.was_too_long for each in translations):
            long = pluralize(n_long, "sentence")
            log.warning("%s: %s: %s too long: truncated", translator.run.folder, text.name, long)
        lines_of_texts.append([each.text for each in translations])
    given = [options.sources, *options.reference_files] if options.sources else []
    return SystemOutput(lines_of_texts, translator.settings.describe, result_sink(translator, given))


def _beam(options: CompareOptions) -> dict[str, Any]:
    return {} if options.beam_size is None else {"beam_size": options.beam_size}
