"""`tfm translate`: sentences from arguments, a file, a pipe or a terminal, and documents."""

import io
import json
import logging
import os
import select
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import typer

from transformer_cli.commands import options, streams
from transformer_cli.errors import DataError, MemoryShortage
from transformer_cli.system import progress, terminal
from transformer_cli.system.files import STDIO, atomic_file, delete_unfinished, is_stream, remedy_for, write_bytes
from transformer_cli.system.terminal import first_few, pluralize

if TYPE_CHECKING:
    from transformer_cli.adapters.documents.translate import TranslatedFile
    from transformer_cli.api import Translator
    from transformer_cli.pipeline import Translation

CHUNK_LINES = 4000  # lines that are read and translated at a time: enough batches for many cores
IDLE_S = 0.05  # after such a pause in a pipe, the lines so far are translated: the writer may wait for them
CHUNK_LINES_ON_TERMINAL = 20  # on a terminal: slower, but lines appear steadily
MAX_LISTED_LINES = 10  # line numbers in a warning
MAX_SAMPLED_LINES = 100  # lines in which several sentences are counted
SNIFFED_BYTES = 1 << 13  # of a file, to detect its format
PARAGRAPH_SHARE = 0.2  # share of lines with several sentences above which a warning is printed

REPORT_COLUMNS = ("file", "place", "source", "target", "check", "replaced", "confirmed")
CELL_BREAKS = {ord(char): " " for char in "\t\r\n"}
AddRow = Callable[[str, str, str, str, Sequence[str], str], None]
"""adds a row to the report: file, place, source, target, what to check, replaced translation"""

log = logging.getLogger(__name__)


