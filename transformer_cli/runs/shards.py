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

from transformer_cli.config.schema import leaves
from transformer_cli.errors import DataError, FileError, MissingFile
from transformer_cli.system.files import new_file, sweep, write_json
from transformer_cli.system.reading import read_json, shown
from transformer_cli.system.sums import check_sum, file_sum, sum_of
from transformer_cli.system.terminal import counted

MOST_SHARDS = 1_000_000

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
    job.begin()
    if part := job.finished().get(shard.number):
        log.info("%s: finished already", part)
    else:
        job.keep(shard.number, write)
    finished = job.finished()
    missing = [number for number in range(1, shard.count + 1) if number not in finished]
    if missing and not job.is_joined():
        first = ", ".join(map(str, missing[:10]))  # there may be a million
        log.info("shard %s is finished; of %s, %s not yet: %s", shard, shard.count, len(missing), first)
        return
    if not missing:
        job.join(finished)
    log.info("%s: joined from %s", output, counted(shard.count, "shard"))


class _Job:
    """What all shards of an output have in common, and what has been written of them."""

    def __init__(self, output: Path, facts: Mapping[str, Any]) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.shards")
        self.facts = json.loads(json.dumps(facts))  # as they are read back
        self._name = sum_of(json.dumps(self.facts, sort_keys=True).encode()).split()[1]
        self._record = self.folder / "job.json"
        self._anew = f"delete the folder {self.folder} to begin anew"

    def begin(self) -> None:
        """Write what is done here, unless that has been written.

        Raises DataError if another job has been begun and not joined.
        """
        found = self._read()
        if found is None or "joined" in found:  # what was joined is gone, or of another job
            write_json(self._record, {"facts": self.facts})
        elif found["facts"] != self.facts:
            old, new = dict(leaves(found["facts"])), dict(leaves(self.facts))
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            what = [f"{key}: {shown(old.get(key))} → {shown(new.get(key))}" for key in keys]
            raise DataError(
                f"{self.folder}: the other shards were begun with other settings ({'; '.join(what)}); give the old "
                f"ones to go on, or {self._anew}"
            )

    def is_joined(self) -> bool:
        """Whether all is done, and the output is still what was joined."""
        found = self._read()
        if found is None or found["facts"] != self.facts or "joined" not in found:
            return False
        try:
            check_sum(self.output, found["joined"])
        except FileError:
            return False
        self._clear()  # what a kill has left
        return True

    def keep(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        """Write a shard, and give it the name of a finished one."""
        part = self.folder / f"{number}-of-{self.facts['shards']}.{self._name}"
        written = part.with_name(f"{part.name}.{secrets.token_hex(4)}.new")  # another process may write the same shard
        try:
            with new_file(written) as file:
                write(file)
            written.rename(f"{part}.{_crc(written)}")
        except FileNotFoundError:
            if not self.is_joined():  # else all has been joined, and this been deleted
                raise

    def finished(self) -> dict[int, Path]:
        """Returns the files of the finished shards, by their numbers."""
        name = re.compile(rf"(\d+)-of-{self.facts['shards']}\.{self._name}\.[0-9a-f]{{8}}")
        there = self.folder.iterdir()  # a fresh list, where NFS may remember an older one
        return {int(found[1]): path for path in there if (found := name.fullmatch(path.name))}

    def join(self, parts: Mapping[int, Path]) -> None:
        """Write all shards, one after another, to the output, and delete them. Raises DataError if one is damaged."""
        try:
            with new_file(self.output) as joined:
                for number, part in sorted(parts.items()):
                    if _crc(part) != part.suffix.removeprefix("."):
                        raise DataError(
                            f"{part}: damaged: its content is not what was written (another CRC-32); delete it, and "
                            f"start shard {number}/{self.facts['shards']} again"
                        )
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, joined, 1 << 20)
        except FileNotFoundError:
            if not self.is_joined():  # else another process was faster, and has deleted them
                raise
        else:
            write_json(self._record, {"facts": self.facts, "joined": file_sum(self.output)})
            self._clear()

    def _clear(self) -> None:
        """Delete the finished shards, and what kills have left."""
        for part in self.folder.glob(f"[!.]*.{self._name}.*"):
            part.unlink(missing_ok=True)
        sweep(self.folder, idle_s=0)

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = read_json(self._record)
        except MissingFile:
            return None
        except FileError as error:
            raise DataError(f"{error}; {self._anew}") from None
        if not isinstance(found, dict) or not isinstance(found.get("facts"), dict):
            raise DataError(f"{self._record}: not what tfm has written; {self._anew}")
        return found


def _crc(path: Path) -> str:
    return file_sum(path).split(" ")[1]
