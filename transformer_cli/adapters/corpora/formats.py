"""Reads pairs from parallel text: aligned files, tables, JSON lines, TMX 1.4, XLIFF 1.2 and 2.1, catalogues (.po).

The content of a file, plain or compressed, determines its format; the name only decides between CSV and plain text. A
format is a function from a file to an iterator of pairs that keeps only a few lines or one unit in memory. Knows no
cleaning rules and no splits.
"""

import csv
import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from statistics import mode
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from transformer_cli.adapters.corpora.json_messages import json_strings
from transformer_cli.adapters.corpora.po import header_languages, parse_messages, po_encoding, unescape
from transformer_cli.adapters.corpora.xliff_state import XLIFF_2, is_confirmed, is_untranslated_copy, xliff_version
from transformer_cli.config.schema import MAX_LINE_CHARS, DataConfig, FilePair
from transformer_cli.errors import DataError
from transformer_cli.system.terminal import first_few, pluralize
from transformer_cli.text import lines as text_lines
from transformer_cli.text.file_formats import JSON, MAY_BE_PLAIN, PO, TMX, XLIFF, XML, detect_format, unescape_formula
from transformer_cli.text.languages import LANGUAGE_NAMES, language_code
from transformer_cli.text.lines import LocatedPair, Location, Utf8Stream, open_decompressed, record_lines, zip_lines
from transformer_cli.text.normalization import is_spaceless, is_word

LeaveOut = Callable[[str, str, str, Location], None]
"""Records a pair that is left out: reason, source, target, location"""

BEGINNING_BYTES = 1 << 16  # of a file, from which its format is detected
READ_BYTES = 1 << 14  # of XML that are parsed at a time
MAX_UNIT_BYTES, MAX_UNIT_DEPTH = 1 << 22, 100  # depth: of nested elements
MAX_INTERNAL_FILE_BYTES = 1 << 26  # of the original file that an XLIFF may contain
TABLE, ONE_SIDE = "table", "one side"  # formats besides those of text/file_formats.py
_WORDS = dict(row.split(": ") for row in Path(__file__).with_name("table_words.txt").read_text("utf-8").splitlines())
"""names of columns in tables, and errors of spreadsheets (English and nine other languages)"""
SIDE_NAMES = [_WORDS[side].split() for side in ("source", "target")]
"""columns and files may have these names instead of languages; "text" may follow"""
UNUSUAL_NAMES = [_WORDS[f"unusual {side}"].split() for side in ("source", "target")]
"""names of sides, if all cells of a heading are names"""
OTHER_COLUMNS = ["", *_WORDS["other columns"].split()]
SCRIPTS_OF_CHINESE = {"tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"}  # by region
KEY_SAMPLE_PAIRS, MIN_KEYS = 200, 10  # of a text, to check that neither side holds keys
SAMPLE_ROWS = 100  # of a table without a heading, to check that its columns hold text
CODE_ELEMENTS = ("bpt", "ept", "it", "ph", "ut")  # elements in a <seg> that hold markup, not text
OTHER_LANGUAGES = "a unit without one of the languages"
MORE_CELLS = "more cells than other rows"
DAMAGED = "a damaged character"  # U+FFFD: what it was is lost
CONFIRMED_COLUMN = "confirmed"  # a column, such as that of the report of `tfm translate`
NOT_CONFIRMED = ("", "-", "0", "n", "no", "nein", "non", "false")  # cells of a row that is left out
SPREADSHEET_ERROR, MISSING_VALUE, HEADING = "a spreadsheet's error", "a missing value", "a heading"
MIN_WORDS_BESIDE, MIN_CHARACTERS_BESIDE = 3, 6  # a missing value; the latter in a language without spaces
UNTRANSLATED, UNCONFIRMED, PLURAL_FORMS = "not translated", "not confirmed", "plural forms"