def translate(
    sentences: Annotated[list[str] | None, typer.Argument(
        metavar="[SENTENCE]...", show_default="standard input", help="The sentences to translate.")] = None,
    input_file: Annotated[Path | None, options.Input(
        "--input", "-i", metavar="FILE", help="A file to translate: lines of text, or a document. Or a folder of "
        "documents.")] = None,
    text_format: Annotated[Literal["text", "html", "docx", "xliff", "po", "srt"] | None, options.Input(
        "--format", show_default="by the file's name", help="The format of the input: lines of text, or a type of "
        "document.")] = None,
    to: options.ToLanguage = None,
    split_sentences: Annotated[bool | None, options.Input(
        "--split-sentences/--no-split-sentences", show_default="in interactive use and in .txt files",
        help="Split each line into sentences, and translate them one by one.")] = None,
    on_too_long: Annotated[Literal["stop", "blank", "copy", "truncate"], options.Input(
        "--on-too-long", help="What to do with a line that is too long: stop with an error, print a blank line, copy "
        "it, or truncate it and translate its beginning.")] = "stop",
    run: options.Runs = None,
    search: options.SearchOverrides = None,
    beam_size: options.BeamSize = None,
    prefix: Annotated[str, options.Search(
        "--prefix", metavar="TEXT", show_default=False, help="Begin each translation with this text.")] = "",
    max_tokens: Annotated[int | None, options.Search(
        "--max-tokens", metavar="N", show_default="2 × source tokens + 10", min=1, max=10_000, help="The maximum "
        "number of tokens in a translation.")] = None,
    device: options.Device = "auto",
    output: Annotated[Path | None, options.Output(
        "--output", "-o", metavar="FILE", help="The file to write, which appears once it is complete; for a folder of "
        "input, the folder to write.")] = None,
    report: Annotated[Path | None, options.Output(
        "--report", metavar="FILE.tsv", help="Also write a table of all texts: file, place, source, target and what to "
        "check. `tfm prepare` reads the rows that somebody has confirmed.")] = None,
    glossary: options.Glossary = None,
    protect: Annotated[bool, options.Input(
        "--protect/--no-protect", help="Copy placeholders ({name}, %s), URLs and e-mail addresses unchanged.")] = True,
    protect_pattern: options.ProtectPattern = "",
    n_best: Annotated[int | None, options.Output(
        "--n-best", metavar="N", min=1, max=1000, help="Print the N best translations of each sentence, each as line "
        "number, score and text, separated by tabs. Needs a beam of at least N, or sampling.")] = None,
    keep_unk: Annotated[bool, options.Output(
        "--keep-unk", help="Keep <unk> in the translation instead of copying the source word with the most "
        "attention.")] = False,
    fuzzy: Annotated[bool, options.Output(
        "--fuzzy", help="In a catalogue (.po), flag translated messages as fuzzy, so that msgfmt leaves them out until "
        "someone has checked them. Otherwise a comment marks them as machine translation.")] = False,
    renew: Annotated[bool, options.Input(
        "--renew", help="In catalogues and XLIFF, also replace machine translations that nobody has touched. In XLIFF, "
        "those of other engines look the same.")] = False,
    any_language: Annotated[bool, options.Input(
        "--any-language", help="Translate catalogues and XLIFF files even if they name other languages than those of "
        "the run.")] = False,
    as_json: options.AsJsonLines = False,
) -> None:  # fmt: skip
    """Translate sentences, files and documents.

    Each line of input is one sentence and gives one line of output; with --split-sentences a line may be a paragraph.
    In documents, such as HTML, only the text is changed.
    """
    from transformer_cli.adapters.documents.files import FORMATS, PLAIN_TEXT, format_by_name, is_misnamed

    sentence_options = {"--n-best": n_best is not None, "--prefix": prefix != ""}
    line_options = {"sentences": bool(sentences), "--json": as_json, "--no-split-sentences": split_sentences is False}
    if sentences and input_file:
        raise typer.BadParameter("sentences and --input cannot be used together")
    if split_sentences and (given := [name for name, is_given in sentence_options.items() if is_given]):
        raise typer.BadParameter(f"{given[0]} works on one sentence, so --split-sentences cannot be used with it")
    for each in sentences or ():
        if (known := format_by_name(Path(each))) and os.path.isfile(each):
            raise typer.BadParameter(f"{each} is {FORMATS[known].names[0]}; `--input {each}` translates it")
    folder = input_file if input_file and os.path.isdir(input_file) else None
    form = text_format or (input_file and format_by_name(input_file)) or PLAIN_TEXT
    if folder or form != PLAIN_TEXT:
        what = "a folder is translated as documents" if folder else f"--format {form} translates one document"
        if given := [name for name, is_given in {**line_options, **sentence_options}.items() if is_given]:
            why = "" if text_format or folder else " (by the file's name)"
            raise typer.BadParameter(f"{what}{why}, so {given[0]} cannot be used with it")
    of_formats = {"fuzzy": fuzzy, "renew": renew}
    for name in (name for name, is_given in of_formats.items() if is_given and not folder):
        if name not in FORMATS[form].settings:
            formats = " and ".join(key for key, each in FORMATS.items() if name in each.settings)
            raise typer.BadParameter(f"--{name} is for {formats}; leave it out, or name such a file")
    if folder and text_format:
        raise typer.BadParameter(f"{what}, each in the format of its name; leave out --format")
    if folder and output in (None, STDIO):
        raise typer.BadParameter("a folder needs another folder to write to; name it with --output")
    if not folder and form != PLAIN_TEXT:
        if not input_file and sys.stdin.isatty():
            raise typer.BadParameter(f"--format {form} needs --input FILE, or a pipe")
        input_file = input_file or STDIO
        if not FORMATS[form].is_text and output in (None, STDIO):
            raise typer.BadParameter(f"--format {form} is a binary format; name a file with --output")
    if report and report != STDIO and os.path.exists(report) and not is_stream(report):
        raise typer.BadParameter(f"--report {report} exists, perhaps with somebody's work; name another file")
    if folder and output:
        options.check_output_folder(output, folder)
        options.check_writable(report)
        written = os.path.relpath(report.resolve(), output.resolve()) if report else ".."
        if not written.startswith("..") and (folder / written).exists():
            raise typer.BadParameter(f"--report {report}: the translation of a file gets this name; choose another one")
    else:
        options.check_writable(output, report, read=[input_file, glossary])
        if form == PLAIN_TEXT:
            options.check_plain_text(input_file, refuses=text_format is None)
        if output and is_misnamed(output, form, any_text=text_format == PLAIN_TEXT or as_json):
            what, suffix = FORMATS[form].names[0], FORMATS[form].suffixes[0]
            raise typer.BadParameter(f"--output {output}: the output will be {what}; give it a name ending in {suffix}")
    is_interactive = not sentences and not input_file and not output and sys.stdin.isatty() and sys.stdout.isatty()
    is_undecided = split_sentences is None and not any(sentence_options.values())  # no option says how to read lines
    if split_sentences is None:
        is_text_file = input_file is not None and format_by_name(input_file) == PLAIN_TEXT and not as_json
        split_sentences = is_undecided and (is_interactive or is_text_file)
    from transformer_cli.compute.world import World

    if World.from_environment().size > 1:
        raise typer.BadParameter("tfm translate runs in one process; start it without torchrun")
    folders = options.find_runs(run)
    from transformer_cli.adapters.terminology.annotations import to_check
    from transformer_cli.api import Translator, read_glossary

    translator = Translator.load(*folders, device=device).for_target(to)
    translator = translator.with_options(
        *(search or ()),
        **options.given_options(beam_size=beam_size),
        max_tokens=max_tokens,
        n_best=n_best or 1,
        return_scores=as_json or n_best is not None,  # else only the text is printed
        keep_unk=keep_unk,
        on_too_long=on_too_long,
        prefix=options.require_utf8(prefix, "--prefix"),
        split_sentences=split_sentences,
        protect=protect,
        **of_formats,
        any_language=any_language,
        glossary=read_glossary(glossary, translator.run.config.data),
        protect_pattern=options.require_utf8(protect_pattern, "--protect-pattern"),
    )

    with _open_report(report) as add_row:

        def render(number: int, translation: "Translation") -> str:
            if report and (source := translation.source.strip()):
                add_row(str(input_file or ""), f"line {number}", source, translation.text, to_check(translation), "")
            if as_json:
                return translation_as_json(translation)
            return format_translation(number, translation, n_best is not None)

        if is_interactive:
            _translate_interactively(translator, render)
        elif folder and output:
            _translate_folder(translator, folder, output, add_row)
        elif form != PLAIN_TEXT and input_file:
            _translate_file(translator, input_file, form, output, add_row)
        else:
            _warn_if_misread(sentences or (), translator.run.config.data.input_language)
            text = _open_input(sentences, input_file, refuses=text_format is None)
            with options.open_output(output) as out:
                _translate(translator, text, render, out, warns=is_undecided and not split_sentences)


