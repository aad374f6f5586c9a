"""Detects formats of files by their first bytes or their names: binary formats, markup, catalogues, tables."""

import codecs
import re
import unicodedata
from contextlib import suppress
from pathlib import Path

from transformer_cli.errors import DataError

HTML, TMX, TBX, JSON = "an HTML document", "a translation memory (TMX)", "a term base (TBX)", "JSON"
XLIFF, PO = "a translation file (XLIFF)", "a message catalogue (PO)"
SUBWORD_TEXT = "text that is cut into subwords"
XML = (HTML, TBX, "XML")

_ASCII = rb"(?![\0-\x7f]*?(?:charset|encoding)=)[\0-\x7f]*?"  # where the file does not name its encoding itself
_BINARY = {  # format and remedy → first bytes; several formats are ZIP archives
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "an Excel workbook (XLSX); save it as .ods to translate it, or as CSV to train on it": rb"PK\x03\x04.*?xl/",
        "a Word document (DOCX); export its text": rb"PK\x03\x04.*?word/",
        "a PowerPoint presentation (PPTX); export its text": rb"PK\x03\x04.*?ppt/",
        "an EPUB book; export its text": rb"PK\x03\x04.{26}mimetypeapplication/epub",
        "an InDesign document (IDML); convert it by `idml2po`": rb"PK\x03\x04.{26}mimetypeapplication/vnd\.adobe\.",
        "an OpenDocument file; export its text": rb"PK\x03\x04.{26}mimetype",
        "a ZIP archive; unpack it, and name the files in it": rb"PK\x03\x04",
        "a tar archive; unpack it, and name the files in it": rb".{257}ustar",
        "an archive of an unsupported kind; compress the text as .gz or .xz": rb"7z\xbc\xaf|Rar!|\x28\xb5\x2f\xfd",
        "a PDF; save it as .docx to translate it, or export its text": rb"%PDF-",
        "an old or a password-protected Office document; save it as DOCX or PPTX": rb"\xd0\xcf\x11\xe0",
        "an RTF document; save it as .docx": rb"\{\\rtf",
        "a Parquet or Arrow file; write it as JSON lines": rb"PAR1|ARROW1|FEA1|\xff{4}.{2}\0\0",
        "a database (SQLite), such as an SDLTM; export its text (an SDLTM as TMX)": rb"SQLite format 3\0",
        "a picture; give a text file": rb"\x89PNG|\xff\xd8\xff|GIF8",
        "numbers (NumPy, HDF5); give a text file": rb"\x93NUMPY|\x89HDF",
        "a compiled message catalogue (MO); take its PO file": rb"\xde\x12\x04\x95|\x95\x04\x12\xde",
        **{  # encodings that may pass for UTF-8
            f"text in {name}; convert it, as in `{program} -f {name} -t UTF-8`": sign
            for name, program, sign in (
                ("UTF-32", "iconv", rb"\xff\xfe\0\0|\0\0\xfe\xff"),
                ("UTF-32LE", "iconv", rb"(?:(?!\0\0\0)..[\0-\2]\0){3}"),
                ("UTF-32BE", "iconv", rb"(?:\0[\0-\2](?!\0\0)..){3}"),
                ("UTF-16LE", "iconv", rb"(?:[ -~\t\r\n]\0)*(?:.[\1-\x08\x0e-\x1f]){3}"),  # Cyrillic, without a mark
                ("UTF-16BE", "iconv", rb"(?:\0[ -~\t\r\n])*(?:[\1-\x08\x0e-\x1f].){3}"),
                ("ISO-2022-JP", "iconv", _ASCII + rb"\x1b\$(?:[@B]|\([DOPQ])"),
                ("ISO-2022-KR", "iconv", _ASCII + rb"\x1b\$\)C"),
                ("ISO-2022-CN", "iconv", _ASCII + rb"\x1b\$\)[AG]"),
                ("HZ", "uconv", _ASCII + rb"~\{(?:[!-w][!-~])+~\}"),
            )
        },
    }.items()
}
_FORMULA = re.compile("'*[=+@＝＋＠－-]")  # as spreadsheets see it, also behind signs that were put before it
EAST_ASIAN_SCRIPTS = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "IDEOGRAPHIC"}
_UTF_7 = re.compile(rb"\+[A-Za-z0-9+/]{3,}")

