"""Reads lines of text, split at "\\n" only, from files that are plain or compressed as .gz, .bz2 or .xz.

Text is UTF-8, or UTF-16 as Windows writes it. Neither whole files nor lines longer than MAX_LINE_CHARS are held in
memory. Knows nothing of the lines' content.
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

from transformer_cli.config.schema import MAX_LINE_CHARS
from transformer_cli.errors import ArgumentError, DataError
from transformer_cli.system.files import STDIO, is_stream, open_input, remedy_for
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.file_formats import refuse_binary

MAX_LINE_BYTES = 4 * (MAX_LINE_CHARS + 1) + 5  # one character more than allowed, byte order mark, line end
MAX_RECORD_BYTES = 1 << 20  # a line may contain both sides of a pair, or a vector
TOO_LONG = f"more than {MAX_LINE_CHARS:,} characters"

PairIterator = Iterator[tuple[str, str]]

COMPRESSIONS: dict[str, tuple[str, "re.Pattern[bytes]", Any]] = {  # suffix → name, first bytes, how to open it
    ".gz": ("gzip", re.compile(rb"\x1f\x8b\x08"), lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": ("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), bz2.BZ2File),
    ".xz": ("xz", re.compile(rb"\xfd7zXZ\0"), lzma.LZMAFile),
}


def decompressed_name(path: Path) -> str:
    """Returns the name of a file without .gz, .bz2 or .xz: a.tmx for a.tmx.gz."""
    return path.stem if path.suffix.lower() in COMPRESSIONS else path.name


class Location(NamedTuple):
    """The location of a pair: in one file, or on the same line of two."""

    source: Path
    target: Path
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.source}: {self.unit} {self.number}"


LocatedPair = tuple[str, str, Location]
"""source, target, and their location"""


def zip_lines(source: Path, target: Path, read: Callable[[Path], Iterator[str]]) -> Iterator[LocatedPair]:
    """Yield pairs of lines of two files. Raises DataError if one file ends first, and as `read` does.

    read: `read_lines` or `truncated_lines`.
    """
    for number, (one, other) in enumerate(zip_longest(read(source), read(target)), start=1):
        if one is None or other is None:
            raise line_count_error(source, target)
        yield one, other, Location(source, target, number)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without their line ends. Raises DataError, also for a line that is too long."""
    for number, text in enumerate(truncated_lines(path), start=1):
        if is_too_long(text):
            raise DataError(f"{path}: line {number} has {TOO_LONG}; split it")
        yield text


def truncated_lines(path: Path) -> Iterator[str]:
    """Like `read_lines`, but truncates a line that is too long; `is_too_long` remains true for it."""
    with open_decompressed(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Like `truncated_lines`, for an open file. name: the file's name in error messages."""
    for number, line in enumerate(_bounded_lines(file, name), start=1):
        is_whole = len(line) < MAX_LINE_BYTES or line.endswith(b"\n")
        text = _decode(line, name, number, is_whole)  # a truncated line loses an incomplete last character
        yield text.removesuffix("\n").removesuffix("\r")[: MAX_LINE_CHARS + 1]


def count_lines(path: Path) -> int:
    """Returns how many lines a file has. Raises DataError."""
    return sum(1 for _ in byte_lines(path))


class ChunkStream(io.RawIOBase):
    """A stream of chunks. Everything before a damaged chunk can be read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks, self.rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.chunks, b"")
        chunk, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)


class Utf8Stream(ChunkStream):
    """Converts a UTF-16 file to UTF-8 as it is read."""


@contextmanager
def open_decompressed(path: Path, *, raw: bool = False) -> Iterator[io.BufferedReader]:
    """Open a file, and decompress it if its first bytes, or else its suffix, are those of a compressed file.

    raw: do not convert UTF-16 to UTF-8, and do not refuse binary files. Raises DataError; if the file is damaged or
    incomplete, only when that part is read, inside the block.
    """
    compression, remedy = None, "copy it again"

    def chunks(file: Any) -> Iterator[bytes]:
        return iter(lambda: file.read1(1 << 16), b"")

    try:
        with open_input(path) as file:
            beginning = file.peek(1)
            compression = next((each for each in COMPRESSIONS.values() if each[1].match(beginning)), None)
            if compression is None and not raw:
                refuse_binary(beginning, path)
            if compression is None and beginning and path.suffix.lower() in COMPRESSIONS:
                compression = COMPRESSIONS[path.suffix.lower()]
                remedy = f"copy it again, or take {path.suffix} off its name"
            stream: io.BufferedReader[Any] = file
            if compression:
                stream = io.BufferedReader(ChunkStream(chunks(compression[2](file))))
            if not raw:
                refuse_binary(stream.peek(4), path)
                if encoding := _utf16_encoding(stream.peek(4)):
                    texts = codecs.iterdecode(chunks(stream), encoding)
                    stream = io.BufferedReader(Utf8Stream(text.encode() for text in texts))
            yield stream
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: incomplete or damaged UTF-16 text ({error.reason}); copy it again, or convert it to UTF-8"
        ) from None
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{path}: cannot be read: {error.strerror}; {remedy_for(error, path)}") from None
        if compression is None:
            raise DataError(f"{path}: cannot be read: {error}; correct the path or its permissions") from None
        raise DataError(f"{path}: incomplete or damaged {compression[0]} file ({error}); {remedy}") from None


def _utf16_encoding(beginning: bytes) -> str | None:
    """Returns the encoding of a file in UTF-16, by its byte order mark or its first two letters; None for others."""
    if beginning[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    zeros = [byte == 0 for byte in beginning[:4]]
    return "utf-16-le" if zeros == [False, True] * 2 else "utf-16-be" if zeros == [True, False] * 2 else None


def byte_lines(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Generator[bytes, None, None]:
    r"""Yield the lines of a file with their line ends, each truncated to `max_bytes` bytes. Raises DataError.

    Lines are split at "\n" alone: text may contain U+2028, form feeds and other characters at which Python splits.
    They may contain any bytes.
    """
    with open_decompressed(path) as stream:
        yield from _bounded_lines(stream, str(path), max_bytes)


def record_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield each line's number, and its text with the line end. Raises DataError for one over MAX_RECORD_BYTES."""
    for number, line in enumerate(byte_lines(path, MAX_RECORD_BYTES), start=1):
        if len(line) == MAX_RECORD_BYTES and not line.endswith(b"\n"):
            what = f"more than {MAX_RECORD_BYTES:,} bytes"
            raise DataError(f"{path}: line {number} has {what}; break it into lines of one pair each")
        yield number, _decode(line, path, number, encoding=encoding)


def _decode(line: bytes, name: Path | str, number: int, is_whole: bool = True, *, encoding: str = "utf-8") -> str:
    """Decode a line, without a byte order mark in the first one. Raises DataError, with `name` and `number`."""
    try:
        text = line.decode(encoding) if is_whole else codecs.utf_8_decode(line, "strict", False)[0]
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: line {number}: byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not "
            f"{encoding.upper()}; convert the file to UTF-8"
        ) from None
    return text.removeprefix("\ufeff") if number == 1 else text