@contextmanager
def _open_report(path: Path | None) -> Iterator[AddRow]:
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


class _InputText(NamedTuple):
    """The lines to translate."""

    name: str
    """name of the text in errors"""
    lines: Iterable[str]
    n_lines: int | None = None
    """the number of lines, if known"""
    must_wait: Callable[[], bool] = lambda: False
    """whether the next line has not been written to the pipe yet"""


def _translate(
    translator: "Translator",
    text: _InputText,
    render: Callable[[int, "Translation"], str],
    out: TextIO,
    *,
    first_line: int = 1,
    warns: bool = False,
) -> None:
    """Prints the translations of lines; at the end, also after an error, warns of lines with problems.

    render: (line number, translation) → text. first_line: number of the first line. warns: warn, before the first
    translation, if many lines have several sentences.
    """
    from transformer_cli.adapters.terminology.annotations import to_check

    found: dict[str, list[int]] = {}  # what to check → lines
    first: list[str] = []
    where = f"{text.name}: " if text.name else ""

    def sampled_lines() -> Iterator[str]:
        for line in text.lines:
            first.extend([line] if warns and len(first) < MAX_SAMPLED_LINES else [])
            yield line
            out.flush()  # before the next line is read, since its writer may wait for these translations

    is_watched = out.isatty()
    if is_watched or text.n_lines == 1:  # then there is no progress bar
        terminal.show_status("translating")
    try:
        with progress.bar("translate", text.n_lines, " sentences", is_silent=is_watched) as bar:
            stream = translator.stream(
                sampled_lines(),
                chunk=CHUNK_LINES_ON_TERMINAL if is_watched else CHUNK_LINES,
                name=text.name,
                first_line=first_line,
                on_progress=bar.update,
                must_wait=text.must_wait,
            )
            for number, translation in enumerate(stream, first_line):
                if first and number == first_line:
                    _warn_if_paragraphs(first, where, translator.run.config.data.input_language)
                for what in to_check(translation):
                    found.setdefault(what, []).append(number)
                print(render(number, translation), file=out)
    finally:
        if found:
            log.warning("%s%s", where, "; ".join(_note(what, lines) for what, lines in found.items()))


