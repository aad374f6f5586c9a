"""A file parsed into documents, and how to write it with translations. Knows no formats."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from transformer_cli.adapters.documents.blocks import Block, Document
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link

LanguagePair = tuple[str, str]
"""The codes of the source and target language"""

NO_LETTER, OTHER_LANGUAGE = "without a letter", "in another language"  # why a text is kept
MOSTLY_OTHER = "over half of the text is marked as another language than {}; it is translated all the same"
LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HOSTNAME_CODECS = ("idna", "punycode")


@dataclass(frozen=True)
class ParsedFile:
    """A file, parsed into text to translate and everything else."""

    documents: Sequence[Document]
    """one; of a Word file, one for each part"""
    assemble: Callable[..., bytes]
    """makes the content of the file from its rendered documents"""
    kept: Counter[str] = field(default_factory=Counter)
    """how many texts are not translated, by reason"""
    languages: Sequence[LanguagePair] = ()
    """those that the file names; "" for one that it does not name"""
    warnings: Sequence[str] = ()

    @property
    def blocks(self) -> list[Block]:
        return [block for document in self.documents for block in document.blocks]

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> bytes:
        """Returns the file with the translations of its blocks; see `Document.render`."""
        remaining = iter(translations)
        return self.assemble(*(each.render([next(remaining) for _ in each.blocks]) for each in self.documents))


def parse_marked(parse: Callable[[str], list[Document]], language: str) -> list[Document]:
    """Parse a file without the text that is marked as another language, unless that is over half of its text.

    parse: takes a language, and leaves out text that is marked as another one; with "", it parses all text.
    """
    found = parse(language)
    if any(each.n_other_language for each in found):
        whole = parse("")
        n_chars, n_all = (sum(len(block.source) for one in each for block in one.blocks) for each in (found, whole))
        if 2 * n_chars < n_all:
            return [replace(each, is_mostly_other=True) for each in whole]
    return found


def decode_text(content: bytes, encoding: str = "utf-8", errors: str = "strict") -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file, and a function that encodes text in the same way. Both raise DataError.

    encoding: the declared one; a byte order mark overrides it. errors: see `str.encode`.
    """
    boms = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", b"": encoding}
    bom, encoding = next((bom, encoding) for bom, encoding in boms.items() if content.startswith(bom))
    remedy = "save the document in UTF-8"

    def encode(text: str) -> bytes:
        try:
            return bom + text.encode(encoding, errors)
        except UnicodeEncodeError as error:
            raise DataError(f"{text[error.start]!r} cannot be written in {encoding}; {remedy}") from None

    try:
        text = content[len(bom) :].decode(encoding)
        round_trips = encoding not in _HOSTNAME_CODECS and text.encode(encoding) == content[len(bom) :]
    except UnicodeDecodeError as error:
        raise DataError(f"byte {len(bom) + error.start + 1} is not {encoding.upper()}; {remedy}") from None
    except (LookupError, UnicodeError):  # such as base64, a codec of Python's for bytes
        round_trips = False
    if not round_trips:
        raise DataError(f"{encoding} is not a text encoding that keeps every byte of the file; {remedy}")
    return text, encode