# Each pattern can match in one way only, so that matching takes linear time.
_COMMENT = r"<!--(?:[^-]|-(?!->))*-->\s*"
_BEFORE = rf"(?:<\?[^>]*>\s*|{_COMMENT}|<!DOCTYPE[^>]*>\s*)*"
_TEXT_FORMATS = {
    name: re.compile(rf"(?:\xef\xbb\xbf)?\s*(?:{pattern})".encode("latin-1"), re.IGNORECASE | re.DOTALL)
    for name, pattern in {
        HTML: rf"{_BEFORE}<(?:html|head|body)\b",
        "a part of an HTML document": rf"{_BEFORE}<(?:p|div|h1)\b",
        XLIFF: rf"{_BEFORE}<(?:\w+:)?xliff\b",
        TBX: rf"{_BEFORE}(?:<(?:martif|tbx)\b|<!DOCTYPE\s+martif\b)",
        TMX: rf"{_BEFORE}(?:<(?:\w+:)?tmx\b|<!DOCTYPE\s+tmx\b)",
        "XML": rf"<\?xml\b|<!DOCTYPE\b|{_COMMENT}<\w|</?(?:mtf|tuv?|seg|prop|note|header|trans-unit|target)\b",
        "subtitles (SRT)": r"\d+[ \t\r]*\n\d+:\d\d:\d\d[,.]\d+ --> ",
        "subtitles (WebVTT)": r"WEBVTT\b",
        "subtitles (SBV)": r"\d+:\d\d:\d\d\.\d+,\d+:\d\d:\d\d\.\d+\s",
        PO: r"(?:#[^\n]*\n\s*)*msg(?:ctxt|id) ",
        JSON: r"[\[{]\s*[\[{\"]",
        "a table (TSV)": r"\S[^\t\n]*\t[^\S\t\n]*\S",
        SUBWORD_TEXT: r"(?=\S)[^\n]*?(?:@@ |\xe2\x96\x81\w)",  # ▁
    }.items()
}

BINARY_NAMES = ("a PDF", "a document of another program", "a picture")
MAY_BE_PLAIN = ("a table (CSV)", "a table (TSV)", "a part of an HTML document", JSON, SUBWORD_TEXT)


def escape_formula(cell: str) -> str:
    """Returns a cell of a table with a ' in front of what a spreadsheet would compute, such as =A1.

    A text that begins like the result, '=A1, gets a second sign.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Returns the cell from which `escape_formula` made this one: '=A1 gives =A1, and ''=A1 gives '=A1."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


def detect_format(beginning: bytes) -> str | None:
    """Returns the format of a text with these first bytes; None if it seems to be plain text."""
    return next((name for name, pattern in _TEXT_FORMATS.items() if pattern.match(beginning)), None)


def refuse_binary(beginning: bytes, name: Path | str) -> None:
    """Raises DataError if these are the first bytes of a binary file, such as a Word document. name: the file's."""
    for what, pattern in _BINARY.items():
        if pattern.match(beginning):
            raise DataError(f"{name}: {what}")
    if beginning.isascii() and len(_UTF_7.findall(beginning)) > 2:
        with suppress(UnicodeDecodeError):
            letters = [char for char in codecs.getincrementaldecoder("utf-7")().decode(beginning) if char > "\x7f"]
            scripts = {unicodedata.name(char, "?").split()[0] for char in letters if char.isalpha()}
            # you+12345678 and the like are decoded by chance, to letters of several scripts or to symbols
            is_chance = {"Cn", "Co", "Sm", "So"}.intersection(map(unicodedata.category, letters))
            if scripts and len(scripts - EAST_ASIAN_SCRIPTS) < 2 and not is_chance:
                raise DataError(f"{name}: text in UTF-7; convert it, as in `iconv -f UTF-7 -t UTF-8`")