def _note(what: str, lines: Sequence[int]) -> str:
    numbers = f"{'line' if len(lines) == 1 else 'lines'} {first_few([*map(str, lines)], MAX_LISTED_LINES)}"
    return f"{what} in {pluralize(len(lines), 'translation')}: {numbers}"


def _warn_if_paragraphs(lines: Sequence[str], where: str, language: str) -> None:
    """Warns if many of the first lines have several sentences."""
    from transformer_cli.text.sentences import sentence_spans

    n_several = sum(len(sentence_spans(line, language)) > 1 for line in lines)
    if n_several > PARAGRAPH_SHARE * len(lines):
        log.warning(
            "%sapparently several sentences per line (in %d of the first %d); some may be missing in the translation; "
            "--split-sentences translates them one by one",
            *(where, n_several, len(lines)),
        )


def _translate_interactively(translator: "Translator", render: Callable[[int, "Translation"], str]) -> None:
    """Translates each line when it is typed, until Ctrl-D."""
    data = translator.run.config.data
    runs = ", ".join(str(each.folder) for each in translator.runs)
    log.info("%s: %s → %s", runs, data.input_language, data.output_language)
    what = "One sentence or paragraph" if translator.settings.split_sentences else "One sentence"
    log.info("%s per line. Ctrl-C discards a line, Ctrl-D ends.", what)

    def answer(number: int, line: str) -> None:
        try:
            text = _InputText("", [options.require_utf8(line, f"line {number}")], n_lines=1)
            _translate(translator, text, render, sys.stdout, first_line=number)
        except (DataError, MemoryShortage) as error:  # the next line may be fine
            print(terminal.escape_controls(f"tfm: error: {error}"), file=sys.stderr)
        sys.stdout.flush()

    streams.prompt_loop(answer, prompt=f"{terminal.escape_controls(data.input_language)}> ")


def format_translation(number: int, translation: "Translation", is_numbered: bool) -> str:
    """Returns the translation of line `number`, and below it its alternatives.

    is_numbered: with line number and score, as for --n-best.
    """
    found = (translation, *translation.alternatives)
    return "\n".join(f"{number}\t{each.score:.4f}\t{each.text}" if is_numbered else each.text for each in found)


def translation_as_json(translation: "Translation") -> str:
    """Returns a translation as one JSON object; the rest of the n best are under `alternatives`.

    Alignments are in Pharaoh format, such as "0-0 2-1": the index of the source token, then of the target token. Spans
    of placeholders and sentences are characters [start, end).
    """
    from transformer_cli.adapters.terminology.annotations import annotations

    def json_fields(one: "Translation") -> dict[str, Any]:
        return {
            "translation": one.text,
            "tokens": one.tokens,
            "log_prob": one.log_prob,
            "score": one.score,
            "alignment": " ".join(f"{source}-{target}" for target, source in enumerate(one.alignment)),
            **annotations(one),
        }

    fields = {
        "source": translation.source,
        **json_fields(translation),
        "source_tokens": translation.source_tokens,
        "alternatives": [json_fields(other) for other in translation.alternatives],
    }
    if translation.sentences is not None:
        fields["sentences"] = [
            {"start": each.start, "end": each.start + len(each.source), **json_fields(each)}
            for each in translation.sentences
        ]
    return json.dumps(fields, ensure_ascii=False)


