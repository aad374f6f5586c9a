"""Reads pairs of a term and its translation from term bases (TBX, memoQ) and tables. Knows no glossaries."""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_cli.adapters.corpora import formats
from transformer_cli.config.schema import DataConfig
from transformer_cli.errors import DataError
from transformer_cli.system.files import is_stream
from transformer_cli.text.file_formats import HTML, TBX, TMX, XLIFF, detect_format
from transformer_cli.text.languages import LANGUAGE_NAMES, language_code
from transformer_cli.text.lines import LocatedPair, Location

log = logging.getLogger(__name__)

_OTHER_LANGUAGES = "entries without one of the languages"
_MEMOQ_NAME = re.compile(rf"Entry_|Term_Info|(?:{'|'.join(LANGUAGE_NAMES.values())})_")  # of a column
_MEMOQ_FORBIDDEN = {"NonTerm", "Forbidden"}
_YES = {"yes", "true", "1", "x", "ja", "oui", "sí", "si", "sì", "sim", "tak", "ano", "да"}  # in a column "forbidden"
_NOT_USED = "forbidden or deprecated terms"
_FORBIDDEN_WORDS = Path(__file__).with_name("forbidden_terms.txt").read_text("utf-8").rstrip().replace("\n", ", ")
_FORBIDDEN = re.compile(rf"(?:{_FORBIDDEN_WORDS.replace(', ', '|')})[\w-]*", re.IGNORECASE)
"""a status such as forbidden, deprecatedTerm-admn-sts, verboten, interdite"""


def read_terms(path: Path, data: DataConfig) -> Iterator[LocatedPair]:
    """Yield the terms of a TBX or a table, each with one translation ("": the term stays as it is).

    A warning at the end counts what was skipped. data: names the source and target language. Raises DataError.
    """
    if is_stream(path):  # it can be read only once, but is needed several times
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(path.read_bytes())
            yield from read_terms(copy, data)
        return
    left_out: Counter[str] = Counter()
    file_format = detect_format(formats.read_beginning(path))
    if file_format in (TMX, XLIFF, HTML, "XML"):  # MultiTerm exports XML of its own
        raise DataError(f"{path}: {file_format}, which is not read as a glossary; export it as TBX or TSV")
    yield from (_read_tbx if file_format == TBX else _read_term_table)(path, data, left_out)
    if left_out:
        log.warning("%s: skipped: %s", path, ", ".join(f"{what} ({n:,})" for what, n in left_out.items()))


def _read_term_table(path: Path, data: DataConfig, left_out: Counter[str]) -> Iterator[LocatedPair]:
    """Yield the entries of a table, from the columns that its heading names or from the first two.

    As in DeepL's tables, two more columns may have the language codes of each row.
    """
    beginning = [cells for cells, _ in islice(_read_entries(path, data), formats.SAMPLE_ROWS)]
    if any(map(_MEMOQ_NAME.match, beginning[0] if beginning else ())):
        yield from _read_memoq(path, data, left_out)
        return
    first_codes = [cells[2:] for cells in beginning[:2]]
    has_codes = all(len(codes) == 2 and LANGUAGE_NAMES.keys() >= {*map(language_code, codes)} for codes in first_codes)
    columns, names, of_status = (0, 1), dict[int, str](), set[str | int]()
    for number, (cells, location) in enumerate(_read_entries(path, data)):
        if has_codes:
            columns = formats.find_sides(cells[2:], data) or (0, 0)
        elif number == 0:
            formats.refuse_heading(cells, data, location, "correct it")
            if named := formats.find_sides(cells, data) or formats.find_unusual_heading(beginning, data):
                columns, names = named, dict(enumerate(cells))
                continue
        source, target = (cells[column] if column < len(cells) else "" for column in columns)
        if columns == (0, 0) or (len(cells) > 2 and not (source and target)):
            left_out[_OTHER_LANGUAGES] += 1
        elif len(cells) == 1 or not source:
            found = "\t".join(cells)[:50]
            raise DataError(f"{location}: {found!r} is not a source, a TAB and a translation; correct or delete it")
        else:
            others = [(names.get(n, n + 1), cell) for n, cell in enumerate(cells) if cell and n not in columns]
            forbidding = {
                name
                for name, cell in others
                if _FORBIDDEN.fullmatch(str(name) if cell.lower() in _YES else cell)
                and language_code(str(name)) not in LANGUAGE_NAMES
            }
            of_status |= forbidding
            left_out.update([_NOT_USED] if forbidding else [f"column {name}" for name, _ in others if not has_codes])
            if not forbidding:
                yield source, target, location
    for name in of_status:
        del left_out[f"column {name}"]


def _read_memoq(path: Path, data: DataConfig, left_out: Counter[str]) -> Iterator[LocatedPair]:
    """Yield the terms of columns such as German_Germany, one for each synonym; Term_Info follows each of them."""
    rows = _read_entries(path, data)
    names = ["" if name.endswith("_Def") else name.replace("_", " (", 1) for name in next(rows)[0]]
    for cells, location in rows:
        terms: dict[str, list[str]] = {}
        for name, term, properties in zip(names, cells, [*cells[1:], ""], strict=False):
            if term and _MEMOQ_FORBIDDEN.intersection(properties.split(";")):
                left_out[_NOT_USED] += 1
            elif term:
                terms.setdefault(name, []).append(re.sub("[|*]", "", term) if "Custom" in properties else term)
        yield from _pair_terms(terms, location, data, left_out)


def _read_entries(path: Path, data: DataConfig) -> Iterator[tuple[list[str], Location]]:
    """Yield the rows of a table that are neither blank nor comments."""
    for row, location in formats.read_rows(path, data, with_comments=True):
        cells = [cell.strip() for cell in row]
        if any(cells) and not (len(cells) == 1 and cells[0].startswith("#")):
            yield cells, location


def _read_tbx(path: Path, data: DataConfig, left_out: Counter[str]) -> Iterator[LocatedPair]:
    """Yield each source term of a TBX with each target term of its concept, except for forbidden ones."""
    for number, (concept, _) in enumerate(formats.read_units(path, "termEntry", "conceptEntry"), start=1):
        terms: dict[str, list[str]] = {}
        for group in concept:
            for each in group.iter():
                term = next((part.text or "" for part in each.iterfind("{*}term")), "")
                notes = (note.text or "" for note in each.iter() if term and note.text != term)
                if any(map(_FORBIDDEN.fullmatch, map(str.strip, notes))):
                    left_out[_NOT_USED] += 1
                elif "\ufffd" in term:
                    left_out[f"terms with {formats.DAMAGED}"] += 1
                elif term.strip():
                    terms.setdefault(formats.xml_lang(group), []).append(term.strip())
        yield from _pair_terms(terms, Location(path, path, number, "entry"), data, left_out)


def _pair_terms(
    terms: dict[str, list[str]], location: Location, data: DataConfig, left_out: Counter[str]
) -> Iterator[LocatedPair]:
    """Yield each source term of an entry with each target term. terms: by language."""
    if sides := formats.find_sides(list(terms), data):
        source, target = ([*terms.values()][side] for side in sides)
        yield from ((one, other, location) for one in source for other in target)
    else:
        left_out[_OTHER_LANGUAGES] += 1