_SPREADSHEET_ERROR = re.compile(
    r"\s*(?:(?:Err|Fehler|Erreur ?):\d{3}|#(?:N/[ADB]|NV|Н/Д|YOK|GETTING_DATA|¡?(?:"
    rf"{'|'.join(_WORDS['errors'].split())}) ?[!?]))\s*\Z"
)
_MISSING_VALUE = re.compile(r"nan|NaN|NULL|null|None|NaT|<NA>|NA|\\N")  # as pandas, R and databases write it
_UNSAFE_ENTITY = re.compile(  # a declaration of anything but a short text
    r"<!ENTITY(?!\s+[\w.-]+\s+([\"'])(?:&#x?[0-9A-Fa-f]+;|[^&%<\"']){0,20}\1\s*>)"
)
_DECLARED_ENCODING = re.compile(rb"^(?:\xef\xbb\xbf)?(<\?xml[^>]*?)\sencoding=[\"'][^\"']*[\"']")
_UTF_16 = re.compile(rb"<\?xml[^>]*?\sencoding=[\"'](utf-?16|ucs-?2|unicode)", re.IGNORECASE)
_NOT_XML = re.compile(  # references, and bytes in UTF-8, of characters that XML forbids
    rb"&#(?:x([0-9A-Fa-f]{1,8})|(\d{1,8}));|[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]"
)
_XML_TAIL = re.compile(rb"(?:&[^;&]{0,10}|\xef\xbf?)\Z")  # what may go on as one of these
_PHRASE_CODE = re.compile(r"\{(\w{1,9})>|<(\w{1,9})\}")
_CODE_WITH_SCRIPT = re.compile(r"[a-z]{2,3}[-_][A-Z][a-z]{3}")  # eng_Latn
_SCRIPT_OR_REGION = re.compile(r"[A-Z][a-z]{3}|[A-Z]{2}|\d{3}")  # Latn of eng_Latn, US of en-US
_COMMENT_LINE = re.compile(rb"^#(?:[ \t#].*)?\r?\n", re.MULTILINE)
_CELL = re.compile(r'(?:"(?:[^"]|"")*(?:"|\Z)|[^"\t\r\n]*)(?:[\t\r\n]+|\Z)')  # quoted as in CSV, or without a quote
_DOUBLED_QUOTE = re.compile(rb'[^,;\s\\]""|""[^,;\s]')  # within a cell, as CSV has it
_ESCAPED_QUOTE = re.compile(rb'\\"(?!\s*(?:[,;]|\Z))')  # "C:\", may be the end of a cell
_BACKSLASH = re.compile(r'(\\["\\,;\n])|\\')
_TEXT_SUFFIX = re.compile(r"[ _-]?(?:text|sentence|segment)$")
_KEY = re.compile(  # as in programs: edit.save.title, nav/home, EDIT_SAVE, menu-file-open, editSaveTitle
    r"[A-Za-z][\w-]*(?:[.:/\[\]]+[\w-]+)+\]?|[^\W_]*_\w+|\w+(?:-\w+){2,}|[A-Za-z]?[a-z0-9]+(?:[A-Z][a-z0-9]*)+",
    re.ASCII,
)
_LINE_ENDS = re.compile(r"(?<!\s)[^\S\r\n]*[\r\n]\s*")  # with all white space around them
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_texts(
    texts: Iterable[FilePair | Path], data: DataConfig, leave_out: LeaveOut = lambda *_: None
) -> Iterator[LocatedPair]:
    """Yield the pairs of several texts; a text is two aligned files, or one file with both sides.

    leave_out: called for units that are no pairs, such as those in other languages. Raises DataError, which names the
    file, the line or unit, and the number of pairs before it; also if one side of a text are keys.
    """
    for text in texts:
        if isinstance(text, FilePair):
            paths = text.source, text.target
            for path in paths:
                if (file_format := detect_format(read_beginning(path))) in (TMX, XLIFF, PO):
                    remedy = f"name it alone, as in data.files.train: [{path.name}]"
                    raise DataError(f"{path}: {file_format}, which has both sides; {remedy}")
            are_json = {_has_messages(read_beginning(path), data) for path in paths}
            if len(are_json) == 2:
                raise DataError(f"{text.source}, {text.target}: only one of them is JSON of translations; name two")
            of_lines = zip_lines(*paths, text_lines.truncated_lines)
            pairs = _zip_messages(text, leave_out) if are_json == {True} else of_lines
        else:
            file_format = pair_format(text, data)
            pairs = PAIR_FORMATS[file_format](text, data, leave_out)
            if file_format in (TABLE, JSON):
                pairs = apply_rule(MISSING_VALUE, _has_missing_value, pairs, leave_out)
            if file_format in (TMX, XLIFF):
                pairs = apply_rule(DAMAGED, lambda *sides: any("\ufffd" in side for side in sides), pairs, leave_out)
        pairs = apply_rule(
            SPREADSHEET_ERROR, lambda *sides: any(map(_SPREADSHEET_ERROR.match, sides)), pairs, leave_out
        )
        pairs = _count_before_errors(pairs)
        yield from pairs if data.allow_keys else _refuse_keys(pairs)


def apply_rule(
    rule: str, applies: Callable[[str, str], bool], pairs: Iterator[LocatedPair], leave_out: LeaveOut
) -> Iterator[LocatedPair]:
    """Yield the pairs to which a rule does not apply; the others go to `leave_out`."""
    for source, target, location in pairs:
        if applies(source, target):
            leave_out(rule, source, target, location)
        else:
            yield source, target, location


def _has_missing_value(source: str, target: str) -> bool:
    """Whether one side is None or the like and the other a longer text, of which that is no translation."""
    for side, other in ((source, target), (target, source)):
        if _MISSING_VALUE.fullmatch(side.strip()):
            return len(other.split()) >= MIN_WORDS_BESIDE or sum(map(is_spaceless, other)) >= MIN_CHARACTERS_BESIDE
    return False


def _count_before_errors(pairs: Iterator[LocatedPair]) -> Iterator[LocatedPair]:
    n_pairs = 0
    try:
        for pair in pairs:
            n_pairs += 1
            yield pair
    except DataError as error:
        raise DataError(f"{error} ({pluralize(n_pairs, 'pair')} before that)") from None


