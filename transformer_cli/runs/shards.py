"""A text translated in shards, by processes that know nothing of one another: whose lines are whose, and who joins.

big.en.shards/                      beside the output, big.en
    job.json                        what is translated, how, and in how many shards; once joined, the sum of big.en
    2-of-4.1a2b3c4d.5e6f7081        a finished shard of the job that has the first sum; the second is of its content

A shard is a range of whole chunks, the lines that are translated together, so that its text is byte for byte what one
process would write. Nothing is locked and nobody waits: two processes that do the same write the same. Knows lines, not
what becomes of them.
"""

import json
import logging
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import DataError, FileError, MissingFile
from transformer_cli.system.files import kind_of, new_file, sweep
from transformer_cli.system.reading import shown
from transformer_cli.system.sums import check_file, file_sum, read_sealed, text_sum, write_sealed
from transformer_cli.system.terminal import counted

MOST_SHARDS = 1_000_000
NAMED = 10  # shards that are not finished, of which the numbers are said
DIFFERENT = 3  # settings of another job that are said

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """One of several parts of a text."""

    number: int
    """1 … count"""
    count: int

    @staticmethod
    def parse(text: str) -> "Shard":
        """Returns shard 2 of 4 for 2/4. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text)
        if not found:
            raise ValueError(f"{text!r} is not a shard and their number, such as 2/4")
        shard = Shard(int(found[1]), int(found[2]))
        if not 1 <= shard.number <= shard.count <= MOST_SHARDS:
            raise ValueError(f"{text!r}: shards go from 1/n to n/n, and n from 1 to {MOST_SHARDS:,}")
        return shard

    def lines(self, total: int, chunk: int) -> range:
        """Returns which of `total` lines are this shard's, from 0: whole chunks of `chunk` lines, evenly dealt.

        For example, 3,500 lines are four chunks of 1,000, the last of which is short: of three shards, the first has
        the lines 0–999, the second 1,000–1,999 and the third 2,000–3,499. A shard may have none.
        """
        n_chunks = -(-total // chunk)
        first, end = (n_chunks * number // self.count * chunk for number in (self.number - 1, self.number))
        return range(min(first, total), min(end, total))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def finish(shard: Shard, output: Path, facts: Mapping[str, Any], write: Callable[[BinaryIO], None]) -> None:
    """Let `write` write a shard, unless that has been done, and join all shards in `output` if it is the last one.

    facts: all that the text follows from, as JSON has it. write: writes the shard's lines into an open file; it is not
    called if the shard is finished.

    Raises DataError if a job with other facts has been begun and not joined, or what has been written is damaged.
    """
    job = _Job(output, {**facts, "shards": shard.count})
    if job.is_joined():
        log.info("%s: joined already from %s; nothing to do", output, counted(shard.count, "shard"))
        return
    if part := job.finished().get(shard.number):
        log.info("%s: finished already", part)
    else:
        job.keep(shard.number, write)
    if missing := job.missing():
        count = "1 is" if len(missing) == 1 else f"{len(missing):,} are"
        first = ", ".join(map(str, missing[:NAMED])) + (", …" if len(missing) > NAMED else "")
        log.info("shard %s is finished; of %s, %s not: %s", shard, shard.count, count, first)
    else:
        job.join()


class _Job:
    """What all shards of an output have in common, and what has been written of them."""

    def __init__(self, output: Path, facts: Mapping[str, Any]) -> None:
        """Begin the job, unless it has been begun.

        Raises DataError if another one has, and was not joined, or if the folder's name is taken.
        """
        self.output = output
        self.folder = output.with_name(f"{output.name}.shards")
        self.facts = json.loads(json.dumps(facts))  # as they are read back
        self._name = text_sum(json.dumps(self.facts, sort_keys=True))
        self._record = self.folder / "job.json"
        if kind_of(self.folder) not in ("a folder", "no such file"):
            raise DataError(f"{self.folder}: not a folder, in which shards could wait; name another --output")
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self._read()
        if found is None or (found["facts"] != self.facts and "joined" in found):
            self._write()
        elif found["facts"] != self.facts:
            raise self._other(found["facts"])

    def keep(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        """Write a shard, and give it the name of a finished one."""
        part = self.folder / f"{number}-of-{self.facts['shards']}.{self._name}"
        written = part.with_name(f"{part.name}.{secrets.token_hex(4)}.new")  # another process may write the same shard
        try:
            with new_file(written) as file:
                write(file)
            written.rename(f"{part}.{file_sum(written)['crc32']}")
        except FileNotFoundError:
            if not self.is_joined():  # else all has been joined, and this been deleted
                raise

    def finished(self) -> dict[int, Path]:
        """Returns the files of the finished shards, by their numbers."""
        name = re.compile(rf"(\d+)-of-{self.facts['shards']}\.{self._name}\.[0-9a-f]{{8}}")
        there = self.folder.iterdir()  # a fresh list, where NFS may remember an older one
        return {int(found[1]): path for path in there if (found := name.fullmatch(path.name))}

    def missing(self) -> list[int]:
        """Returns the numbers of the shards that are not finished; none if somebody else has joined them."""
        finished = self.finished()
        missing = [number for number in range(1, self.facts["shards"] + 1) if number not in finished]
        return [] if missing and self.is_joined() else missing

    def is_joined(self) -> bool:
        """Whether all is done. If the output is not what was joined any more, the job begins anew."""
        found = self._read()
        if found is None or "joined" not in found:
            return False
        try:
            check_file(self.output, {self.output.name: found["joined"]})
        except FileError:
            self._write()
            return False
        self._clear()  # what a kill has left
        return True

    def join(self) -> None:
        """Write all shards, one after another, to the output, and delete them. Raises DataError if one is damaged."""
        count = counted(self.facts["shards"], "shard")
        parts = self.finished()
        try:
            with new_file(self.output) as joined:
                for number in range(1, self.facts["shards"] + 1):
                    self._copy(number, parts[number], joined)
        except (KeyError, FileNotFoundError):
            if not self.is_joined():  # else another process was faster, and has deleted them
                raise
            log.info("%s: joined already from %s", self.output, count)
            return
        self._write(joined=file_sum(self.output))
        self._clear()
        log.info("%s: joined from %s", self.output, count)

    def _copy(self, number: int, part: Path, joined: BinaryIO) -> None:
        if file_sum(part)["crc32"] != part.suffix.removeprefix("."):
            raise DataError(
                f"{part}: damaged: its content is not what was written (another CRC-32); delete it, and start shard "
                f"{number}/{self.facts['shards']} again"
            )
        with part.open("rb") as file:
            shutil.copyfileobj(file, joined, 1 << 20)

    def _clear(self) -> None:
        """Delete the finished shards, and what kills have left."""
        for part in self.folder.glob(f"[!.]*.{self._name}.*"):
            part.unlink(missing_ok=True)
        sweep(self.folder, idle_s=0)

    def _read(self) -> dict[str, Any] | None:
        try:
            found = read_sealed(self._record)
        except MissingFile:
            return None
        except FileError as error:
            raise DataError(f"{error}; {self._anew}") from None
        if "sum" not in found:
            raise DataError(f"{self._record}: not what tfm has written; {self._anew}")
        return found

    def _write(self, **joined: Any) -> None:
        write_sealed(self._record, {"facts": self.facts, **joined})

    def _other(self, begun: Mapping[str, Any]) -> DataError:
        """Returns the error for facts that are not those that the job was begun with."""
        old, new = _flat(begun), _flat(self.facts)
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        what = [f"{key}: {shown(old.get(key))} → {shown(new.get(key))}" for key in keys[:DIFFERENT]]
        what += [f"and {len(keys) - DIFFERENT} more"] if len(keys) > DIFFERENT else []
        return DataError(
            f"{self.folder}: the other shards were begun with other settings ({'; '.join(what)}); give the old ones to "
            f"go on, or {self._anew}"
        )

    @property
    def _anew(self) -> str:
        return f"delete the folder {self.folder} to begin anew"


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Returns the values inside of JSON objects and lists by dotted keys, such as runs.1.id; lists count from 1."""
    if not isinstance(value, dict | list):
        return {key: value}
    inner = value.items() if isinstance(value, dict) else enumerate(value, start=1)
    return {name: each for at, one in inner for name, each in _flat(one, f"{key}.{at}" if key else str(at)).items()}
