"""Reads lines of text from files, plain or .gz: UTF-8, split at "\\n" only. Knows nothing of their content.

Never holds the text of a whole file in memory.
"""

import gzip
import io
import logging
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from transformer_cli.errors import DataError
from transformer_cli.files import kind_of

Pairs = Iterator[tuple[str, str]]

log = logging.getLogger(__name__)


def read_pairs(source: Path, target: Path, skip_empty: bool) -> Pairs:
    """Yield the pairs of lines of two files, plain or .gz. Raises DataError as `open_corpus` describes."""
    n_pairs = n_skipped = first_skipped = 0
    with closing(byte_lines(source)) as source_lines, closing(byte_lines(target)) as target_lines:
        for number, lines in enumerate(zip_longest(source_lines, target_lines), start=1):
            if lines[0] is None or lines[1] is None:
                raise out_of_step(source, target)
            pair = decode_line(lines[0], source, number), decode_line(lines[1], target, number)
            if all(side.strip() for side in pair):
                n_pairs += 1
                yield pair
            elif skip_empty:
                n_skipped += 1
                first_skipped = first_skipped or number
            else:
                where = f"{target if pair[0].strip() else source}: line {number}"
                raise DataError(f"{where} is empty; mend it, or set data.skip_empty: true to leave such pairs out")
    if n_skipped:
        what = "%s and %s: pairs with an empty side left out: %d, the first in line %d"
        log.warning(what, source, target, n_skipped, first_skipped)
    if not n_pairs:
        raise DataError(f"{source} and {target}: not one pair of sentences; a split needs at least one")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of one file, plain or .gz, without their line ends. Raises DataError."""
    for number, line in enumerate(byte_lines(path), start=1):
        yield decode_line(line, path, number)


def count_lines(path: Path) -> int:
    """Returns how many lines a plain file has. Raises DataError."""
    try:
        with path.open("rb") as file:
            n_lines, last = 0, b"\n"
            while block := file.read(1 << 20):
                n_lines += block.count(b"\n")
                last = block[-1:]
    except OSError as error:
        raise unreadable(path, error) from None
    return n_lines + (last != b"\n")


def byte_lines(path: Path) -> Generator[bytes, None, None]:
    r"""Yield the lines of one file, plain or .gz, with their line ends. Raises DataError, but does not check for UTF-8.

    Lines are split at "\n" alone: text may hold U+2028, form feeds and other characters at which Python splits.
    """
    try:
        with path.open("rb") as file:  # GzipFile alone reads lines slowly
            yield from io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 16) if path.suffix == ".gz" else file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); copy it again, or take .gz off its name") from None
    except OSError as error:
        raise unreadable(path, error) from None


def decode_line(line: bytes, path: Path | str, number: int) -> str:
    """Decode one line of UTF-8 and take off its line end. Raises DataError, which names `path` and `number`."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: line {number}: byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not "
            "UTF-8; convert the file to UTF-8 (a compressed one must be called .gz)"
        ) from None
    text = text.removesuffix("\n").removesuffix("\r")
    return text.removeprefix("\ufeff") if number == 1 else text  # the byte order mark that some editors write


def unreadable(path: Path, error: OSError) -> DataError:
    """Returns the error for a file that the system does not let us read."""
    return DataError(f"{path}: cannot be read: {error.strerror or error}; correct the path or the permissions")


def out_of_step(source: Path, target: Path) -> DataError:
    """Returns the error for two files that differ in their number of lines; reads both to the end to count them."""
    if "a pipe" in (kind_of(source), kind_of(target)):  # it has been read: its lines cannot be counted any more
        return DataError(f"{source} and {target} differ in their number of lines; line n must translate line n")
    n_source, n_target = (sum(1 for _ in byte_lines(path)) for path in (source, target))
    return DataError(f"{source} has {n_source} lines, {target} has {n_target}; line n must translate line n")
