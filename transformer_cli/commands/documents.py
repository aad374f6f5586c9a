"""`tfm translate`, for documents and folders of them, and the report of what was translated."""

import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transformer_cli.commands import options
from transformer_cli.errors import DataError, MemoryShortage
from transformer_cli.system import progress
from transformer_cli.system.files import STDIO, atomic_file, delete_unfinished, remedy_for, write_bytes
from transformer_cli.system.terminal import first_few, pluralize

if TYPE_CHECKING:
    from transformer_cli.adapters.documents.translate import TranslatedFile
    from transformer_cli.api import Translator

MAX_LISTED_FILES = 10  # that are copied
SNIFFED_BYTES = 1 << 13  # of a file, to detect its format
REPORT_COLUMNS = ("file", "place", "source", "target", "check", "replaced", "confirmed")
CELL_BREAKS = {ord(char): " " for char in "\t\r\n"}
AddRow = Callable[[str, str, str, str, Sequence[str], str], None]
"""adds a row to the report: file, place, source, target, what to check, replaced translation"""

log = logging.getLogger(__name__)


def check_options(
    path: Path | None,
    form: str,
    text_format: str | None,
    output: Path | None,
    report: Path | None,
    given: Sequence[str],
) -> None:
    """Raises BadParameter, or DataError for an output, if options do not fit a document or folder.

    path: None for standard input. text_format: the value of --format. given: options of lines that are given.
    """
    from transformer_cli.adapters.documents.files import FORMATS

    is_folder = path is not None and os.path.isdir(path)
    what = "a folder is translated as documents" if is_folder else f"--format {form} translates one document"
    if given:
        why = "" if text_format or is_folder else " (by the file's name)"
        raise typer.BadParameter(f"{what}{why}, so {given[0]} cannot be used with it")
    if path and is_folder:
        if text_format:
            raise typer.BadParameter(f"{what}, each in the format of its name; leave out --format")
        if output is None or output == STDIO:
            raise typer.BadParameter("a folder needs another folder to write to; name it with --output")
        options.check_output_folder(output, path)
        options.check_writable(report)
        written = os.path.relpath(report.resolve(), output.resolve()) if report else ".."
        if not written.startswith("..") and (path / written).exists():
            raise typer.BadParameter(f"--report {report}: the translation of a file gets this name; choose another one")
    elif not path and sys.stdin.isatty():
        raise typer.BadParameter(f"--format {form} needs --input FILE, or a pipe")
    elif not FORMATS[form].is_text and output in (None, STDIO):
        raise typer.BadParameter(f"--format {form} is a binary format; name a file with --output")


@contextmanager
def open_report(path: Path | None) -> Iterator[AddRow]:
    """Yields a function that adds a row to the report. After an error, the report has the rows before it."""
    from transformer_cli.text.file_formats import escape_formula

    failure: BaseException | None = None
    with options.open_output(path) if path else nullcontext() as out:

        def add_row(file: str, place: str, source: str, target: str, checks: Sequence[str], replaced: str) -> None:
            if out:
                file = file.encode(errors="replace").decode()  # a name may have bytes that are no text
                cells = (file, place, source, target, "; ".join(checks), replaced, "")
                print("\t".join(escape_formula(cell.translate(CELL_BREAKS)) for cell in cells), file=out)

        if out:
            print("\t".join(REPORT_COLUMNS), file=out)
        try:
            yield add_row
        except BaseException as error:
            failure = error
    if failure:
        raise failure


def translate_file(translator: "Translator", path: Path, form: str, output: Path | None, add_row: AddRow) -> None:
    """Translates a document, and logs counts of its texts. Raises DataError for a file in another format."""
    from transformer_cli.adapters.documents.files import describe_counts

    translated = _translate_content(translator, path, form, add_row)
    if output is None or output == STDIO:
        sys.stdout.write(translated.content.decode(errors="surrogateescape"))
    else:
        with options.name_in_errors(output):
            write_bytes(output, translated.content)
    described = describe_counts(translated.counts, translated.checks)
    log.info("%s: %s", "standard input" if path == STDIO else path, described)


def translate_folder(translator: "Translator", folder: Path, output: Path, add_row: AddRow) -> None:
    """Translates the documents of a folder into another one, copies all other files, and logs counts.

    Keeps existing files. Raises DataError at the end if a file could not be translated; each has an error in the log.
    """
    from transformer_cli.adapters.documents.files import describe_counts, format_by_name, list_files, other_format
    from transformer_cli.text.file_formats import BINARY_NAMES

    paths, others, n_done, n_there, n_failed = list_files(folder), list[str](), 0, 0, 0
    counts, checks = Counter[str](), Counter[str]()
    for each in {(output / path.relative_to(folder)).parent for path in paths}:
        delete_unfinished(each)  # once, not for each file
    with progress.bar("translate", len(paths), " files") as bar:
        for path in paths:
            name, form = path.relative_to(folder), format_by_name(path)
            try:
                if not os.path.isfile(path):  # also false in a folder without permissions
                    raise DataError(f"{path}: a device, broken link or unreadable folder, not a file; put a copy there")
                for place, within in ((path, folder), (output / name, output)):
                    if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(within)):
                        raise DataError(f"{place}: a link that leads out of {within}; replace it by a copy")
                if os.path.exists(output / name):
                    n_there += 1
                elif form:
                    translated = _translate_content(translator, path, form, add_row)
                    with options.name_in_errors(output / name):
                        write_bytes(output / name, translated.content, clean_up=False)
                    counts += translated.counts
                    checks += translated.checks
                    n_done += 1
                else:
                    _copy_file(path, output / name)
                    others.append(str(name))
            except (DataError, MemoryShortage) as error:
                n_failed += 1
                log.error("%s", error)
            bar.update()
    others.sort(key=lambda name: other_format(Path(name))[0] in ("", *BINARY_NAMES))  # first those with text
    copied = f", {len(others):,} copied unchanged ({first_few(others, MAX_LISTED_FILES)})" if others else ""
    there = f", {n_there:,} there already" if n_there else ""
    described = describe_counts(counts, checks)
    log.info("%s: %s translated%s%s; %s", output, pluralize(n_done, "file"), copied, there, described)
    if n_failed:
        failed = f"{pluralize(n_failed, 'file')} of {len(paths):,}"
        raise DataError(f"{folder}: {failed} not translated; see the errors above")


def _translate_content(translator: "Translator", path: Path, form: str, add_row: AddRow) -> "TranslatedFile":
    """Returns a translated document. Raises DataError or MemoryShortage, which name it, as warnings do."""
    from transformer_cli.adapters.documents.files import FORMATS, PLAIN_TEXT, read_content

    content, name = read_content(path, FORMATS[form]), "standard input" if path == STDIO else path
    if form == PLAIN_TEXT:
        options.warn_if_not_plain(content[:SNIFFED_BYTES], name, refuses=True)
    try:
        translated = translator.translate_file(content, form)
    except (DataError, MemoryShortage) as error:
        raise type(error)(f"{name}: {error}") from None
    for warning in translated.warnings:
        log.warning("%s: %s", name, warning)
    last = None
    for place, source, target, checks in translated.texts:
        replaced = place.replaced if place is not last else ""  # once, if its unit has several texts
        add_row(str(path), place.unit + place.part, source, target, checks, replaced)
        last = place
    return translated


def _copy_file(path: Path, to: Path) -> None:
    """Copies a file. Raises DataError."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; {remedy_for(error, path)}") from None
    with file, options.name_in_errors(to), atomic_file(to, clean_up=False) as copy:
        shutil.copyfileobj(file, copy)
