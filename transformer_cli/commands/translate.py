"""`tfm translate`: sentences from arguments, a file, a pipe or a terminal → one line of output for each.

With `--shard`, or under torchrun, a process translates a part of a file.
"""

import gzip
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TextIO

import typer

from transformer_cli.commands.options import (
    BeamSizeOption,
    DecodingSetOption,
    DeviceOption,
    JsonLinesOption,
    RunsOption,
    as_text,
    file_to_read,
    file_to_write,
    load_translator,
    search_settings,
    unwritable,
    writing,
)
from transformer_cli.errors import DataError, DistributedError, TfmError
from transformer_cli.inspection.picture_files import picture_format
from transformer_cli.system import progress, terminal
from transformer_cli.system.streams import stream_named

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.runs.shards import Shard
    from transformer_cli.translator import Options, Translation, Translator

CHUNK = 1000  # lines that are read before they are translated together
CHUNK_TO_WATCH = 20  # the same where somebody watches: slower, but the lines come steadily
NAMED = 10  # lines that were too long, of which the numbers are said
FILES = ("a file", "no such file")  # where a whole file can appear

Render = Callable[[int, "Translation"], str]
"""The number of a line and its translation → what is printed"""

log = logging.getLogger(__name__)


def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="The sentences to translate.", show_default="standard input")
    ] = None,
    input_file: Annotated[Path | None, file_to_read("Translate the lines of a file.", "--input", "-i")] = None,
    output: Annotated[
        Path | None, file_to_write("Write to a file, which appears when it is whole.", "--output", "-o")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Translate part I of N of the --input. Who finishes the last part joins all of them in --output.",
            show_default="all of it; under torchrun, each process its part",
        ),
    ] = None,
    run: RunsOption = None,
    overrides: DecodingSetOption = None,
    beam_size: BeamSizeOption = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="K",
            help="Print the K best translations of each line, for which the beam has to hold K: line number, score and "
            "text, with tabs between them.",
            show_default="only the best one, as plain text",
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Begin every translation with this text.", show_default=False)
    ] = "",
    device: DeviceOption = "auto",
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Longest translation, in tokens.", show_default="2 × source + 10"
        ),
    ] = None,
    on_error: Annotated[
        Literal["stop", "blank", "copy", "truncate"],
        typer.Option(
            help="What becomes of a line that is too long: an error, which stops; an empty line; the line itself; or "
            "the translation of its beginning."
        ),
    ] = "stop",
    keep_unk: Annotated[
        bool,
        typer.Option(
            "--keep-unk", help="Keep <unk>, instead of replacing it by the source word that is attended to most."
        ),
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the decoder's tokens instead of text.")] = False,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw what the translation of one sentence attends to: a .svg, .pdf or .png."
        ),
    ] = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Translate sentences, one line of output for each line of input.

    A line is one sentence: put the sentences of a paragraph on lines of their own. Markup such as <b> is read as text.
    """
    if sentences and input_file:
        raise typer.BadParameter("sentences and --input cannot be used together")
    if tokens and as_json:
        raise typer.BadParameter("--tokens and --json cannot be used together (the JSON has the tokens)")
    if attention and (input_file or len(sentences or ()) != 1):
        raise typer.BadParameter("--attention draws one sentence: give exactly one, as an argument")
    if attention and len(run or ()) > 1:
        raise typer.BadParameter("--attention draws the attention of one model: give one --run")
    if attention:
        picture_format(attention)
    place = _choose_shard(shard, device, input_file, output)
    translator = load_translator(run, place.device)
    from transformer_cli.translator import Options

    settings = search_settings(
        translator.run.config.decoding, overrides, beam_size=beam_size, n_best=n_best, max_tokens=max_tokens
    )
    settings = replace(settings, scores=as_json or n_best is not None)  # else only text is printed
    options = Options(
        keep_unk=keep_unk,
        on_error=on_error,
        keep_attention=attention is not None,
        prefix=as_text(prefix, "--prefix"),
    )
    form = "json" if as_json else f"{'tokens' if tokens else 'text'}{'' if n_best is None else ', numbered'}"
    work = _Work(translator, options, settings, _renderer(form))
    if not sentences and not input_file and not output and sys.stdin.isatty():
        work.converse()
    elif place.shard and input_file and output:
        work.translate_shard(place, input_file, output, form)
    else:
        name, lines = _named_lines(sentences, input_file)
        with _opened(output) as out:
            work.translate(lines, name, out, n_lines=_n_lines(sentences, input_file), attention=attention)


@dataclass(frozen=True)
class _Work:
    """How lines become what is printed."""

    translator: "Translator"
    options: "Options"
    settings: "SearchSettings"
    render: Render

    def translate(
        self,
        lines: Iterable[str],
        name: str,
        out: TextIO,
        *,
        n_lines: int | None = None,
        first_line: int = 1,
        attention: Path | None = None,
    ) -> None:
        """Print the translations of lines. However that ends, say at its end which lines were too long.

        n_lines: how many there are, if that is known. first_line: the number of the first one. attention: where it is
        drawn.
        """
        too_long: list[int] = []
        try:
            with _progress(out, n_lines) as (chunk, done):
                stream = self.translator.stream(
                    lines, self.options, self.settings, chunk=chunk, name=name, first_line=first_line, done=done
                )
                for number, translation in enumerate(stream, first_line):
                    if translation.was_too_long:
                        too_long.append(number)
                    if attention:  # there is only one sentence
                        self._draw_cross_attention(translation, attention)
                    print(self.render(number, translation), file=out)
                    if number % CHUNK == 0:
                        out.flush()  # a program that has sent as many lines may wait for them
        finally:
            if too_long:
                log.warning("%s: %s", name, self._about(too_long))

    def converse(self) -> None:
        """Say which run translates what, then translate each line as soon as it is typed, until Ctrl-D."""
        from transformer_cli.system.keyboard import converse

        folders = ", ".join(str(each.folder) for each in self.translator.runs)
        data = self.translator.run.config.data
        log.info("%s: %s → %s", folders, data.source, data.target)
        log.info("One sentence per line. Ctrl-C drops a line, Ctrl-D ends.")

        def answer(number: int, line: str) -> None:
            terminal.note("translating")
            try:
                sentence = as_text(line, f"line {number}")
                (found,) = self.translator.translations([sentence], self.options, self.settings, first_line=number)
            except DataError as error:  # one sentence too long is no reason to leave
                print(terminal.message(f"tfm: error: {error}"), file=sys.stderr)
            else:
                if found.was_too_long:
                    log.warning("%s", self._about([number]))
                print(self.render(number, found), flush=True)

        converse(answer, prompt=f"{terminal.on_one_line(data.source)}> ")

    def translate_shard(self, place: "_Place", input_file: Path, output: Path, form: str) -> None:
        """Translate a shard of a file, unless that has been done; join all, if it was the last one.

        Under torchrun, what is wrong with this shard is known to this process alone: it becomes a DistributedError,
        which every rank says for itself.
        """
        from transformer_cli.data.lines import count_lines, cut_lines
        from transformer_cli.runs import shards

        assert place.shard
        shard = place.shard
        facts = {**self._facts(input_file, form), "packed": output.suffix == ".gz"}  # as `_as_text` decides

        def write(file: BinaryIO) -> None:
            rows = shard.lines(count_lines(input_file), CHUNK)
            lines = islice(cut_lines(input_file), rows.start, rows.stop)
            with _as_text(file, output) as out:
                self.translate(lines, str(input_file), out, first_line=rows.start + 1)
            if _sum_of(input_file) != facts["input"]:
                raise DataError(f"{input_file}: changed while shard {shard} was translated; start all shards again")

        try:
            with writing(output):
                # of a link, the file that it points to is replaced, and the shards wait beside that one
                shards.finish(shard, output.resolve() if output.is_symlink() else output, facts, write)
        except TfmError as error:
            if place.rank is None:
                raise
            raise DistributedError(f"rank {place.rank}, shard {shard}: {error}") from None

    def _facts(self, input_file: Path, form: str) -> dict[str, Any]:
        """Returns all that the written text follows from, so that shards of different texts are never joined."""
        from importlib.metadata import version

        from transformer_cli.system.sums import read_sums

        return {
            "input": _sum_of(input_file),
            "runs": [
                {"id": run.identity.id, "weights": checkpoint, "files": read_sums(run.folder)}
                for run, checkpoint in zip(self.translator.runs, self.translator.checkpoints, strict=True)
            ],
            "search": {
                "n_best": self.settings.n_best,
                "max_tokens": self.settings.max_tokens,
                **self.settings.decoding.model_dump(mode="json"),
            },
            "options": {key: value for key, value in asdict(self.options).items() if key != "keep_attention"},
            "form": form,
            "version": version("transformer-cli"),
        }

    def _draw_cross_attention(self, translation: "Translation", path: Path) -> None:
        from transformer_cli.inspection.numbers import cross_attention
        from transformer_cli.inspection.plots import draw_attention

        maps = cross_attention(translation, layer=self.translator.run.config.model.num_decoder_layers)
        with writing(path):
            draw_attention(maps, path)
        log.info("%s: what each position of the translation attends to", path)

    def _about(self, too_long: Sequence[int]) -> str:
        """Returns what is said of lines that were too long. too_long: their numbers."""
        became = {"blank": "left blank", "copy": "copied", "truncate": "cut"}[self.options.on_error]
        numbers = ", ".join(map(str, too_long[:NAMED])) + (", …" if len(too_long) > NAMED else "")
        return f"{len(too_long):,} too long, {became}: {'line' if len(too_long) == 1 else 'lines'} {numbers}"


def _renderer(form: str) -> Render:
    """form: json, or text or tokens; if numbered, the n best of each line, with its number."""
    if form == "json":
        return lambda number, translation: translation_as_json(translation)

    def written(translation: "Translation") -> str:
        if form.startswith("text"):
            return translation.text
        return " ".join(token.replace(" ", "▁") for token in translation.tokens)  # a subword may begin with a space

    if not form.endswith("numbered"):
        return lambda number, translation: written(translation)
    return lambda number, translation: "\n".join(
        f"{number}\t{each.score:.4f}\t{written(each)}" for each in (translation, *translation.alternatives)
    )


def translation_as_json(translation: "Translation") -> str:
    """Returns source and translation, and what belongs to each; the other ones of the n best under `alternatives`.

    An alignment is in Pharaoh format, such as "0-0 2-1": the source token's index, then the decoder's token's.
    """

    def written(one: "Translation") -> dict[str, Any]:
        return {
            "translation": one.text,
            "tokens": one.tokens,
            "log_prob": one.log_prob,
            "score": one.score,
            "alignment": " ".join(f"{source}-{target}" for target, source in enumerate(one.alignment)),
        }

    fields = {
        "source": translation.source,
        **written(translation),
        "source_tokens": translation.source_tokens,
        "alternatives": [written(other) for other in translation.alternatives],
    }
    return json.dumps(fields, ensure_ascii=False)


@contextmanager
def _progress(out: TextIO, n_lines: int | None) -> Iterator[tuple[int, Callable[[int], object]]]:
    """How many lines are translated together, and who is told of them: a bar, unless somebody sees the lines appear."""
    if out.isatty():
        terminal.note("translating")
        yield CHUNK_TO_WATCH, lambda n_lines: None
        return
    with progress.bar("translate", n_lines, " sentences") as bar:
        yield CHUNK, bar.update


def _n_lines(sentences: Sequence[str] | None, path: Path | None) -> int | None:
    """Returns how many sentences, or lines of the file, there are; None if that is not easily known."""
    from transformer_cli.data.lines import count_lines

    if sentences:
        return len(sentences)
    is_plain = path is not None and path.is_file() and stream_named(path) is None and path.suffix != ".gz"
    return count_lines(path) if path and is_plain else None


def _named_lines(sentences: Sequence[str] | None, path: Path | None) -> tuple[str, Iterable[str]]:
    """The sentences given as arguments, else the lines of the file, else those of standard input; and their name."""
    from transformer_cli.data.lines import cut_lines, lines_of

    def standard_input() -> Iterator[str]:
        try:
            yield from lines_of(sys.stdin.buffer, "standard input")
        except OSError as error:  # closed by `<&-`, or a folder
            raise DataError(
                f"standard input: cannot be read: {error.strerror}; give sentences, --input, or a pipe"
            ) from None

    if sentences:
        return "argument", [as_text(text, f"argument: line {number}") for number, text in enumerate(sentences, start=1)]
    if path:
        return str(path), cut_lines(path)
    return "standard input", standard_input()


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """What translations are printed to: a file that appears when the block has ended well, or standard output."""
    if output is None or stream_named(output) == 1:
        yield sys.stdout
        return
    from transformer_cli.system.files import kind_of, new_file

    descriptor = stream_named(output)
    with writing(output):
        if descriptor is not None or kind_of(output) not in FILES:
            with (
                open(output if descriptor is None else os.dup(descriptor), "wb") as file,
                _as_text(file, output) as out,
            ):
                yield out
        else:
            with new_file(output) as whole, _as_text(whole, output) as out:
                yield out


def _sum_of(path: Path) -> str:
    from transformer_cli.data.lines import unreadable
    from transformer_cli.system.sums import file_sum

    try:
        return file_sum(path)
    except OSError as error:
        raise unreadable(path, error) from None


@contextmanager
def _as_text(file: BinaryIO, path: Path) -> Iterator[TextIO]:
    r"""Write UTF-8 into an open file, with "\n" at the end of lines; the file stays open.

    path: a file that is called .gz is compressed, as it is read. (Compressed shards can be joined as they are.)
    """
    packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if path.suffix == ".gz" else None
    out = io.TextIOWrapper(packed or file, encoding="utf-8", newline="\n")
    try:
        yield out
        out.flush()
    finally:
        with suppress(OSError):
            out.detach()
    if packed:
        packed.close()


@dataclass(frozen=True)
class _Place:
    """What this process translates, and where."""

    device: str
    shard: "Shard | None" = None
    """None: all of the text"""
    rank: int | None = None
    """which of torchrun's processes this is; None without torchrun"""