def has_letter(text: Iterable[str]) -> bool:
    """Whether a text has a letter: numbers and punctuation alone need no translation."""
    return any(map(str.isalpha, text))


def trigrams(lines: Iterable[str]) -> set[str]:
    """Returns all runs of up to three characters, whatever their case: what the text of a language has in common."""
    return {line[start : start + 3] for line in map(str.casefold, lines) for start in range(len(line))}


def is_too_long(text: str) -> bool:
    """Whether a line has more than MAX_LINE_CHARS characters."""
    return len(text) > MAX_LINE_CHARS


def refuse_lone_surrogates(text: str, where: str = "") -> None:
    """Raises DataError for a lone surrogate, which no file can contain, and ArgumentError for what is not a str.

    where: begins the message.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"{where}{text!r}, where a str is wanted")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate ({text[error.start]!r}), which is not a character"
        raise DataError(f"{where}character {error.start + 1}: {problem}; correct the text") from None


def line_count_error(source: Path, target: Path) -> DataError:
    """Returns the error for two files that differ in their number of lines; counts them unless one is a stream."""
    if any(each == STDIO or is_stream(each) for each in (source, target)):  # cannot be read again
        return DataError(f"{source} and {target} differ in their number of lines; line n must translate line n")
    n_source, n_target = pluralize(count_lines(source), "line"), count_lines(target)
    return DataError(f"{source} has {n_source}, {target} has {n_target}; line n must translate line n")


def _bounded_lines(file: BinaryIO, name: str, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    r"""Yield lines with their ends, truncated to `max_bytes` bytes.

    The rest of a line is skipped when the next line is requested, so the caller can stop at a line that never ends.
    Raises DataError, naming `name`, if the file is one line with carriage returns: these should be line ends.
    """
    line = last = file.readline(max_bytes)
    if b"\r" in line.rstrip(b"\r\n"):
        last = _skip_rest(file, line, max_bytes)
        if not last.endswith(b"\n"):
            raise DataError(
                f"{name}: carriage returns (CR) and no newlines (LF), so all would be one line; convert its line ends, "
                "for example with `tr '\\r' '\\n'`"
            )
    while line:
        yield line
        _skip_rest(file, last, max_bytes)
        line = last = file.readline(max_bytes)


def _skip_rest(file: BinaryIO, line: bytes, max_bytes: int) -> bytes:
    """Skip the rest of a line of which `max_bytes` bytes were read; returns the last chunk."""
    while len(line) == max_bytes and not line.endswith(b"\n"):
        line = file.readline(max_bytes)
    return line
