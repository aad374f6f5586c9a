"""The systems that are compared, runs or files of translations, and the text on which they are: all on the same one."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.compute.devices import choose_device
from transformer_cli.data.lengths import fits
from transformer_cli.data.lines import read_lines
from transformer_cli.errors import CheckpointError, DataError
from transformer_cli.evaluation.evaluate import ParallelText, read_splits, read_text
from transformer_cli.runs.exported import Exported, open_any
from transformer_cli.runs.opened import Opened
from transformer_cli.runs.run import Run, find_run
from transformer_cli.system.terminal import counted
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


def translate_all(names: Sequence[str], terms: Terms) -> list[Translated]:
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
