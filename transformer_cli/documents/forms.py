"""Text that is not plain: markup, subtitles, catalogues, tables, as its beginning tells. Knows no remedy."""

import re

# Each pattern can match in one way only, so that no beginning takes long.
_BEFORE = r"(?:<\?xml[^>]*>\s*|<!--(?:[^-]|-(?!->))*-->\s*|<!DOCTYPE[^>]*>\s*)*"
_FORMS = {
    name: re.compile(rf"\ufeff?\s*(?:{pattern})", re.IGNORECASE | re.DOTALL)
    for name, pattern in {
        "an HTML document": rf"{_BEFORE}<(?:html|head|body|p|div|h1)\b",
        "a translation file (XLIFF)": rf"{_BEFORE}<xliff\b",
        "a translation memory (TMX)": rf"{_BEFORE}<tmx\b",
        "XML": r"<\?xml\b|<!DOCTYPE\b",
        "subtitles (SRT)": r"\d+[ \t\r]*\n\d+:\d\d:\d\d[,.]\d+ --> ",
        "subtitles (WebVTT)": r"WEBVTT\b",
        "a message catalogue (PO)": r"(?:#[^\n]*\n\s*)*msg(?:ctxt|id) ",
        "JSON": r"[\[{]\s*[\[{\"]",
        "a table (TSV)": r"\S[^\t\n]*\t[^\S\t\n]*\S",
    }.items()
}


def form_of(beginning: str) -> str | None:
    """Returns what a text that begins so seems to be, if it is not plain."""
    return next((name for name, pattern in _FORMS.items() if pattern.match(beginning)), None)
