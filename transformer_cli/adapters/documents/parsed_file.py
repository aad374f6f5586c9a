"""A file that has been cut into documents, and what writes it again. Knows no formats."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from transformer_cli.adapters.documents.blocks import Block, Document
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link

Languages = tuple[str, str]
"""The codes of the source and of the target"""

NO_LETTER = "without a letter"  # why a text is kept
LINES = re.compile(r"[^\n]*\n|[^\n]+")
_OF_NAMES = ("idna", "punycode")  # encodings of the names of hosts


@dataclass(frozen=True)
class Opened:
    """A file, cut into what is translated and what is not."""

    documents: Sequence[Document]
    """one, or several that are in the file"""
    write: Callable[..., bytes]
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
        return self.write(*(each.render([next(left) for _ in each.blocks]) for each in self.documents))


def decoded(content: bytes, named: str = "utf-8", errors: str = "strict") -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file, and what writes one in the same encoding. Both raise DataError.

    named: the encoding that the file itself says; a mark at its beginning counts more. errors: what becomes of
    characters that the encoding does not have, as `str.encode` takes it.
    """
    marks = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", b"": named}
    mark, encoding = next((mark, encoding) for mark, encoding in marks.items() if content.startswith(mark))
    remedy = "save the document in UTF-8"

    def encode(text: str) -> bytes:
        try:
            return mark + text.encode(encoding, errors)
        except UnicodeEncodeError as error:
            raise DataError(f"{text[error.start]!r} cannot be written in {encoding}; {remedy}") from None

    try:
        text = content[len(mark) :].decode(encoding)
        comes_back = encoding not in _OF_NAMES and text.encode(encoding) == content[len(mark) :]
    except UnicodeDecodeError as error:
        what = encoding.upper()
        raise DataError(f"byte {len(mark) + error.start + 1} is not {what}; {remedy}") from None
    except (LookupError, UnicodeError):  # such as base64, which Python knows as an encoding of bytes
        comes_back = False
    if not comes_back:
        raise DataError(f"{encoding} is no encoding of text in which the file can be written as it is; {remedy}")
    return text, encode
