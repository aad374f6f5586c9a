"""Files that people translate: which formats there are, and what is translated of a file. Knows no models.

A format is one entry of `FORMATS`: it cuts the bytes of a file into documents, and puts them together again. Every byte
that is not translated text stays as it was.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.adapters.documents.blocks import Builder, escaping_writer
from transformer_cli.adapters.documents.markup import html_encoding, parse_html
from transformer_cli.adapters.documents.parsed_file import LINE, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.documents.po import parse_po
from transformer_cli.adapters.documents.subtitles import parse_subtitles
from transformer_cli.adapters.documents.word import parse_word
from transformer_cli.adapters.documents.xliff import parse_xliff
from transformer_cli.errors import DataError
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.file_formats import BINARY_NAMES, HTML, MAY_BE_PLAIN, PO, SUFFIXES, XLIFF, refuse_binary
from transformer_cli.text.lines import decompressed_name, open_decompressed

TRANSLATED = "translated"
MISSING_NUMBER, MISSING_TERM, MISSING_TAG = MISSING = ("a number", "a term", "the place of a tag")
MAX_FILE_BYTES = 1 << 28  # bytes of a file that is read, when it is unpacked
PLAIN_TEXT = "text"
"""the format of what has none"""


@dataclass(frozen=True)
class FileFormat:
    """A format of files."""

    names: tuple[str, ...]
    """what a file is called, and what `form_of` calls it"""
    suffixes: tuple[str, ...]
    parse: Callable[[bytes, LanguagePair], ParsedFile]
    """raises DataError for what is no such file, without its name"""
    is_text: bool = True
    """whether it can be printed"""


def read_content(path: Path, file_format: FileFormat) -> bytes:
    """Returns the content of a file, unpacked. Raises DataError if it cannot be read, or is of another kind."""
    with open_decompressed(path, raw=True) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB; translate its parts")
    if file_format.is_text:
        refuse_binary(content[: 1 << 16], path)
    return content


def list_files(folder: Path) -> list[Path]:
    """Returns what is in a folder and in the folders below it, in the order of their names, but for hidden files.

    Links to folders, and folders that cannot be read, are what they are.
    """

    def is_seen(path: Path) -> bool:
        is_hidden = any(part.startswith((".", "~$")) for part in path.relative_to(folder).parts)  # ~$a.docx is open
        is_open = os.path.isdir(path) and not path.is_symlink() and os.access(path, os.R_OK | os.X_OK)
        return not (is_hidden or is_open)

    return sorted(filter(is_seen, folder.rglob("*")))


def describe_counts(counts: Counter[str]) -> str:
    """Returns how many texts were translated and kept, and in how many something is missing, as one line says it."""
    kept = {what: n for what, n in counts.items() if what not in (TRANSLATED, *MISSING)}
    reasons = ", ".join(f"{what} {n:,}" for what, n in kept.items())
    missing = "".join(f", {what} is missing in {counts[what]:,}" for what in MISSING if counts[what])
    of_kept = f", {sum(kept.values()):,} kept ({reasons})" if kept else ""
    return f"{pluralize(counts[TRANSLATED], 'text')} translated{of_kept}{missing}"


def _parse_html_file(content: bytes, languages: LanguagePair) -> ParsedFile:
    text, encode = decode_text(content, html_encoding(content), "xmlcharrefreplace")
    return ParsedFile([parse_html(text, languages)], encode)


def _parse_text(content: bytes, languages: LanguagePair) -> ParsedFile:
    text, encode = decode_text(content)
    build = Builder(escaping_writer(str))
    for line in LINE.findall(text):
        inside = line.strip()
        start = line.index(inside)
        build.end_block(line[:start])
        build.add_text(inside)
        build.end_block(line[start + len(inside) :])
    return ParsedFile([build.document], encode)


FORMATS = {
    PLAIN_TEXT: FileFormat(("plain text",), (".txt",), _parse_text),
    "html": FileFormat((HTML, "a part of an HTML document"), (".html", ".htm", ".xhtml"), _parse_html_file),
    "docx": FileFormat(("a Word document (DOCX)",), (".docx", ".docm", ".dotx"), parse_word, is_text=False),
    "xliff": FileFormat((XLIFF,), (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), parse_xliff),
    "po": FileFormat((PO,), (".po", ".pot"), parse_po),
    "srt": FileFormat(("subtitles (SRT)", "subtitles (WebVTT)"), (".srt", ".vtt"), parse_subtitles),
}


def is_misnamed(path: Path, file_format: str, *, any_text: bool = False) -> bool:
    """Whether a file to be written has the name of another kind.

    file_format: which of FORMATS it is. any_text: whether it may have the name of any kind of text.
    """
    known, other = format_by_name(path), other_kind_by_name(path)
    if any_text:
        return other in BINARY_NAMES or (known is not None and not FORMATS[known].is_text)
    if known == PLAIN_TEXT:
        return not FORMATS[file_format].is_text
    return known != file_format if known else other not in (None, *MAY_BE_PLAIN * (file_format == PLAIN_TEXT))


def format_by_name(path: Path) -> str | None:
    """Returns which of FORMATS a file has, as its name says, packed or not."""
    return next((each for each, file_format in FORMATS.items() if _suffix(path) in file_format.suffixes), None)


def other_kind_by_name(path: Path) -> str | None:
    """Returns the format in `file_formats.SUFFIXES` that a file's name tells; None if there is none."""
    return next((name for name, suffixes in SUFFIXES.items() if _suffix(path) in suffixes.split()), None)


def _suffix(path: Path) -> str:
    return Path(decompressed_name(path)).suffix.lower()