def _warn_if_misread(sentences: Sequence[str], language: str) -> None:
    """Warns of arguments that may be the words of one sentence, or the name of a file. language: of the source."""
    if len(sentences) > 1 and all(len(each.split()) == 1 for each in sentences):
        from transformer_cli.scoring.metrics import CHARACTER_LANGUAGES
        from transformer_cli.text.normalization import primary_subtag

        if primary_subtag(language) not in CHARACTER_LANGUAGES.keys() - {"ko"}:  # Korean has spaces
            what = '%d arguments are read as %d sentences; if they are one, quote it: "%s"'
            log.warning(what, len(sentences), len(sentences), " ".join(sentences))
    for sentence in sentences:
        if os.path.isfile(sentence):
            log.warning("%s is read as a sentence; `--input %s` translates the file with this name", sentence, sentence)


def _open_input(sentences: Sequence[str] | None, path: Path | None, *, refuses: bool) -> _InputText:
    """Returns the sentences of the arguments, else the lines of the file, else those of standard input.

    refuses: as in `check_plain_text`.
    """
    from transformer_cli.text.file_formats import refuse_binary
    from transformer_cli.text.lines import count_lines, decoded_lines, truncated_lines

    if sentences:
        given = [line.removesuffix("\r") for text in sentences for line in text.removesuffix("\n").split("\n")]
        lines = [options.require_utf8(text, f"argument: line {number}") for number, text in enumerate(given, start=1)]
        return _InputText("argument", lines, len(lines))
    if path and path != STDIO:
        return _InputText(str(path), truncated_lines(path), None if is_stream(path) else count_lines(path))
    stream = sys.stdin.buffer
    pipe = _StandardInput(stream.raw) if isinstance(stream, io.BufferedReader) else None

    def standard_input() -> Iterator[str]:
        try:
            if pipe:
                beginning = pipe.buffered.peek(1)
                refuse_binary(beginning, "standard input")
                options.warn_if_not_plain(beginning, "standard input", refuses=refuses)
            yield from decoded_lines(pipe.buffered if pipe else stream, "standard input")
        except OSError as error:  # closed by `<&-`, or a folder
            what = f"standard input: cannot be read: {error.strerror}"
            raise DataError(f"{what}; give sentences, --input, or a pipe") from None

    return _InputText("standard input", standard_input(), must_wait=pipe.must_wait if pipe else lambda: False)


class _StandardInput(io.RawIOBase):
    """Standard input that can say whether reading the next line would block."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self.raw, self.waits = raw, True
        self.buffered = io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Reads available bytes, or returns None where reading would block and `waits` is false."""
        return self.raw.readinto(buffer) if self.waits or self._has_more() else None

    def must_wait(self) -> bool:
        """Whether the next line has not been written yet."""
        self.waits = False
        held = self.buffered.peek(1)
        self.waits = True
        return b"\n" not in held and not (held and self._has_more())

    def _has_more(self) -> bool:
        return bool(select.select([self.raw], [], [], IDLE_S)[0])


def _translate_file(translator: "Translator", path: Path, form: str, output: Path | None, add_row: AddRow) -> None:
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


def _translate_folder(translator: "Translator", folder: Path, output: Path, add_row: AddRow) -> None:
    """Translates the documents of a folder into another one, copies all other files, and logs counts.

    Keeps existing files. Raises DataError at the end if a file could not be translated; each has an error in the log.
    """
    from transformer_cli.adapters.documents.files import describe_counts, format_by_name, list_files, other_kind_by_name
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
    others.sort(key=lambda name: other_kind_by_name(Path(name)) in (None, *BINARY_NAMES))  # first those with text
    copied = f", {len(others):,} copied unchanged ({first_few(others, MAX_LISTED_LINES)})" if others else ""
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
