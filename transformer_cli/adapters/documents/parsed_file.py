"""A file that has been cut into documents, and what writes it again. Knows no formats."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from transformer_cli.adapters.documents.blocks import Block, Document
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link

LanguagePair = tuple[str, str]
"""The codes of the source and of the target"""

NO_LETTER = "without a letter"  # why a text is kept
LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HOSTNAME_CODECS = ("idna", "punycode")  # encodings of the names of hosts


@dataclass(frozen=True)
class ParsedFile:
    """A file, cut into what is translated and what is not."""

    documents: Sequence[Document]
    """one, or several that are in the file"""
    assemble: Callable[..., bytes]
    """returns the file; its arguments are what each of the documents has become"""
    kept: Counter[str] = field(default_factory=Counter)
    """how many texts are not translated, by the reasons"""

    @property
    def blocks(self) -> list[Block]:
        """All that is translated."""
        return [block for document in self.documents for block in document.blocks]

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> bytes:
        """Returns the file with the translations of its blocks; see `Document.render`."""
        left = iter(translations)
        return self.assemble(*(each.render([next(left) for _ in each.blocks]) for each in self.documents))


def decode_text(content: bytes, encoding: str = "utf-8", errors: str = "strict") -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file, and what writes one in the same encoding. Both raise DataError.

    encoding: what the file itself says; a byte order mark counts more. errors: what becomes of
    characters that the encoding does not have, as `str.encode` takes it.
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
        what = encoding.upper()
        raise DataError(f"byte {len(bom) + error.start + 1} is not {what}; {remedy}") from None
    except (LookupError, UnicodeError):  # such as base64, which Python knows as an encoding of bytes
        round_trips = False
    if not round_trips:
        raise DataError(f"{encoding} is not a text encoding that keeps every byte of the file; {remedy}")
    return text, encode
