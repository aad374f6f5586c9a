"""`tfm translate --output`: one file, or with `--shard`, or under torchrun, a part of it."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TextIO

import typer

from transformer_cli.commands.options import unwritable, writing
from transformer_cli.errors import DataError, DistributedError, TfmError
from transformer_cli.system.streams import stream_named

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.runs import shards
    from transformer_cli.translator import Options, Translator


class Work(Protocol):
    """Writes the translations of lines, the first of which has a number."""

    def __call__(self, lines: Iterator[str], name: str, out: TextIO, *, first_line: int) -> None: ...


@dataclass(frozen=True)
class Place:
    """What this process translates, and where."""

    device: str
    shard: "shards.Shard | None" = None
    """None: all of the text"""
    rank: int | None = None
    """which of torchrun's processes this is; None without torchrun"""


def choose_shard(given: str | None, device: str, input_file: Path | None, output: Path | None) -> Place:
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
        return Place(device)
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
    if stream_named(output) is not None or kind_of(output) not in ("a file", "no such file"):
        raise unwritable(output, "shards are joined in a file")
    if output.exists() and output.samefile(input_file):
        raise unwritable(output, "it is the --input, from which shards are cut")
    if world is None or world.size == 1:
        return Place(device, shard)
    from transformer_cli.compute.devices import choose_device_of

    return Place(str(choose_device_of(world, device)), shard, world.rank)


def facts_of(
    translator: "Translator",
    options: "Options",
    settings: "SearchSettings",
    input_file: Path,
    *,
    form: str,
    numbered: bool,
) -> dict[str, Any]:
    """Returns all that the written text follows from, so that shards of different texts are never joined.

    form: text, tokens or json. numbered: whether each translation has the number of its line.
    """
    from importlib.metadata import version

    return {
        "input": _sum_of(input_file),
        "runs": [
            {"id": run.identity.id, "weights": run.best_name, "files": dict(run.identity.files)}
            for run in translator.runs
        ],
        "search": {
            "n_best": settings.n_best,
            "max_tokens": settings.max_tokens,
            **settings.decoding.model_dump(mode="json"),
        },
        "options": {key: value for key, value in asdict(options).items() if key != "keep_attention"},
        "form": f"{form}, numbered" if numbered and form != "json" else form,
        "version": version("transformer-cli"),
    }


def translate_shard(
    place: Place, input_file: Path, output: Path, facts: dict[str, Any], work: Work, *, chunk: int
) -> None:
    """Translate a shard of a file, unless that has been done; join all, if it was the last one.

    chunk: how many lines are translated together. Under torchrun, what is wrong with this shard is known to this
    process alone: it becomes a DistributedError, which every rank says for itself.
    """
    from transformer_cli.data.lines import byte_lines, count_lines, cut_lines
    from transformer_cli.runs import shards

    assert place.shard
    shard = place.shard

    def write(file: BinaryIO) -> None:
        is_packed = input_file.suffix == ".gz"
        total = sum(1 for _ in byte_lines(input_file)) if is_packed else count_lines(input_file)
        rows = shard.lines(total, chunk)
        lines = islice(cut_lines(input_file), rows.start, rows.stop)
        with _as_text(file) as out:
            work(lines, str(input_file), out, first_line=rows.start + 1)
        if _sum_of(input_file) != facts["input"]:
            raise DataError(f"{input_file}: changed while shard {shard} was translated; start all shards again")

    try:
        with writing(output):
            shards.finish(shard, _target_of(output), facts, write)
    except TfmError as error:
        if place.rank is None:
            raise
        raise DistributedError(f"rank {place.rank}, shard {shard}: {error}") from None


@contextmanager
def opened(output: Path | None) -> Iterator[TextIO]:
    """What translations are printed to: a file that appears when the block has ended well, or standard output."""
    if output is None or stream_named(output) == 1:
        yield sys.stdout
        return
    from transformer_cli.system.files import kind_of, new_file

    descriptor = stream_named(output)
    with writing(output):
        if descriptor is not None or kind_of(output) not in ("a file", "no such file"):
            with open(output if descriptor is None else os.dup(descriptor), "wb") as file, _as_text(file) as out:
                yield out
        else:
            with new_file(_target_of(output)) as whole, _as_text(whole) as out:
                yield out


def _sum_of(path: Path) -> dict[str, Any]:
    from transformer_cli.data.lines import unreadable
    from transformer_cli.system.sums import file_sum

    try:
        return file_sum(path)
    except OSError as error:
        raise unreadable(path, error) from None


def _target_of(path: Path) -> Path:
    """Of a link, returns the file that it points to: that one is replaced, and the link stays."""
    return path.resolve() if path.is_symlink() else path


@contextmanager
def _as_text(file: BinaryIO) -> Iterator[TextIO]:
    r"""Write UTF-8 into an open file, with "\n" at the end of lines; the file stays open."""
    out = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
    try:
        yield out
        out.flush()
    finally:
        with suppress(OSError):
            out.detach()
