"""A file parsed into documents, and how to write it with translations. Knows no formats."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from transformer_cli.adapters.documents.blocks import Block, Document
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link
from transformer_cli.text.languages import MULTILINGUAL
from transformer_cli.text.normalization import primary_subtag

LanguagePair = tuple[str, str]
"""The codes of the source and target language"""

NO_LETTER = "without a letter"  # the reason why a text is kept
LINE = re.compile(r"[^\n]*\n|[^\n]+")
ANY_LANGUAGE = "xx"  # of a run whose language spaCy does not have
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
    warnings: Sequence[str] = ()

    @property
    def blocks(self) -> list[Block]:
        return [block for document in self.documents for block in document.blocks]

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> bytes:
        """Returns the file with the translations of its blocks; see `Document.render`."""
        remaining = iter(translations)
        return self.assemble(*(each.render([next(remaining) for _ in each.blocks]) for each in self.documents))


def refuse_other_languages(named: LanguagePair, languages: LanguagePair) -> None:
    """Raises DataError if a file names other languages than the run's. named: "" where it names none."""
    if any(is_other_language(name, own) for name, own in zip(named, languages, strict=True)):
        source, target = (name[:40] or own for name, own in zip(named, languages, strict=True))
        what = f"asks for a translation from {source} to {target}, but the run translates from {{}} to {{}}"
        raise DataError(f"{what.format(*languages)}; use another run, or insist with any_language (--any-language)")


def is_other_language(named: str, own: str) -> bool:
    """Whether a file names another language than the run's. Regions and scripts may differ: en_GB, sr@latin."""
    name = re.split("[@.]", named)[0]
    return bool(name) and own not in (ANY_LANGUAGE, MULTILINGUAL) and primary_subtag(name) != primary_subtag(own)


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