def _refuse_keys(pairs: Iterator[LocatedPair]) -> Iterator[LocatedPair]:
    """Yield the pairs of a text. Raises DataError if most of its beginning, on one side, are keys of a program."""
    sample = list(islice(pairs, KEY_SAMPLE_PAIRS))
    for index, side in enumerate(("source", "target")):
        lines = [line for pair in sample if (line := str(pair[index]).strip())]
        keys = [*filter(_KEY.fullmatch, lines)]
        if 2 * len(keys) > len(lines) and len(keys) >= MIN_KEYS:
            what = f"most of the {side} side are keys (such as {keys[0][:40]}), not text"
            remedy = "name files that have the text instead, or insist with data.allow_keys: true"
            raise DataError(f"{sample[0][2][index]}: {what}; {remedy}")
    yield from chain(sample, pairs)


def pair_format(path: Path, data: DataConfig) -> str:
    """Returns the key of PAIR_FORMATS for a file with both sides. Raises DataError for an empty file, or other XML."""
    beginning = read_beginning(path)
    if not beginning.strip():
        raise DataError(f"{path}: an empty file; name one with text")
    file_format = detect_format(beginning)
    if file_format in XML:
        raise DataError(f"{path}: {file_format}, but neither TMX nor XLIFF; export its text as TMX, TSV or CSV")
    if file_format in (TMX, XLIFF, PO, JSON) and not _has_messages(beginning, data):
        return file_format
    if file_format == JSON:
        return ONE_SIDE
    return TABLE if _delimiter(beginning, path, data) else ONE_SIDE


def require_files(paths: Iterable[tuple[str, Path]]) -> None:
    """Raises DataError unless all paths are files with names in UTF-8. paths: (name in error messages, path)."""
    for name, path in paths:
        if _SURROGATE.search(str(path)):
            raise DataError(f"{name}: {path}: its name has bytes that are not UTF-8; rename it")
        if not os.path.isfile(path):  # it never raises, whatever the name
            what = "not a file" if os.path.exists(path) else "no such file"
            remedy = "correct the path; text is read several times, so it must be in a file"
            raise DataError(f"{name}: {path}: {what}; {remedy}")


def read_one_side(name: str, path: Path, data: DataConfig) -> list[str]:
    """Returns the lines of a file with one side. Raises DataError, with its name, unless it is a text of sentences."""
    require_files([(name, path)])
    is_plain = detect_format(read_beginning(path)) in {None, *MAY_BE_PLAIN} - {JSON}
    is_side = pair_format(path, data.model_copy(update={"columns": None})) == ONE_SIDE
    lines = list(text_lines.read_lines(path)) if is_plain and is_side else []
    if not any(map(str.strip, lines)):
        raise DataError(f"{name} {path}: not a text of one sentence per line; name another file")
    return lines


def pair_files(paths: Sequence[Path], data: DataConfig) -> list[FilePair | Path]:
    """Returns files in order, with the two sides of a text as a pair, matched by the languages or roles in their names.

    For example, b.de, a_en.txt, c.tmx, a_de.txt, b.en are the texts b, a and c. d.tgt and d.src are one text, and so
    are deu_Latn.dev and eng_Latn.dev. Two plain files are one text whatever their names, unless both name the same
    side; if neither names a side, the first is the source. Raises DataError for a side without the other.
    """
    sides, texts = [], dict[object, list[Path | None]]()  # of each text, both sides or one file
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise DataError(f"{path} is given twice; name it once")
        side, text = _side_in_name(path, data)
        sides.append(side)
        if side is None:
            texts[path] = [path]
            continue
        both = texts.setdefault((path.parent, text), [None, None])
        if both[side]:
            remedy = "leave one of them out, or name both sides in data.files, as {source: …, target: …}"
            raise DataError(f"{path}: its name says the same text and side as that of {both[side]}; {remedy}")
        both[side] = path
    are_two = len(texts) == len(paths) == 2 and (sides[0] is None or sides[0] != sides[1])
    if are_two and all(pair_format(path, data) == ONE_SIDE for path in paths):
        source = int(sides[0] == 1 or sides[1] == 0)
        return [FilePair(source=paths[source], target=paths[1 - source])]
    found = [[side for side in both if side] for both in texts.values()]
    for both, (path, *other) in zip(texts.values(), found, strict=True):
        if None in both and not other and pair_format(path, data) == ONE_SIDE:  # a table may be called de-en.txt
            missing = (data.source, data.target)[both.index(None)]
            raise DataError(f"{path}: the other side, in {missing}, is not given; name its file, too")
    return [FilePair(source=both[0], target=both[1]) if len(both) == 2 else both[0] for both in found]


