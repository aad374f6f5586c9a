"""Formats of files, detected by their first bytes."""

import pytest

from transformer_cli.text.file_formats import detect_format


@pytest.mark.parametrize(
    ("beginning", "form"),
    [
        *(("Ein Hund läuft.\nEin Mann schläft.\n", None), ("1\n2\n3\n", None), ("[lacht] Ein Hund.\n", None)),
        *(("<b>Ein Hund</b> läuft.\n", None), ("", None)),
        ("\ufeff<!DocType html>\n<!-- a -->\n<HTML lang=de>", "an HTML document"),
        ('<?xml version="1.0"?>\n<xliff version="1.2">', "a translation file (XLIFF)"),
        ('<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">', "a translation memory (TMX)"),
        ('<?xml version="1.0"?>\n<rss>', "XML"),
        ("1\r\n00:00:01,000 --> 00:00:02,000\r\nEin Hund.\r\n", "subtitles (SRT)"),
        ("<!-- a --><rss>", "XML"),
        ("<p>Ein Hund</p>", "a part of an HTML document"),
        ("\ufeffWEBVTT\n\n00:01.000 --> 00:02.000\nEin Hund.\n", "subtitles (WebVTT)"),
        ('# Ein Kommentar\n#: a.c:1\nmsgid ""\nmsgstr ""\n', "a message catalogue (PO)"),
        ('{"de": "Ein Hund"}\n', "JSON"),
        ('[\n  {"de": "Ein Hund"}\n]\n', "JSON"),
        ("Ein Hund\tA dog\n", "a table (TSV)"),
        ("# " * 4000, None),  # none of these may take long
        ("<!-- --> " * 900, None),
        (" " * 4000 + "x" * 4000, None),
    ],
)
def test_detect_format_by_first_bytes(beginning: str, form: str | None) -> None:
    assert detect_format(beginning.encode()) == form
