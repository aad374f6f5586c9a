"""Documents that strangers send: refused before they are parsed if they could take much memory. Knows no HTTP."""

import re
from pathlib import PurePosixPath

from transformer_cli.adapters.documents.archive import MEDIA, Archive
from transformer_cli.adapters.documents.files import FORMATS
from transformer_cli.errors import DataError
from transformer_cli.text.file_formats import refuse_binary

MAX_PARTS = 120_000  # each of which may become a block; in Word, it has six tags, else two
_PARTS = {  # what may begin a block, a tag or another part: characters, escapes, references of tabs and line ends
    "json": rb'["<{|$]|\\[^u]',
    "po": rb"[<{\n%]|\\.",
    "xliff": rb"[<{\n\t]|&#(?:0*(?:9|10)|x0*[9aA]);",
    "srt": rb"[<{\n&\\]",
    **dict.fromkeys(("md", "mdx"), rb"[<{\n|*_`$\[\\]"),
    "ipynb": rb"[<{|*_`$\[]|\\[^u]",
}
MAX_UNPACKED_BYTES = 16 << 20  # of an archive
MAX_CHARS = 300_000  # of text


def check_upload(name: str, content: bytes) -> str:
    """Returns the key of `files.FORMATS` for a document, by its name. Raises DataError, in LibreTranslate's words."""
    suffix = PurePosixPath(name).suffix.lower()
    found = next((key for key, each in FORMATS.items() if suffix in each.suffixes), None)
    if found is None:
        raise DataError("Invalid request: file format not supported")
    if FORMATS[found].is_text:
        refuse_binary(content[: 1 << 16], name[:100])
        n_parts = sum(1 for _ in re.finditer(_PARTS.get(found, rb"[<{\n]"), content))
    else:
        archive = Archive(content, MAX_UNPACKED_BYTES)
        texts = (archive.read(name) or b"" for name in archive.names if not name.lower().endswith(MEDIA))
        counts = (sum(map(text.count, (b"<", b"{", b"\t"))) for text in texts)
        n_parts = sum(counts) // (5 if found in ("docx", "pptx") else 2)
    if n_parts > MAX_PARTS:
        raise DataError(f"more than {MAX_PARTS:,} lines and tags; send the document in parts")
    return found


def translated_name(name: str, language: str) -> str:
    """Returns a name for the translation: Brief an Anna.docx → Brief_an_Anna_en.docx."""
    path = PurePosixPath(name.replace("\\", "/"))
    return re.sub(r"[^\w.-]+", "_", path.stem)[:100] + f"_{language}{path.suffix}"