def _side_in_name(path: Path, data: DataConfig) -> tuple[int | None, str]:
    """Returns the side in a file name, 0 or 1 (None: there is none), and the rest of the name.

    Languages take precedence over roles, later ones over earlier ones. A file with both sides, such as a table, counts
    as one side only if its name ends in a language or role.
    """
    parts = re.split(r"([._-])", text_lines.decompressed_name(path).removesuffix(".txt"))
    side, rest = None, list(parts)
    by_language = [[_language_match(part, language) for language in (data.source, data.target)] for part in parts]
    by_role = [[float(_TEXT_SUFFIX.sub("", part.lower()) in roles) for roles in SIDE_NAMES] for part in parts]
    for ranks in (by_language, by_role):
        index = max((index for index, each in enumerate(ranks) if any(each)), default=None)
        if index is None:
            continue
        start, end = index, index + 1
        if ranks is by_language and any(by_language[max(0, index - 2)]) and parts[index - 1] in ("-", "_"):
            start = index - 2 if by_language[index - 2] == by_language[index] else index  # of de-DE
        if any(map(_SCRIPT_OR_REGION.fullmatch, parts[index + 2 : index + 3])):
            end = index + 3
        if side is None and end < len(parts) and pair_format(path, data) != ONE_SIDE:
            return None, ""
        side = ranks[index].index(max(ranks[index])) if side is None else side
        rest[start:end] = [""] * (end - start)
    return side, "".join(rest)


# Formats


def read_rows(path: Path, data: DataConfig, *, with_comments: bool = False) -> Iterator[tuple[list[str], Location]]:
    """Yield the rows of a TSV or CSV; a blank line has no cells. Raises DataError.

    In a TSV, quotation marks are text unless all cells are quoted as in CSV, as Excel and pandas write them.
    with_comments: whether a line that begins with "# " counts as blank.
    """
    beginning = read_beginning(path)
    delimiter = _delimiter(_COMMENT_LINE.sub(b"", beginning) if with_comments else beginning, path, data) or ","
    with open_decompressed(path) as file:
        quote = '"' if delimiter != "\t" or isinstance(file.raw, Utf8Stream) or _is_csv_quoted(beginning) else None
    csv.field_size_limit(text_lines.MAX_RECORD_BYTES)
    lines = (line.rstrip("\r\n").replace("\r", " ") + "\n" for _, line in record_lines(path))
    if with_comments:
        lines = (_COMMENT_LINE.sub(b"", line.encode()).decode() or "\n" for line in lines)
    escape = None
    with suppress(DataError):  # raised again when reading reaches that row
        records = text_lines.byte_lines(path, text_lines.MAX_RECORD_BYTES)
        escape = "\\" if quote and _has_escaped_quotes(records) else None
    if escape:  # of quotation marks, separators, line ends and itself only
        lines = (_BACKSLASH.sub(lambda found: found[1] or r"\\", line) for line in lines)
    rows = csv.reader(
        lines, delimiter=delimiter, strict=True, quotechar=quote, skipinitialspace=bool(quote), escapechar=escape
    )
    begun = width = 1
    is_first = True
    try:
        for cells in rows:
            location, begun = Location(path, path, begun), rows.line_num + 1
            if is_first and [cell.lower() for cell in cells] == ["sep=", ""]:
                continue
            if any(cells) and is_first:
                is_first, width = False, len(cells)
            if quote and any(cells[width:]):
                remedy = f"put double quotes around text with {delimiter!r}"
                found = pluralize(len(cells), "column")
                raise DataError(f"{location} has {found}, but the first line has {width}; {remedy}")
            yield cells if any(cells) else [], location
    except csv.Error as error:
        raise DataError(f"{path}: line {begun}: not CSV: {error}; correct its quotes") from None


def _as_csv(cells: list[str], width: int) -> list[str]:
    """Returns the row of a TSV with tabs in quoted cells as text, if this gives it `width` cells; else the row."""
    with suppress(csv.Error):
        (found,) = csv.reader(["\t".join(cells)], delimiter="\t", strict=True)
        return found if len(found) >= width and not any(found[width:]) else cells
    return cells