def _choose_shard(given: str | None, device: str, input_file: Path | None, output: Path | None) -> _Place:
    """Returns what `--shard` says; under torchrun, the process's rank says it, and which GPU it takes.

    Raises typer.BadParameter for options that do not go together, DataError for files that cannot be cut or joined.
    """
    from transformer_cli.runs import shards
    from transformer_cli.system.files import kind_of

    world = None
    if "WORLD_SIZE" in os.environ:  # else NumPy need not be imported yet
        from transformer_cli.compute.world import World

        world = World.from_environment()
    if world and world.size > 1:
        if given:
            raise typer.BadParameter("under torchrun, a process's rank says which shard is its own: leave --shard out")
        shard = shards.Shard(world.rank + 1, world.size)
    elif given is None:
        return _Place(device)
    else:
        try:
            shard = shards.Shard.parse(given)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--shard") from None
    if not input_file or not output:
        who = "--shard needs" if given else "several processes need"
        raise typer.BadParameter(f"{who} --input FILE and --output FILE: each shard is a part of both")
    if stream_named(input_file) is not None or kind_of(input_file) in ("a pipe", "a device", "a socket"):
        raise DataError(f"{input_file}: its lines have to be counted before they are cut into shards; name a file")
    if stream_named(output) is not None or kind_of(output) not in FILES:
        raise unwritable(output, "shards are joined in a file")
    if output.exists() and output.samefile(input_file):
        raise unwritable(output, "it is the --input, from which shards are cut")
    if world is None or world.size == 1:
        return _Place(device, shard)
    from transformer_cli.compute.devices import choose_device_of

    return _Place(str(choose_device_of(world, device)), shard, world.rank)
