"""Reads lines of text from files, plain, .gz, .bz2 or .xz: split at "\\n" only. Knows nothing of their content.

Text is UTF-8, or UTF-16 as Windows writes it.

Never holds the text of a whole file in memory, nor a whole line that is longer than MAX_LINE_CHARS.
"""

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from transformer_cli.errors import DataError
from transformer_cli.system.files import STDIO, is_stream, open_input
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.file_formats import refuse_binary

MAX_LINE_CHARS = 4_000  # characters: attention takes memory and time for each pair of tokens
MAX_LINE_BYTES = (
    4 * (MAX_LINE_CHARS + 1) + 5
)  # of a line that is read: one character too many, byte order mark, line end

MAX_RECORD_BYTES = (
    1 << 20
)  # bytes of a line that holds both sides of a pair, and perhaps more, or the numbers of a vector

TOO_LONG = f"more than {MAX_LINE_CHARS:,} characters"

PairIterator = Iterator[tuple[str, str]]

COMPRESSIONS: dict[str, tuple[str, "re.Pattern[bytes]", Any]] = {  # suffix → what it is, how it begins, what unpacks it
    ".gz": ("gzip", re.compile(rb"\x1f\x8b\x08"), lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": ("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), bz2.BZ2File),
    ".xz": ("xz", re.compile(rb"\xfd7zXZ\0"), lzma.LZMAFile),
}


def decompressed_name(path: Path) -> str:
    """Returns the name that a file has when it is unpacked: a.tmx of a.tmx.gz."""
    return path.stem if path.suffix.lower() in COMPRESSIONS else path.name


class Location(NamedTuple):
    """Where a pair stands: in one file, or in the same line of two."""

    source: Path
    target: Path
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.source}: {self.unit} {self.number}"


LocatedPair = tuple[str, str, Location]
"""A pair, and where it stands"""


def zip_lines(source: Path, target: Path, read: Callable[[Path], Iterator[str]]) -> Iterator[LocatedPair]:
    """Yield the lines of two files side by side. Raises DataError if one of them ends first, and as `read` does.

    read: `read_lines` or `truncated_lines`.
    """
    for number, (one, other) in enumerate(zip_longest(read(source), read(target)), start=1):
        if one is None or other is None:
            raise line_count_error(source, target)
        yield one, other, Location(source, target, number)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of one file, plain or packed, without their line ends. Raises DataError, also for a long line."""
    for number, text in enumerate(truncated_lines(path), start=1):
        if is_too_long(text):
            raise DataError(f"{path}: line {number} has {TOO_LONG}; split it")
        yield text


def truncated_lines(path: Path) -> Iterator[str]:
    """Like `read_lines`, but a line that is too long comes as its beginning, of which `is_too_long` is true."""
    with open_decompressed(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Like `truncated_lines`, for a file that is open. name: what errors call it."""
    for number, line in enumerate(_bounded_lines(file, name), start=1):
        is_whole = len(line) < MAX_LINE_BYTES or line.endswith(b"\n")
        text = _decode(line, name, number, is_whole)  # else the last character may be cut, and is left out
        yield text.removesuffix("\n").removesuffix("\r")[: MAX_LINE_CHARS + 1]


def count_lines(path: Path) -> int:
    """Returns how many lines a file has. Raises DataError."""
    return sum(1 for _ in byte_lines(path))