def _read_table(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    """Yield two columns of a TSV or CSV: those of data.columns, those that its heading names, or the first two."""
    columns: tuple[int, int] | None = None
    confirmed, width = -1, 0  # the index of the column CONFIRMED_COLUMN; the usual number of cells in a row
    for cells, location in read_rows(path, data):
        if not cells:
            yield "", "", location
            continue
        if columns is None:
            sample = list[list[str]]()
            with suppress(DataError):  # raised again when reading reaches that row
                sample.extend(row for row, _ in islice(read_rows(path, data), SAMPLE_ROWS) if row)
            width = mode([*map(len, sample)] or [0])
            named, wanted = find_sides(cells, data), data.columns
            if wanted and all(map(str.isdecimal, wanted)):
                columns = (int(wanted[0]) - 1, int(wanted[1]) - 1)
            elif wanted:
                columns = named = _find_columns(wanted, cells, location)
            else:
                refuse_heading(cells, data, location, "name their columns (--columns, or data.columns)")
                if not (named := named or find_unusual_heading(sample, data)):
                    _refuse_columns_without_text(sample, width, path)
                columns = named or (0, 1)
            if named:
                width = max(width, len(cells))
                headings = [cell.strip().lower() for cell in cells]
                confirmed = headings.index(CONFIRMED_COLUMN) if CONFIRMED_COLUMN in headings else -1
                leave_out(HEADING, cells[named[0]], cells[named[1]], location)
                continue
        if any(cells[width:]):
            cells = _as_csv(cells, width)
        if len(cells) <= max(columns):
            found = f"{pluralize(len(cells), 'column')}, but column {max(columns) + 1} is wanted"
            raise DataError(f"{location} has {found}; correct the line, or name other columns")
        source, target = (_on_one_line(cells[column]) for column in columns)
        if confirmed >= 0:
            source, target = unescape_formula(source), unescape_formula(target)
        if confirmed >= 0 and "".join(cells[confirmed : confirmed + 1]).strip().lower() in NOT_CONFIRMED:
            leave_out(UNCONFIRMED, source, target, location)
        elif any(cells[width:]):  # a tab within a text shifts the columns
            leave_out(MORE_CELLS, source, target, location)
        else:
            yield source, target, location


def refuse_heading(cells: Sequence[str], data: DataConfig, location: Location, remedy: str) -> None:
    """Raises DataError if the first row of a table names languages, but not both sides.

    One code of two cells may be a word, such as no in a dictionary.
    """
    languages = [
        cell for cell in cells if language_code(cell) in LANGUAGE_NAMES or _CODE_WITH_SCRIPT.fullmatch(cell.strip())
    ]
    has_one = len(cells) > 2 and {*languages} & {data.source, data.target}
    if not find_sides(cells, data) and (len(languages) > 1 or has_one):
        what = f"looks like a heading ({_shorten_names(cells)}), but lacks {data.source} or {data.output_language}"
        raise DataError(f"{location} {what}; {remedy}")


def _delimiter(beginning: bytes, path: Path, data: DataConfig) -> str | None:
    """Returns the delimiter of a table, judging by its first line; None if it is no table.

    A CSV without a heading must be named .csv; its delimiter is the comma, unless only semicolons give rows of equal
    length.
    """
    text = beginning.decode(errors="replace")
    first = text.lstrip(" \r\n").partition("\n")[0].replace('"', "")
    if "\t" in first or first.startswith("sep="):
        return "\t" if "\t" in first else first[4:5] or None
    if named := next((each for each in ",;" if find_sides(first.split(each), data)), None):
        return named
    if not data.columns and not text_lines.decompressed_name(path).lower().endswith(".csv"):
        return None
    text = text.replace(r"\"", "") if _has_escaped_quotes(beginning.splitlines()) else text
    rows = text.replace("\0", "").splitlines()[:50]
    commas, semicolons = ({len(row) for row in csv.reader(rows, delimiter=each)} - {0} for each in ",;")
    has_semicolons = max(semicolons, default=0) > max(commas, default=0) == 1
    return ";" if len(commas) > 1 == len(semicolons) or has_semicolons else ","


def _has_escaped_quotes(lines: Iterable[bytes]) -> bool:
    r"""Whether quotation marks in a CSV are escaped as \", as MySQL and Spark write them, and none is doubled."""
    found = False
    for line in lines:
        if b'"' in line:
            if _DOUBLED_QUOTE.search(line):
                return False
            found = found or _ESCAPED_QUOTE.search(line) is not None
    return found


def _is_csv_quoted(beginning: bytes) -> bool:
    """Whether a TSV is quoted like CSV: all cells with quotation marks are, and one has a doubled mark or line end."""
    text, position = beginning.decode(errors="replace"), 0
    if text.count('"') % 2 and len(beginning) < BEGINNING_BYTES:  # a longer file may be cut inside a cell
        return False
    while position < len(text):
        if not (found := _CELL.match(text, position)):
            return False
        position = found.end()
    return '""' in text.replace('\t""', "\t") or re.search(r'(?:^|\t)"[^"\t\n]*\n', text) is not None


def _refuse_columns_without_text(rows: Sequence[Sequence[str]], width: int, path: Path) -> None:
    """Raises DataError if one of the first two columns mostly holds addresses, numbers, ids or single words.

    rows: of a table without a heading; most have `width` cells. If that is two, single words are allowed, as in a word
    list.
    """

    def is_text(cell: str) -> bool:
        if len(cell.split()) > 1 or any(map(is_spaceless, cell)):
            return text_lines.has_letter(cell)
        return width == 2 and not re.search(r"[\d_/:=]", cell)

    def holds_text(column: int) -> bool:
        cells = [row[column] for row in rows if row[column : column + 1] and row[column].strip()]
        return 2 * sum(map(is_text, cells)) >= len(cells)

    if wrong := [column for column in (0, 1) if not holds_text(column)]:
        raise DataError(
            f"{path}: it has no heading, so columns 1 and 2 are read, but column {wrong[0] + 1} holds addresses, "
            "numbers, ids or single words; name two columns of text with --columns or data.columns (1,2 to insist)"
        )


def _read_json_lines(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    for number, line in record_lines(path):
        if not line.strip():
            continue
        location = Location(path, path, number)
        try:
            found = json.loads(line.rstrip())
        except (ValueError, RecursionError) as error:
            what = str(error).replace("line 1 column", "column")
            raise DataError(f"{location}: not JSON: {what}; write one object on each line") from None
        if isinstance(found, dict) and isinstance(nested := found.get("translation"), dict):
            found = nested
        if not isinstance(found, dict):
            raise DataError(f"{location}: not an object with a key for each side; write one on each line")
        keys = list(found)
        columns = _find_columns(data.columns, keys, location) if data.columns else find_sides(keys, data)
        if columns is None:
            wanted = f"{data.source} and {data.output_language}, or source and target"
            found_keys = _shorten_names(keys)
            raise DataError(f"{location}: no keys {wanted}; it has {found_keys}; name two of them as data.columns")
        source, target = ("" if (side := found[keys[column]]) is None else side for column in columns)
        if not isinstance(source, str) or not isinstance(target, str):
            raise DataError(f"{location}: a side is not text; write both as strings")
        for side in (source, target):
            text_lines.refuse_lone_surrogates(side, f"{location}: ")
        yield _on_one_line(source), _on_one_line(target), location


def _has_messages(beginning: bytes, data: DataConfig) -> bool:
    """Whether a file with this beginning is JSON of translations, in one language, not JSON lines, in two."""
    first, _, others = beginning.strip().partition(b"\n")
    if not first.startswith(b"{") or others.strip():
        return first.startswith(b"{") and first.rstrip().endswith((b"{", b","))
    keys = re.findall('"([^"]{1,20})" ?:', first[:MAX_LINE_CHARS].decode(errors="replace"))
    return not (data.columns or {"translation", data.source, data.output_language} & {*keys} or find_sides(keys, data))


def _zip_messages(files: FilePair, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    """Yield the messages that two JSON files have under the same key."""
    sides = list[dict[str, str]]()
    for path in (files.source, files.target):
        text = "".join(line for _, line in record_lines(path))
        try:
            sides.append({each.key: each.value for each in json_strings(text) if not each.why})
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    for number, (key, source) in enumerate(sides[0].items(), start=1):
        location = Location(files.source, files.target, number, "message")
        target = sides[1].get(key, "")
        text_lines.refuse_lone_surrogates(source + target, f"{location}: ")
        if target:
            yield _on_one_line(source), _on_one_line(target), location
        else:
            leave_out(UNTRANSLATED, source, target, location)


def _read_tmx(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    for number, (unit, _) in enumerate(read_units(path, "tu"), start=1):
        location = Location(path, path, number, "unit")
        variants = [(xml_lang(each), seg) for each in unit.iterfind("{*}tuv") for seg in each.iterfind("{*}seg")]
        codes = [code for code, _ in variants]
        if sides := find_sides(codes, data):
            source, target = (_on_one_line(_segment_text(variants[side][1])) for side in sides)
            yield source, target, location
        else:
            leave_out(OTHER_LANGUAGES, " ".join(codes[:8]), "", location)


_UnorientedPair = tuple[str, str, tuple[str, str], str, Location]
"""(text, translation, their languages or "", reason to leave them out or "", location)"""


def _orient_pairs(found: Iterable[_UnorientedPair], data: DataConfig, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    """Yield translated texts as (source, target), in whichever direction they were translated.

    A language that the file does not name matches any. If both directions fit, the original is assumed to be English.
    """
    wanted = (data.source, data.output_language)
    for one, other, languages, why, location in found:
        sides = (_on_one_line(one).strip(), _on_one_line(other).strip())
        orders = [
            order
            for order in ((0, 1), (1, 0))
            if all(_language_match(languages[side] or own, own) for side, own in zip(order, wanted, strict=True))
        ]
        order = min(orders, key=lambda order: not _language_match("en", wanted[order[0]]), default=(0, 1))
        source, target = (sides[side] for side in order)
        if why := UNTRANSLATED if "" in sides else why or OTHER_LANGUAGES * (not orders):
            leave_out(why, source, target, location)
        else:
            yield source, target, location


def _read_xliff(path: Path) -> Iterator[_UnorientedPair]:
    for number, (unit, around) in enumerate(read_units(path, "trans-unit", "unit"), start=1):
        location = Location(path, path, number, "unit")
        try:
            version = xliff_version((*around, unit)[0].attrib)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        named = next((each for each in around if local_name(each) == version.with_languages), unit)
        languages = named.get(version.source_language, ""), named.get(version.target_language, "")
        translate = [value for each in (*around, unit) if (value := each.get("translate"))]
        if translate[-1:] != ["no"] and unit.get("restype") != "x-gettext-domain-header":
            parts = unit.iterfind("{*}segment") if version is XLIFF_2 else [unit]
            for source, target, attributes in chain.from_iterable(map(_xliff_segments, parts)):
                sides = (_segment_text(source), _segment_text(target))
                is_copy = sides[0] == sides[1] and is_untranslated_copy(attributes)
                why = UNTRANSLATED if is_copy else UNCONFIRMED if is_confirmed(attributes) is False else ""
                yield *sides, languages, why, location


def _xliff_segments(unit: Element) -> Iterator[tuple[Element, Element, dict[str, str]]]:
    """Yield the source, target and attributes of each segment of a unit, with those of its <sdl:seg> (Trados).

    unit: in XLIFF 2, a segment.
    """
    children = {local_name(each): each for each in unit}
    source, target = (children.get(name, Element(name)) for name in ("source", "target"))
    cut, found = (
        {each.get("mid", ""): each for each in side.iterfind(".//{*}mrk[@mtype='seg']")}
        for side in (children.get("seg-source", source), target)
    )
    of_unit = {**unit.attrib, **target.attrib}
    states = {each.get("id", ""): {"conf": "", **each.attrib} for each in unit.iterfind(".//{*}seg")}
    if not found:
        yield source, target, {**of_unit, **next(iter(states.values()), {})}
        return
    for name, segment in cut.items():
        yield segment, found.get(name, Element("mrk")), {**of_unit, **states.get(name, {})}


def _read_po(path: Path) -> Iterator[_UnorientedPair]:
    """Yield the messages of a catalogue; of plural forms, both if there are two, else only the first, to leave out."""
    with open_decompressed(path) as file:
        is_utf_8 = isinstance(file.raw, Utf8Stream) or file.peek(READ_BYTES).startswith(BOM_UTF8)
    encoding = "utf-8" if is_utf_8 else po_encoding(read_beginning(path), f"{path}: ")
    languages = "", ""
    for each in parse_messages((line for _, line in record_lines(path, encoding)), f"{path}: "):
        strings = {key: unescape("".join(texts), encoding) for key, texts in each.strings.items()}
        sources = [strings[key] for key in ("msgid", "msgid_plural") if key in strings]
        targets = [text for key, text in strings.items() if key.startswith("msgstr")]
        if sources == [""]:
            languages = header_languages(targets[0])
            continue
        why = UNCONFIRMED if each.is_by_machine else PLURAL_FORMS if len(sources) != len(targets) else ""
        why = "fuzzy" if each.is_fuzzy else why
        for source, target in list(zip(sources, targets, strict=False))[: 1 if why else 2]:
            yield source, target, languages, why, Location(path, path, each.number)


def read_units(path: Path, *tags: str) -> Iterator[tuple[Element, list[Element]]]:
    """Yield the elements of an XML file with one of these tags, such as the units of a TMX; keeps only one in memory.

    Each comes with its ancestors, the outermost first; of these, only the attributes are kept. Raises DataError, also
    if the document declares an entity other than a short text. Characters that XML forbids become U+FFFD.
    """
    if _UNSAFE_ENTITY.search(read_beginning(path).decode(errors="replace")):
        raise DataError(f"{path}: declares an entity other than a short text; delete the declaration")
    parser: Any = XMLPullParser(("start", "end"))
    around: list[Element] = []  # the open elements
    unit: Element | None = None
    size = 0  # bytes of the unit so far, or since the last element outside a unit
    tail = b""  # of the last content, not yet parsed
    with open_decompressed(path) as file:
        start = file.peek(READ_BYTES)
        is_utf_8 = isinstance(file.raw, Utf8Stream) or start.startswith(BOM_UTF8) or _UTF_16.match(start)
        for content in chain(iter(lambda: file.read1(READ_BYTES), b""), [b""]):
            size += len(content)
            try:
                if is_utf_8:  # whatever encoding it declares
                    content = _DECLARED_ENCODING.sub(rb"\1", content)
                text, is_end = tail + content, not content
                tail = found[0] if (found := _XML_TAIL.search(text)) and not is_end else b""
                parser.feed(_NOT_XML.sub(_as_xml, text.removesuffix(tail)))
                if is_end:
                    parser.close()
                for event, element in parser.read_events():
                    if event == "start":
                        around.append(element)
                        unit = element if unit is None and local_name(element) in tags else unit
                        if len(around) > MAX_UNIT_DEPTH:
                            break  # refused below
                        continue
                    around.pop()
                    if unit is not None and element is unit:
                        yield unit, around
                        unit = None
                    if unit is None and around:
                        around[-1].remove(element)
                        size = 0
            except (ParseError, LookupError, ValueError) as error:  # the last two: about encodings
                what = "not XML" if content else "incomplete"
                remedy = "correct it, or convert it to UTF-8" if content else "copy it again"
                raise DataError(f"{path}: {what}: {error}; {remedy}") from None
            is_internal = around and local_name(around[-1]) == "internal-file"
            largest = MAX_INTERNAL_FILE_BYTES if is_internal else MAX_UNIT_BYTES
            if size > largest or len(around) > MAX_UNIT_DEPTH:
                what = f"a unit of more than {largest:,} bytes, or more than {MAX_UNIT_DEPTH} nested elements"
                raise DataError(f"{path}: {what}; correct it")


def _as_xml(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16) if found[1] else int(found[2] or 0)
    is_allowed = code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return found[0] if is_allowed else b"&#xFFFD;"


def _refuse_one_side(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[LocatedPair]:
    what = detect_format(read_beginning(path)) or "text of one column"
    raise DataError(
        f"{path}: {what}, which is only one side; name the file of the other side too, as in "
        f"NAME.{data.source} and NAME.{data.output_language}, or {{source: …, target: …}} in data.files"
    )


def local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def xml_lang(variant: Element) -> str:
    return next((code for key, code in variant.items() if key.lower().rpartition("}")[2] == "lang"), "")


def _segment_text(element: Element) -> str:
    """Returns the text of a <seg> or <source>, without pairs of Phrase's codes such as {b>bold<b}."""
    text = _element_text(element)
    both = {name for name, _ in _PHRASE_CODE.findall(text)} & {name for _, name in _PHRASE_CODE.findall(text)}
    return _PHRASE_CODE.sub(lambda code: "" if code[code.lastindex or 0] in both else code[0], text)


def _element_text(element: Element) -> str:
    """Returns the text of a <seg> or <source> and of elements in it such as <hi>, but not of those that hold markup."""
    text = element.text or ""
    for each in element:
        is_text = local_name(each) not in CODE_ELEMENTS and each.get("mtype") != "x-sdl-deleted"
        text += _element_text(each) if is_text else ""
        is_between_words = local_name(each) in ("ph", "x") and is_word(text[-1:]) and is_word((each.tail or "")[:1])
        text += (" " if is_between_words else "") + (each.tail or "")  # <ph> and <x> may be line breaks
    return text


PAIR_FORMATS: dict[str, Callable[[Path, DataConfig, LeaveOut], Iterator[LocatedPair]]] = {
    TMX: _read_tmx,
    XLIFF: lambda path, data, leave_out: _orient_pairs(_read_xliff(path), data, leave_out),
    PO: lambda path, data, leave_out: _orient_pairs(_read_po(path), data, leave_out),
    JSON: _read_json_lines,
    TABLE: _read_table,
    ONE_SIDE: _refuse_one_side,
}


def read_beginning(path: Path) -> bytes:
    """Returns the beginning of a file, decompressed. Raises DataError if its format is known but unsupported."""
    content = b""
    try:
        with open_decompressed(path) as file:
            while len(content) < BEGINNING_BYTES and (part := file.read1(BEGINNING_BYTES)):
                content += part
    except DataError:
        if not content:  # else reading the pairs raises it, and tells how many pairs are before it
            raise
    return content.removeprefix(BOM_UTF8)


def find_unusual_heading(rows: Sequence[Sequence[str]], data: DataConfig) -> tuple[int, int] | None:
    """Returns the indices of source and target if the first row is a heading such as text, translation; else None.

    In a heading each cell names a column or a language, and no later row repeats it in that column. rows: of a table.
    """
    names = {*chain(*SIDE_NAMES, *UNUSUAL_NAMES, OTHER_COLUMNS)}
    first, *others = [[cell.strip().lower() for cell in row] for row in rows] or [[]]
    occurs_again = any(cell == name for row in others for name, cell in zip(first, row, strict=False))
    is_heading = all(name in names or language_code(name) in LANGUAGE_NAMES for name in first)
    return find_sides(first, data, UNUSUAL_NAMES) if is_heading and not occurs_again else None


def find_sides(
    names: Sequence[str], data: DataConfig, further: Sequence[Sequence[str]] = ((), ())
) -> tuple[int, int] | None:
    """Returns the indices of the names for source and target, such as "de" or "source_text"; None if one is missing.

    further: more names for source and for target.
    """
    found = []
    for language, roles, more in zip((data.source, data.output_language), SIDE_NAMES, further, strict=True):
        whole = [name.strip().lower() for name in names]
        bare = [_TEXT_SUFFIX.sub("", name) for name in whole]
        ranks = [1.5 if name in roles else _language_match(name, language) for name in bare]
        ranks = [rank or 0.5 * (name in more) for rank, name in zip(ranks, whole, strict=True)]
        best = max(ranks, default=0)
        found.append(ranks.index(best) if best else -1)
    return None if -1 in found or found[0] == found[1] else (found[0], found[1])


@lru_cache(1_000)
def _language_match(code: str, language: str) -> float:
    """Returns how well a code or name matches a language: 2 if equal, 0 if it is another language.

    Another region or script counts as another language: zh-CN and zh-Hans match zh-TW with 0,
    zh with 1, zh-Hant and zh-Hant-TW with 1.5.
    """
    both = code.strip().lower().replace("_", "-"), language.lower().replace("_", "-")
    if both[0] == both[1]:
        return 2
    if language_code(code) != language_code(language):
        return 0
    one, other = map(script_and_region, both)
    shared = [one[kind] == other[kind] for kind in one.keys() & other.keys()]
    return float(all(shared)) * (1.5 if shared else 1)


def script_and_region(code: str) -> dict[str, str]:
    """Returns the script and region that a code names; of Chinese, a region implies the script."""
    main, *further = code.split("-")
    found = {"script" if len(each) == 4 else "region": each for each in further if 2 <= len(each) <= 4}
    script = SCRIPTS_OF_CHINESE.get(found.get("region", "")) if main in ("zh", "zho", "chi") else None
    return {**({"script": script} if script else {}), **found}


def _find_columns(wanted: Sequence[str], names: Sequence[str], location: Location) -> tuple[int, int]:
    """Returns the indices of two columns by their names."""
    names = [name.strip() for name in names]
    for name in wanted:
        if name not in names:
            raise DataError(f"{location}: no column {name}; it has {_shorten_names(names)}; correct data.columns")
    return names.index(wanted[0]), names.index(wanted[1])


def _shorten_names(names: Sequence[str]) -> str:
    return first_few([name[:30] for name in names])


def _on_one_line(text: str) -> str:
    """Returns a text without line ends. Cuts a text that is too long, but `is_too_long` stays true."""
    text = text[: MAX_LINE_CHARS + 1]
    return _LINE_ENDS.sub(" ", text) if "\n" in text or "\r" in text else text
