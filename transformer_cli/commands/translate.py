"""`tfm translate`, for lines: sentences from arguments, a file, a pipe or a terminal. documents.py has the others."""

import io
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import typer

from transformer_cli.commands import documents, options, streams
from transformer_cli.errors import DataError, MemoryShortage
from transformer_cli.system import progress, terminal
from transformer_cli.system.files import STDIO, is_stream
from transformer_cli.system.terminal import first_few, pluralize

if TYPE_CHECKING:
    from transformer_cli.api import Translator
    from transformer_cli.pipeline import Translation

CHUNK_LINES = 4000  # lines that are read and translated at a time: enough batches for many cores
IDLE_S = 0.05  # after such a pause in a pipe, the lines so far are translated: the writer may wait for them
CHUNK_LINES_ON_TERMINAL = 20  # on a terminal: slower, but lines appear steadily
MAX_LISTED_LINES = 10  # line numbers in a warning
MAX_SAMPLED_LINES = 100  # lines in which several sentences are counted
PARAGRAPH_SHARE = 0.2  # share of lines with several sentences above which a warning is printed

log = logging.getLogger(__name__)


def translate(
    sentences: Annotated[list[str] | None, typer.Argument(
        metavar="[SENTENCE]...", show_default="standard input", help="The sentences to translate.")] = None,
    input_file: Annotated[Path | None, options.Input(
        "--input", "-i", metavar="FILE", help="A file to translate: lines of text, or a document. Or a folder of "
        "documents.")] = None,
    text_format: Annotated[Literal[
        "text", "html", "docx", "pptx", "epub", "odf", "xliff", "po", "json", "md", "mdx", "ipynb", "srt"
    ] | None, options.Input(
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
    front_matter: Annotated[str, options.Input(
        "--front-matter", metavar="KEYS", help="Keys in the front matter of Markdown that are translated besides title "
        "and description, such as summary,label.")] = "",
    as_json: options.AsJsonLines = False,
) -> None:  # fmt: skip
    """Translate sentences, files and documents.

    Each line of input is one sentence and gives one line of output; with --split-sentences a line may be a paragraph.
    In documents, such as HTML, only the text is changed.
    """
    from transformer_cli.adapters.documents.files import FORMATS, PLAIN_TEXT, format_by_name, is_misnamed

    of_sentences = {"--n-best": n_best is not None, "--prefix": prefix != ""}
    of_lines = {"sentences": bool(sentences), "--json": as_json, "--no-split-sentences": split_sentences is False}
    of_formats = {"fuzzy": fuzzy, "renew": renew, "front_matter": front_matter}
    if sentences and input_file:
        raise typer.BadParameter("sentences and --input cannot be used together")
    if split_sentences and (given := [name for name, is_given in of_sentences.items() if is_given]):
        raise typer.BadParameter(f"{given[0]} works on one sentence, so --split-sentences cannot be used with it")
    for each in sentences or ():
        if (known := format_by_name(Path(each))) and os.path.isfile(each):
            raise typer.BadParameter(f"{each} is {FORMATS[known].names[0]}; `--input {each}` translates it")
    is_folder = input_file is not None and os.path.isdir(input_file)
    form = text_format or (input_file and format_by_name(input_file)) or PLAIN_TEXT
    is_document = is_folder or form != PLAIN_TEXT
    for name in (name for name, is_given in of_formats.items() if is_given and not is_folder):
        if name not in FORMATS[form].settings:
            formats = " and ".join(key for key, each in FORMATS.items() if name in each.settings)
            raise typer.BadParameter(f"--{name.replace('_', '-')} is for {formats}; leave it out, or name such a file")
    if is_document:
        given = [name for name, is_given in {**of_lines, **of_sentences}.items() if is_given]
        documents.check_options(input_file, form, text_format, output, report, given)
        input_file = input_file or STDIO
    if report and report != STDIO and os.path.exists(report) and not is_stream(report):
        raise typer.BadParameter(f"--report {report} exists, perhaps with somebody's work; name another file")
    if not is_folder:
        options.check_writable(output, report, read=[input_file, glossary])
        if not is_document:
            options.check_plain_text(input_file, refuses=text_format is None)
        if output and is_misnamed(output, form, any_text=text_format == PLAIN_TEXT or as_json):
            what, suffix = FORMATS[form].names[0], FORMATS[form].suffixes[0]
            raise typer.BadParameter(f"--output {output}: the output will be {what}; give it a name ending in {suffix}")
    is_interactive = not sentences and not input_file and not output and sys.stdin.isatty() and sys.stdout.isatty()
    is_undecided = split_sentences is None and not any(of_sentences.values())  # no option says how to read lines
    if split_sentences is None:
        is_text_file = input_file is not None and format_by_name(input_file) == PLAIN_TEXT and not as_json
        split_sentences = is_undecided and (is_interactive or is_text_file)
    folder, *others = options.find_runs(run)
    from transformer_cli.adapters.terminology.annotations import to_check
    from transformer_cli.api import Translator, read_glossary

    translator = Translator(folder, device, others=others).for_target(to)
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

    with documents.open_report(report) as add_row:

        def render(number: int, translation: "Translation") -> str:
            if report and (source := translation.source.strip()):
                add_row(str(input_file or ""), f"line {number}", source, translation.text, to_check(translation), "")
            if as_json:
                return translation_as_json(translation)
            found = (translation, *translation.alternatives)
            return "\n".join(f"{number}\t{each.score:.4f}\t{each.text}" if n_best else each.text for each in found)

        if is_interactive:
            _translate_interactively(translator, render)
        elif is_folder and input_file and output:
            documents.translate_folder(translator, input_file, output, add_row)
        elif is_document and input_file:
            documents.translate_file(translator, input_file, form, output, add_row)
        else:
            _warn_if_misread(sentences or (), translator.run.config.data.input_language)
            text = _open_input(sentences, input_file, refuses=text_format is None)
            with options.open_output(output) as out:
                _translate(translator, text, render, out, warns=is_undecided and not split_sentences)


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