class ChunkStream(io.RawIOBase):
    """A stream of parts. What stands before a damaged place can be read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.parts, self.rest = parts, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.parts, b"")
        part, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


class Utf8Stream(ChunkStream):
    """UTF-16 as UTF-8."""


@contextmanager
def open_decompressed(path: Path, *, raw: bool = False) -> Iterator[io.BufferedReader]:
    """Open a file, and unpack it if it is packed: its content says so, or else its name. UTF-16 is read as UTF-8.

    raw: whether to read any bytes as they are. Raises DataError, otherwise also for a file that is no text. What
    is damaged or cut off is an error while it is read, inside the block.
    """
    packing, remedy = None, "copy it again"

    def parts(file: Any) -> Iterator[bytes]:
        return iter(lambda: file.read1(1 << 16), b"")

    try:
        with open_input(path) as file:
            beginning = file.peek(1)
            packing = next((each for each in COMPRESSIONS.values() if each[1].match(beginning)), None)
            if packing is None and not raw:
                refuse_binary(beginning, path)
            if packing is None and beginning and path.suffix.lower() in COMPRESSIONS:
                packing, remedy = (
                    COMPRESSIONS[path.suffix.lower()],
                    f"copy it again, or take {path.suffix} off its name",
                )
            stream: io.BufferedReader[Any] = (
                io.BufferedReader(ChunkStream(parts(packing[2](file)))) if packing else file
            )
            if not raw:
                if encoding := _utf16_encoding(stream.peek(4)):
                    texts = codecs.iterdecode(parts(stream), encoding)
                    stream = io.BufferedReader(Utf8Stream(text.encode() for text in texts))
                refuse_binary(stream.peek(1), path)
            yield stream
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not whole UTF-16 text ({error.reason}); copy it again, or convert it to UTF-8"
        ) from None
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if packing is None or getattr(error, "errno", None) is not None:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{path}: cannot be read: {reason}; correct the path or the permissions") from None
        raise DataError(f"{path}: not a whole {packing[0]} file ({error}); {remedy}") from None


def _utf16_encoding(beginning: bytes) -> str | None:
    """Returns the encoding of a file that begins as UTF-16 does: by its mark, or a zero beside each of two letters."""
    if beginning[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    zeros = [byte == 0 for byte in beginning[:4]]
    return "utf-16-le" if zeros == [False, True] * 2 else "utf-16-be" if zeros == [True, False] * 2 else None


def byte_lines(path: Path, most: int = MAX_LINE_BYTES) -> Generator[bytes, None, None]:
    r"""Yield the lines of one file, plain or packed, with their line ends. Raises DataError, but not for other bytes.

    Lines are split at "\n" alone: text may hold U+2028, form feeds and other characters at which Python splits. Of a
    line of more than `most` bytes, only that many come.
    """
    with open_decompressed(path) as stream:
        yield from _bounded_lines(stream, str(path), most)


def record_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, with its end, however long its parts are. Raises DataError."""
    for number, line in enumerate(byte_lines(path, MAX_RECORD_BYTES), start=1):
        if len(line) == MAX_RECORD_BYTES and not line.endswith(b"\n"):
            raise DataError(
                f"{path}: line {number} has more than {MAX_RECORD_BYTES:,} bytes; break it into lines of one pair each"
            )
        yield number, _decode(line, path, number, encoding=encoding)


def _decode(line: bytes, name: Path | str, number: int, is_whole: bool = True, *, encoding: str = "utf-8") -> str:
    """Decode a line without the byte order mark that some editors write. Raises DataError, with `name` and `number`."""
    try:
        text = line.decode(encoding) if is_whole else codecs.utf_8_decode(line, "strict", False)[0]
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: line {number}: byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not "
            f"{encoding.upper()}; convert the file to UTF-8"
        ) from None
    return text.removeprefix("\ufeff") if number == 1 else text


def has_letter(text: Iterable[str]) -> bool:
    """Whether a text can be translated: numbers and marks alone are in no language."""
    return any(map(str.isalpha, text))


def is_too_long(text: str) -> bool:
    """Whether a line has more than MAX_LINE_CHARS characters."""
    return len(text) > MAX_LINE_CHARS


def refuse_lone_surrogates(text: str, where: str = "") -> None:
    """Raises DataError for half a surrogate pair, which Python's text can hold and no file. where: of the text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"half a surrogate pair ({text[error.start]!r}), which is no character"
        raise DataError(f"{where}character {error.start + 1}: {half}; mend the text") from None


def line_count_error(source: Path, target: Path) -> DataError:
    """Returns the error for two files that differ in their number of lines; reads both to the end to count them."""
    if any(each == STDIO or is_stream(each) for each in (source, target)):  # it cannot be read once more
        return DataError(f"{source} and {target} differ in their number of lines; line n must translate line n")
    n_source, n_target = count_lines(source), count_lines(target)
    return DataError(
        f"{source} has {pluralize(n_source, 'line')}, {target} has {n_target}; line n must translate line n"
    )


def _bounded_lines(file: BinaryIO, name: str, most: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    r"""Yield lines with their ends. Of a line of more than `most` bytes only so many come; the rest is passed over.

    It is passed over when the next line is wanted: whoever stops at a line that never ends does not wait for its end.
    Raises DataError, naming `name`, if all is one line with carriage returns in it: these were to end its lines.
    """
    is_first = True
    while line := file.readline(most):
        last = line
        if is_first and b"\r" in line.rstrip(b"\r\n") and not (last := _skip_rest(file, line, most)).endswith(b"\n"):
            raise DataError(
                f"{name}: carriage returns (CR) and no newlines (LF), so all would be one line; convert its line ends, "
                "for example with `tr '\\r' '\\n'`"
            )
        is_first = False
        yield line
        _skip_rest(file, last, most)


def _skip_rest(file: BinaryIO, line: bytes, most: int) -> bytes:
    """Pass over what is left of a line of which `most` bytes were read; returns the last part."""
    while len(line) == most and not line.endswith(b"\n"):
        line = file.readline(most)
    return line
