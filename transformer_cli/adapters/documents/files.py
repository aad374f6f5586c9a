"""The formats of documents, by their names and suffixes, and the files of a folder. Imports no parsers."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.errors import DataError
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.file_formats import BINARY_NAMES, HTML, JSON, MAY_BE_PLAIN, PO, XLIFF, refuse_binary
from transformer_cli.text.languages import is_language_code
from transformer_cli.text.lines import decompressed_name, open_decompressed

TRANSLATED = "translated"
MAX_FILE_BYTES = 1 << 28  # of a file, decompressed
PLAIN_TEXT = "text"
_PLAIN_SUFFIXES = ("", ".", ".src", ".trg", ".tgt", ".ref", ".hyp", ".tok", ".bpe", ".sp", ".lc", ".tc", ".out")
"""those of plain text, perhaps with a number, as in .001 and .ref2; so are codes of languages"""
_ROWS = [row.split("; ") for row in Path(__file__).with_name("other_files.txt").read_text("utf-8").splitlines()]
_OTHER_FILES = {suffix: (name, "".join(how)) for suffixes, name, *how in _ROWS for suffix in suffixes.split()}
"""suffix → what it is, and how to get a document that tfm translates; each may be empty"""


@dataclass(frozen=True)
class FileFormat:
    """A format of documents."""

    names: tuple[str, ...]
    """its name for users, then others that `detect_format` and `other_format` return"""
    suffixes: tuple[str, ...]
    is_text: bool = True
    """whether it can be printed"""
    settings: tuple[str, ...] = ()
    """names of TranslationSettings that are for this format"""


def read_content(path: Path, file_format: FileFormat) -> bytes:
    """Returns the content of a file, decompressed. Raises DataError if it is unreadable, too large or a binary file."""
    with open_decompressed(path, raw=True) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB; translate it in parts")
    if file_format.is_text:
        refuse_binary(content[: 1 << 16], path)
    return content


def list_files(folder: Path) -> list[Path]:
    """Returns the files in a folder and below it, sorted, without hidden ones.

    Does not follow links to folders; lists these and unreadable folders as entries.
    """

    def is_listed(path: Path) -> bool:
        # Word creates ~$a.docx while a.docx is open
        is_hidden = any(part.startswith((".", "~$")) for part in path.relative_to(folder).parts)
        is_searched = os.path.isdir(path) and not path.is_symlink() and os.access(path, os.R_OK | os.X_OK)
        return not (is_hidden or is_searched)

    return sorted(filter(is_listed, folder.rglob("*")))


def describe_counts(counts: Counter[str], to_check: Counter[str]) -> str:
    """Returns one line such as "12 texts translated, 2 kept (fuzzy 2), a number is missing in 1".

    counts: TRANSLATED, and texts that are kept, by reason. to_check: texts by what a person ought to check.
    """
    kept = {what: n for what, n in counts.items() if what != TRANSLATED}
    reasons = ", ".join(f"{what} {n:,}" for what, n in kept.items())
    with_reasons = f", {sum(kept.values()):,} kept ({reasons})" if kept else ""
    checks = "".join(f", {what} in {n:,}" for what, n in sorted(to_check.items()))
    return f"{pluralize(counts[TRANSLATED], 'text')} translated{with_reasons}{checks}"


FORMATS = {
    PLAIN_TEXT: FileFormat(("plain text",), (".txt", ".text")),
    "html": FileFormat((HTML, "a part of an HTML document", "a template of a page"), (".html", ".htm", ".xhtml")),
    "docx": FileFormat(("a Word document (DOCX)",), (".docx", ".docm", ".dotx"), is_text=False),
    "pptx": FileFormat(
        ("a PowerPoint presentation (PPTX)",), (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), is_text=False
    ),
    "epub": FileFormat(("an EPUB book",), (".epub",), is_text=False),
    "odf": FileFormat(("an OpenDocument file",), (".odt", ".ods", ".odp", ".ott", ".ots", ".otp"), is_text=False),
    "xliff": FileFormat((XLIFF,), (".xlf", ".xlf2", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), settings=("renew",)),
    "po": FileFormat((PO,), (".po", ".pot"), settings=("fuzzy", "renew")),
    "json": FileFormat((JSON,), (".json", ".arb")),
    "md": FileFormat(("Markdown",), (".md", ".markdown", ".rmd", ".qmd"), settings=("front_matter",)),
    "mdx": FileFormat(("MDX",), (".mdx",), settings=("front_matter",)),
    "ipynb": FileFormat(("a notebook (Jupyter)",), (".ipynb",)),
    "srt": FileFormat(("subtitles (SRT)", "subtitles (WebVTT)"), (".srt", ".vtt")),
}


def is_misnamed(path: Path, file_format: str, *, any_text: bool = False) -> bool:
    """Whether the suffix of an output file belongs to another format.

    file_format: a key of FORMATS. any_text: whether the suffix of any text format is fine.
    """
    known, (other, _) = format_by_name(path), other_format(path)
    if any_text:
        return other in BINARY_NAMES or (known is not None and not FORMATS[known].is_text)
    if known == PLAIN_TEXT:
        return not FORMATS[file_format].is_text
    fitting = MAY_BE_PLAIN if file_format == PLAIN_TEXT else FORMATS[file_format].names
    return known != file_format if known else other not in ("", *fitting)


def format_by_name(path: Path) -> str | None:
    """Returns the key of FORMATS for a file's suffix, not counting .gz and the like; None if there is none."""
    return next((name for name, file_format in FORMATS.items() if _suffix(path) in file_format.suffixes), None)


def other_format(path: Path) -> tuple[str, str]:
    """Returns the format of a file that tfm does not translate, by its suffix, and how to convert it; "": not known."""
    return _OTHER_FILES.get(_suffix(path), ("", ""))


def may_be_plain_by_name(path: Path) -> bool:
    """Whether a file's suffix is one of plain text, or none: notes, in.txt, train.de, "1. Kapitel", part.001.gz."""
    suffix = _suffix(path).rstrip("0123456789")
    return suffix in (*_PLAIN_SUFFIXES, *FORMATS[PLAIN_TEXT].suffixes) or " " in suffix or is_language_code(suffix[1:])


def _suffix(path: Path) -> str:
    return Path(decompressed_name(path)).suffix.lower()
