"""Parallel text as people have it → pairs: aligned files, TSV, CSV, JSON lines, TMX 1.4. Knows no rules and no splits.

What stands in a file says its format, plain or packed; the name decides only between CSV and plain text. A format is a
function from a file to an iterator of (source, target, place), and holds no more than a few lines or a unit of it.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from xml.parsers import expat

from transformer_cli.config.schema import DataConfig, FilePair
from transformer_cli.data.lines import (
    LONGEST_LINE,
    PACKED,
    Place,
    Placed,
    aligned,
    refuse_no_text,
    unpacked,
    wide_lines,
)
from transformer_cli.data.reading import main_code
from transformer_cli.errors import DataError
from transformer_cli.system.files import kind_of
from transformer_cli.system.terminal import counted

LeaveOut = Callable[[str, str, str, Place], None]
"""Notes a pair that is left out: why, its sides, and where it stands"""

LOOKED_AT = 1 << 16  # bytes of a file, by which its format is known
MOST_PENDING = 1 << 24  # bytes of TMX in which nothing ends
ROLES = (("source", "src"), ("target", "tgt", "trg"))  # what a side is called where its language is not
WITHOUT = "a unit without one of the languages"
EXPORT = "export its text as TMX, TSV or CSV"

_TMX = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!DOCTYPE\s+tmx\b|<(?:\w+:)?tmx\b)", re.DOTALL)
_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|!--|html\b|xliff\b)", re.IGNORECASE)
_JSON = re.compile(r"\s*[\[{]\s*[\[{\"]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_LINE_ENDS = re.compile(r"\s*[\r\n]+\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")


class OneSided(DataError):
    """A file is plain text, with one side of each pair."""


def read_text(text: FilePair | Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[Placed]:
    """Yield the pairs of two aligned files, or of one file that holds both sides, each with where it stands.

    leave_out: is told of what is no pair and no mistake either, such as units of other languages. Raises DataError,
    which names the file, the line or the unit, and how many pairs stood before.
    """
    if isinstance(text, FilePair):
        for path in (text.source, text.target):
            refuse_as_side(path)
        pairs = aligned(text.source, text.target)
    else:
        pairs = FORMATS[format_of(text, data)](text, data, leave_out)
    n_pairs = 0
    try:
        for pair in pairs:
            n_pairs += 1
            yield pair
    except DataError as error:
        raise DataError(f"{error} ({counted(n_pairs, 'pair')} before that)") from None


def format_of(path: Path, data: DataConfig) -> str:
    """Returns which of FORMATS a file with both sides is in. Raises DataError, which says what it is otherwise."""
    text = _beginning(path)
    first = text.lstrip().partition("\n")[0].rstrip("\r")
    if _TMX.match(text):
        return "TMX"
    if _XML.match(text):
        raise DataError(f"{path}: XML or HTML, but not TMX; {EXPORT}")
    if _JSON.match(text):
        return "JSON lines"
    if "\t" in first:
        return "TSV"
    if data.columns or unpacked_name(path).lower().endswith(".csv") or _delimiter(first, data):
        return "CSV"
    raise OneSided(
        f"{path}: text of one column, but both sides of each pair are wanted; name the file of the other side too, as "
        f"in NAME.{data.source} and NAME.{data.target}, or {{source: …, target: …}} in data.files"
    )


def refuse_as_side(path: Path) -> None:
    """Raises DataError if a file has both sides, or no text at all, so that it cannot be one of two aligned files."""
    if _TMX.match(_beginning(path)):
        raise DataError(f"{path}: a TMX file has both sides; name it alone, as in data.files.train: [{path.name}]")


def unpacked_name(path: Path) -> str:
    """Returns the name that a file has when it is unpacked: a.tmx of a.tmx.gz."""
    return path.stem if path.suffix in PACKED else path.name


def require_files(paths: Iterable[tuple[str, Path]]) -> None:
    """Raises DataError unless all paths are files. Each comes after what the error calls it."""
    for name, path in paths:
        if (kind := kind_of(path)) != "a file":
            remedy = "correct the path; text is read several times, so it must be in a file"
            raise DataError(f"{name}: {path}: {kind}; {remedy}")


def paired(paths: Sequence[Path], data: DataConfig) -> list[FilePair | Path]:
    """Returns files in their order, those of two sides of a text as a pair, by the languages in their names.

    For example, b.de, a.en.gz, c.tmx, a.de.gz, b.en are b, a and c. Two plain files without languages in their names
    are source and target. Raises DataError for a side without the other.
    """
    found: dict[object, dict[str, Path]] = {}
    for path in paths:
        stem, _, suffix = unpacked_name(path).removesuffix(".txt").rpartition(".")
        ranks = {language: _rank(suffix, language) for language in (data.source, data.target)}
        if not stem or not any(ranks.values()):
            found[path] = {}
            continue
        sides = found.setdefault((path.parent, stem), {})
        side = max(ranks, key=lambda language: ranks[language])
        if other := sides.get(side):
            raise DataError(f"{path}: {other} is the same side of the same text; leave one of them out")
        sides[side] = path
    if len(found) == 2 and not any(found.values()) and all(_is_one_sided(path, data) for path in paths):
        return [FilePair(source=paths[0], target=paths[1])]
    texts: list[FilePair | Path] = []
    for key, sides in found.items():
        if missing := [each for each in (data.source, data.target) if sides and each not in sides]:
            raise DataError(f"{next(iter(sides.values()))}: the same text in {missing[0]} is not given; name it too")
        if sides:
            texts.append(FilePair(source=sides[data.source], target=sides[data.target]))
        elif isinstance(key, Path):
            texts.append(key)
    return texts


def _is_one_sided(path: Path, data: DataConfig) -> bool:
    try:
        format_of(path, data)
    except OneSided:
        return True
    return False


# Formats


def _tsv(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[Placed]:
    rows = ((number, line.rstrip("\r\n").split("\t")) for number, line in wide_lines(path))
    return _table(rows, path, data)


def _csv(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[Placed]:
    first = _beginning(path).lstrip().partition("\n")[0]
    lines = (line for _, line in wide_lines(path))
    reader = csv.reader(lines, delimiter=_delimiter(first, data) or ",", strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        begun = 1
        try:
            for row in reader:
                yield begun, row
                begun = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}: line {begun}: not CSV: {error}; correct its quotes") from None

    return _table(rows(), path, data)


def _table(rows: Iterator[tuple[int, list[str]]], path: Path, data: DataConfig) -> Iterator[Placed]:
    """Yield two columns of a table: those that are named, those that its heading names, or the first two."""
    first = next(rows, None)
    if first is None:
        return
    columns = _sides(first[1], data)
    has_heading = columns is not None
    if data.columns and all(map(str.isdecimal, data.columns)):
        columns = [int(each) - 1 for each in data.columns]
    elif data.columns:
        columns, has_heading = [_column(each, first[1], path, first[0]) for each in data.columns], True
    one, other = columns or (0, 1)
    for number, cells in rows if has_heading else chain([first], rows):
        place = Place(path, path, number)
        if not any(cells):  # a blank line
            yield "", "", place
        elif len(cells) <= max(one, other):
            raise DataError(f"{place} has {counted(len(cells), 'column')}, but column {max(one, other) + 1} is wanted")
        else:
            yield _on_one_line(cells[one]), _on_one_line(cells[other]), place


def _json_lines(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[Placed]:
    known: dict[tuple[str, ...], tuple[str, str]] = {}  # the keys of an object → those of its sides
    for number, line in wide_lines(path):
        if not line.strip():
            continue
        place = Place(path, path, number)
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not JSON: {error}; write one object on each line") from None
        found = found.get("translation", found) if isinstance(found, dict) else found
        if not isinstance(found, dict):
            raise DataError(f"{place}: not an object with a key for each side; write one on each line")
        keys = tuple(found)
        if keys not in known:
            columns = _sides(keys, data)
            if data.columns:
                columns = [_column(each, keys, path, number) for each in data.columns]
            if columns is None:
                wanted = f"{data.source} and {data.target}, or source and target"
                raise DataError(f"{place}: no keys {wanted}; it has {_shown(keys)}; name two of them as data.columns")
            known = {keys: (keys[columns[0]], keys[columns[1]])}
        source, target = ("" if found[key] is None else found[key] for key in known[keys])
        if not isinstance(source, str) or not isinstance(target, str):
            raise DataError(f"{place}: a side is not text")
        if _SURROGATE.search(source) or _SURROGATE.search(target):
            raise DataError(f"{place}: half a surrogate pair (such as \\ud83d alone), which is no character; mend it")
        yield _on_one_line(source), _on_one_line(target), place


def _tmx(path: Path, data: DataConfig, leave_out: LeaveOut) -> Iterator[Placed]:
    units, number = _Units(path), 0
    known: dict[tuple[str, ...], list[int] | None] = {}  # the languages of a unit → which are the sides
    with unpacked(path) as file:
        while True:
            content = file.read(LOOKED_AT)
            for variants in units.read(content):
                number += 1
                place = Place(path, path, number, "unit")
                codes = tuple(code for code, _ in variants)
                if codes not in known:
                    known = {codes: _sides(codes, data)}
                if sides := known[codes]:
                    source, target = (_on_one_line(variants[side][1]) for side in sides)
                    yield source, target, place
                else:
                    leave_out(WITHOUT, " ".join(codes[:8]), "", place)
            if not content:
                return


class _Units:
    """The units of a TMX document, as expat reports its elements. Holds one unit, of which each text is bounded.

    A unit is a list of (language, text). Text is what stands in <seg> and in <hi> below it; what other inline elements
    hold is not text but codes. Entities of a document's own are refused, and an external DTD is not read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[list[tuple[str, str]]] = []
        self.n_units = self.n_bytes = self.depth = self.codes = 0
        self.variants: list[tuple[str, str]] = []
        self.language = ""
        self.text: str | None = None  # of the <seg> that is open
        self.parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._data
        parser.EntityDeclHandler = lambda *_: self._refuse("declares an entity; TMX needs none: take it out")
        parser.SkippedEntityHandler = lambda name, _: self._refuse(f"&{name[:30]}; is an unknown entity; write it out")

    def read(self, content: bytes) -> list[list[tuple[str, str]]]:
        """Returns the units that end in the next part of the document (b"": its end). Raises DataError."""
        self.found = []
        try:
            self.parser.Parse(content, not content)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code] if error.code in expat.errors.messages else str(error)
            what = f"ends in its middle ({reason}); copy it again" if not content else f"not XML: {reason}; mend it"
            raise DataError(f"{self.path}: line {error.lineno}: {what}") from None
        except (LookupError, ValueError) as error:  # an unknown encoding
            raise DataError(f"{self.path}: line 1: {error}; convert it to UTF-8") from None
        self.n_bytes += len(content)
        if self.n_bytes - self.parser.CurrentByteIndex > MOST_PENDING:
            self._refuse(f"no element ends within {MOST_PENDING:,} bytes; mend it")
        return self.found

    def _refuse(self, reason: str) -> None:
        raise DataError(f"{self.path}: line {self.parser.CurrentLineNumber}: {reason}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > 100:
            self._refuse("more than 100 elements inside each other; mend it")
        name = name.rpartition(":")[2]
        if self.text is not None:
            self.codes += name != "hi" or self.codes > 0
        elif name == "tu":
            self.variants = []
        elif name == "tuv":
            codes = [code for key, code in attributes.items() if key.lower() in ("xml:lang", "lang")]
            self.language = codes[0] if codes else ""
        elif name == "seg":
            self.text = ""

    def _end(self, name: str) -> None:
        self.depth -= 1
        name = name.rpartition(":")[2]
        if self.text is not None and name == "seg" and not self.codes:
            if len(self.variants) < 1_000:
                self.variants.append((self.language, self.text))
            self.text = None
        elif self.text is not None:
            self.codes -= self.codes > 0
        elif name == "tu":
            self.found.append(self.variants)

    def _data(self, text: str) -> None:
        if self.text is not None and not self.codes and len(self.text) <= LONGEST_LINE:
            self.text += text[: LONGEST_LINE + 1]


FORMATS: dict[str, Callable[[Path, DataConfig, LeaveOut], Iterator[Placed]]] = {
    "TMX": _tmx,
    "JSON lines": _json_lines,
    "TSV": _tsv,
    "CSV": _csv,
}


def _beginning(path: Path) -> str:
    """Returns the text at the beginning of a file. Raises DataError if it is of a kind that is known and not read."""
    content = b""
    try:
        with unpacked(path) as file:
            while len(content) < LOOKED_AT and (part := file.read1(LOOKED_AT)):
                content += part
    except DataError:
        if not content:  # else who reads the pairs comes to that place, and says how many stand before it
            raise
    refuse_no_text(content, path)  # what is packed in it
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    wide = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(content[:2], "utf-8-sig")
    return content.decode(wide, "replace")


def _delimiter(heading: str, data: DataConfig) -> str | None:
    """Returns what separates the cells of a CSV whose heading names both sides."""
    heading = heading.removeprefix("\ufeff").rstrip("\r\n").replace('"', "")
    return next((each for each in ",;" if _sides(heading.split(each), data)), None)


def _sides(names: Sequence[str], data: DataConfig) -> list[int] | None:
    """Returns which of some names mean the source and the target: by their languages or their roles; None: not both."""
    found = []
    for language, roles in zip((data.source, data.target), ROLES, strict=True):
        ranks = [1.5 if name.strip().lower() in roles else _rank(name.strip(), language) for name in names]
        best = max(ranks, default=0)
        found.append(ranks.index(best) if best else -1)
    return None if -1 in found or found[0] == found[1] else found


def _rank(code: str, language: str) -> int:
    """Returns how well a code means a language: 2 if it is the same, 1 if it begins so (de-DE for de), 0 if not."""
    code = code.lower().replace("_", "-")
    if code == language.lower().replace("_", "-"):
        return 2
    return int(_LANGUAGE.fullmatch(code) is not None and main_code(code) == main_code(language))


def _column(name: str, names: Sequence[str], path: Path, number: int) -> int:
    """Returns which column has a name."""
    wanted = [index for index, each in enumerate(names) if each.strip().removeprefix("\ufeff") == name]
    if not wanted:
        raise DataError(f"{path}: line {number}: no column {name}; it has {_shown(names)}; correct data.columns")
    return wanted[0]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(name[:30] for name in names[:8]) + (", …" if len(names) > 8 else "")


def _on_one_line(text: str) -> str:
    """Returns a text without line ends; of one that is too long, its beginning, of which `is_too_long` is true."""
    text = text[: LONGEST_LINE + 1]
    return _LINE_ENDS.sub(" ", text) if "\n" in text or "\r" in text else text
