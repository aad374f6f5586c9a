"""A text translated in shards, by processes that know nothing of one another: whose lines are whose, and who joins.

big.en.shards/                      beside the output, big.en
    job.json                        what is translated, how, and in how many shards; once joined, the sum of big.en
    2-of-4.1a2b3c4d                 a finished shard of the job that has this sum: it is whole, or it is not there

A shard is a range of whole chunks, the lines that are translated together, so that its text is byte for byte what one
process would write. Nothing is locked and nobody waits: two processes that do the same write the same. Knows lines, not
what becomes of them.
"""

import json
import logging
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import DataError, FileError, MissingFile
from transformer_cli.files import new_file
from transformer_cli.reading import shown
from transformer_cli.sums import check_file, file_sum, read_sealed, text_sum, write_sealed

MOST_SHARDS = 1_000_000
NAMED = 10  # shards that are not finished, of which the numbers are said

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
        log.info("%s: joined already from %s shards; nothing to do", output, shard.count)
        return
    part = job.part(shard.number)
    if part.exists():
        log.info("%s: finished already", part)
    else:
        with new_file(part) as file:
            write(file)
    if missing := job.missing():
        count = "1 is" if len(missing) == 1 else f"{len(missing):,} are"
        first = ", ".join(map(str, missing[:NAMED])) + (", …" if len(missing) > NAMED else "")
        log.info("shard %s is finished; of %s, %s not: %s", shard, shard.count, count, first)
    else:
        job.join()


class _Job:
    """What all shards of an output have in common, and what has been written of them."""

    def __init__(self, output: Path, facts: Mapping[str, Any]) -> None:
        """Begin the job, unless it has been begun. Raises DataError if another one has, and was not joined."""
        self.output = output
        self.folder = output.with_name(f"{output.name}.shards")
        self.facts = json.loads(json.dumps(facts))  # as they are read back
        self._name = text_sum(json.dumps(self.facts, sort_keys=True))
        self._record = self.folder / "job.json"
        found = self._read()
        if found is None or (found["facts"] != self.facts and "joined" in found):
            self._write()
        elif found["facts"] != self.facts:
            raise self._other(found["facts"])

    def part(self, number: int) -> Path:
        """Returns the file of a finished shard."""
        return self.folder / f"{number}-of-{self.facts['shards']}.{self._name}"

    def missing(self) -> list[int]:
        """Returns the numbers of the shards that are not finished; none if somebody else has joined them."""
        there = {path.name for path in self.folder.iterdir()}  # a fresh list, where NFS may remember an older one
        missing = [number for number in range(1, self.facts["shards"] + 1) if self.part(number).name not in there]
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
        """Write all shards, one after another, to the output, and delete them."""
        try:
            with new_file(self.output) as joined:
                for number in range(1, self.facts["shards"] + 1):
                    with self.part(number).open("rb") as part:
                        shutil.copyfileobj(part, joined, 1 << 20)
        except FileNotFoundError:
            if not self.is_joined():  # else another process was faster, and has deleted them
                raise
            return
        self._write(joined=file_sum(self.output))
        self._clear()
        log.info("%s: joined from %s shards", self.output, self.facts["shards"])

    def _clear(self) -> None:
        """Delete the finished shards."""
        for number in range(1, self.facts["shards"] + 1):
            self.part(number).unlink(missing_ok=True)

    def _read(self) -> dict[str, Any] | None:
        try:
            found = read_sealed(self._record)
        except MissingFile:
            return None
        except FileError as error:
            raise DataError(f"{error}; {self._remedy}") from None
        if "sum" not in found:
            raise DataError(f"{self._record}: not what tfm has written; {self._remedy}")
        return found

    def _write(self, **joined: Any) -> None:
        write_sealed(self._record, {"facts": self.facts, **joined})

    def _other(self, begun: Mapping[str, Any]) -> DataError:
        """Returns the error for facts that are not those that the job was begun with."""
        keys = [key for key in {**begun, **self.facts} if begun.get(key) != self.facts.get(key)]
        what = "; ".join(f"{key}: {shown(begun.get(key))} → {shown(self.facts.get(key))}" for key in keys)
        return DataError(f"{self.folder}: the other shards were begun with other settings ({what}); {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"give the old ones to go on, or delete the folder {self.folder} to begin anew"
