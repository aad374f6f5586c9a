"""Kills `tfm` again and again, repeats the command until it is done, and compares the result with an undisturbed run.

`make torture` runs everything. Training is killed alternately at a random time and at a random disk operation (within a
write, between two renames), in several setups that save after each step. Weights, moments, history (without seconds),
pointers and all other files must equal those of an undisturbed run bit for bit. After a kill of `tfm prepare`, the
dataset must be whole or absent, and no worker may be left.

With two shards, torch's number of threads, and float32. Linux only. Commands run in forks (tests/forked.py), so that no
kill hits the imports. --seed N repeats the kills: at disk operations exactly, by time on an equally fast machine.
"""

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import measure  # noqa: F401  # isort: skip  # it finds what is in tests/
from disturb import is_of_time
from forked import Forks
from isolation import isolate
from transformer_cli.adapters.corpora.corpora import read_captions
from transformer_cli.system.terminal import format_table

CONFIG = """\
name: run
data:
  corpus: files
  files: {train: {source: train.de, target: train.en}, valid: {source: valid.de, target: valid.en}}
model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 32, max_length: 80}
training: {epochs: 3, batch_size: 32, learning_rate: 5e-3, save_minutes: 1e-6, shards: 2, precision: float32,
  device: cpu}
"""
SUBWORDS = ("data.tokens=subwords", "data.subwords.vocab_size=400")
TOKENS = ("training.batch_by=tokens", "training.batch_size=300")
WARM_UP = ("training.schedule=inverse_sqrt", "training.warmup_steps=5")
PATIENCE = ("training.learning_rate=0.3", "training.max_steps=40", "training.validate_every=3", "training.patience=2")
SETUPS = {
    "words, sentences, label smoothing": ("training.label_smoothing=0.1",),
    "words, sentences, patience, validation every 3 of 40 steps": PATIENCE,
    "words, tokens, accumulation, warm-up": (*TOKENS, "training.gradient_accumulation_steps=3", *WARM_UP),
    "subwords, sentences, averaging, validation every 4 steps": (
        *(*SUBWORDS, "training.average_checkpoints=2", "training.validate_every=4"),
    ),
    "subwords, tokens, accumulation, warm-up, averaging": (
        *(*SUBWORDS, *TOKENS, *WARM_UP, "training.gradient_accumulation_steps=2"),
        *("training.average_checkpoints=3", "training.batch_order=bucketed"),
    ),
}
SHORT = list(SETUPS)[-1:]
PASSING = re.compile(r"log|.*\.lock|\.(latest|captions\..*|files\..*)\.unfinished-.*")
TIMEOUT_S = 900.0  # for a process that is not killed
TWO_WORKERS = """\
from transformer_cli.data import encoding
encoding.MIN_PAIRS_FOR_WORKERS, encoding.available_cores = 50, lambda: 2  # so that `tfm prepare` has two workers
"""
DISTURBED = """\
import sys
sys.path.append({scripts!r})
import disturb
from pathlib import Path
kept = disturb.disturbed(disturb.Disturbance(Path.cwd(), {strike}))
kept.__enter__()
"""
COLUMNS = ("clock", "on disk", "in writing", "workers", "ended")
"""kills by the clock, and at an operation on the disk; those that left something unfinished; processes that the killed
ones had started; and how often the command came to its end, after kills"""
STOP, COUNT = "disturb.stop_at({})", "lambda seen: Path('../operations').write_text(str(len(seen.operations)))"


@dataclass
class Found:
    """The outcomes of killing one command."""

    counts: Counter[str] = field(default_factory=Counter)
    """for each of COLUMNS"""
    different: set[str] = field(default_factory=set)
    """files that were not those of an undisturbed run"""
    failures: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.counts["clock"] + self.counts["on disk"]


class Torture:
    """A folder with text, in which each command has a folder of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.forks = folder, seed, Forks()
        self._config = folder / "config.yaml"
        self._config.write_text(CONFIG, encoding="utf-8")
        for split, pairs in read_captions(160).items():
            few = pairs if split == "train" else pairs[:30]
            for language, lines in zip(("de", "en"), zip(*few, strict=True), strict=True):
                (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def command(self, name: str, settings: Sequence[str]) -> list[str]:
        """Returns a command of `tfm` with settings."""
        return [name, "--config", str(self._config), *(part for each in settings for part in ("--set", each))]

    def place(self, data: Path | None = None) -> Path:
        """Makes a new folder with a link to a folder of datasets."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        if data:
            (place / "data").symlink_to(data)
        return place

    def undisturbed(self, command: Sequence[str], data: Path | None = None) -> Path:
        """Runs a command to its end in a folder of its own. Returns the folder."""
        place = self.place(data)
        if self._run(command, place):
            sys.exit(f"torture: undisturbed, {command[0]} fails: {(place / 'log').read_text(encoding='utf-8')}")
        return place

    def kill(self, command: Sequence[str], kills: int, whole: Path, data: Path | None, name: str) -> Found:
        """Kills a command n times; each time it comes to its end, it starts again in a new folder."""
        found, chance = Found(), random.Random(f"{self.seed} {name}")
        place, started = self.place(data), time.monotonic()
        assert self._run(command, place, COUNT) == 0, (place / "log").read_text(encoding="utf-8")
        seconds, n_operations = time.monotonic() - started, int((self.folder / "operations").read_text())
        share = 1 if command[0] == "prepare" else 3  # training goes on where it was: several kills for each end
        while found.kills < kills:
            place, code = self.place(data), None
            while found.kills < kills and code is None:
                moment, number = chance.uniform(0.0, seconds / share), chance.randint(1, n_operations // share)
                is_by_clock = found.kills % 2 == 1
                process = self._start(command, place, "" if is_by_clock else STOP.format(number))
                until = time.monotonic() + (moment if is_by_clock else TIMEOUT_S)
                while state_of(process) not in "TZ" and time.monotonic() < until:
                    time.sleep(0.0005)
                code = self._kill(process, found)
                if code is None:
                    found.counts["clock" if is_by_clock else "on disk"] += 1
                    found.counts["in writing"] += any(place.rglob("*.unfinished-*"))
                if command[0] == "prepare":
                    found.different |= half_made(place, whole)
            code = self._run(command, place) if code is None else code
            if code:
                log = (place / "log").read_text(encoding="utf-8", errors="replace")
                found.failures.append(f"{name}: exit code {code}: {log}")
                break
            found.counts["ended"] += 1
            found.different |= differences(place, whole)
            shutil.rmtree(place)
        return found

    def _start(self, command: Sequence[str], place: Path, strike: str = "") -> int:
        """Starts `tfm` in a folder, with its output in `log`. Returns its process. strike: see Disturbance."""
        scripts, log = str(Path(__file__).parent), place / "log"
        before = TWO_WORKERS + (DISTURBED.format(scripts=scripts, strike=strike) if strike else "")
        return self.forks.start(*command, cwd=place, before=before, streams=(Path(os.devnull), log, log))

    def _run(self, command: Sequence[str], place: Path, strike: str = "") -> int:
        """Runs `tfm` to its end. Returns its exit code."""
        self._start(command, place, strike)
        return self.forks.end()

    def _kill(self, process: int, found: Found) -> int | None:
        """Kills the last process. Notes how many workers it had, and which of them are left.

        Returns its exit code if it had already ended, else None.
        """
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)  # so that it starts none while we look
        workers = children(process)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        code = self.forks.end()
        found.counts["workers"] += len(workers)
        found.failures += [f"a worker is left: process {worker}" for worker in workers if is_left(worker)]
        return None if code == -signal.SIGKILL else code


def children(process: int) -> list[int]:
    """Returns the child processes of a process; none if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = Path(f"/proc/{process}/task").iterdir()
        return [int(each) for thread in threads for each in (thread / "children").read_text("ascii").split()]
    return []


def state_of(process: int) -> str:
    """Returns the state of a process: a letter, Z if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def is_left(process: int) -> bool:
    """Whether a process still exists after a minute (starting may take that long)."""
    until = time.monotonic() + 60
    while state_of(process) != "Z":
        if time.monotonic() > until:
            return True
        time.sleep(0.05)
    return False


def contents(folder: Path) -> dict[str, bytes]:
    """Returns path → `lasting` content of all files below a folder.

    Empty locks are ignored, and so are an unfinished `latest` or dataset, which are deleted after a day.
    """
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(at): lasting(path) for at, path in found.items() if not any(map(PASSING.fullmatch, at.parts))}


def lasting(path: Path) -> bytes:
    """Returns a file's content without times, the run's id and provenance, and their checksums; b"" for pictures."""
    content = b"" if path.suffix == ".png" else path.read_bytes()
    if path.name == "history.jsonl":
        entries = [json.loads(line) for line in content.splitlines()]
        content = json.dumps([_without(each, is_of_time) for each in entries]).encode()
    elif path.name == "run.json":
        content = json.dumps(_without(json.loads(content), lambda key: key in ("id", "provenance"))).encode()
    elif path.name == "SHA256SUMS":  # of these two, the content is compared
        lines = content.decode().splitlines()
        content = "\n".join(line for line in lines if not line.endswith(("  run.json", "  state.json"))).encode()
    elif path.name == "state.json":
        value = _without(json.loads(content), lambda key: key == "history_sha256")
        content = json.dumps({**value, "running": _without(value["running"], lambda key: key == "seconds")}).encode()
    return content


def _without(mapping: Mapping[str, Any], is_left_out: Callable[[str], bool]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if not is_left_out(key)}


def differences(one: Path, other: Path) -> set[str]:
    """Returns the files that differ between two folders."""
    ours, theirs = contents(one), contents(other)
    return {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}


def half_made(place: Path, whole: Path) -> set[str]:
    """Returns the files of visible datasets in a folder that are not those of a complete one."""
    if not any(place.glob("data/[!.]*")):
        return set()
    return {name for name in differences(place, whole) if name.startswith("data/") and "/." not in name}


def torture(folder: Path, options: argparse.Namespace) -> list[str]:
    """Runs everything, and prints the table. Returns the failures."""
    victim, failures = Torture(folder, options.seed), list[str]()
    kinds = {kind: victim.command("prepare", kind) for kind in ((), SUBWORDS)}
    datasets = {kind: victim.undisturbed(command) for kind, command in kinds.items()}
    trials: list[tuple[str, list[str], Path, Path | None, int]] = []
    for name in SHORT if options.short else SETUPS:
        command, has_subwords = victim.command("train", SETUPS[name]), SUBWORDS[0] in SETUPS[name]
        prepared = datasets[SUBWORDS if has_subwords else ()] / "data"
        whole = victim.undisturbed(command, prepared)
        if "patience" in name:
            assert '"step": 40,' not in (whole / "runs/run/history.jsonl").read_text(encoding="utf-8"), "no patience"
        trials.append((name, command, whole, prepared, 6 if options.short else 50))
    for kind, command in kinds.items():
        name = f"tfm prepare, {'subwords' if kind else 'words'}"
        trials.append((name, command, datasets[kind], None, 2 if options.short else 10))
    rows = [["", *COLUMNS, "in the end"]]
    for name, command, whole, data, kills in trials:
        found = victim.kill(command, kills, whole, data, name)
        counts, different = (str(found.counts[each]) for each in COLUMNS), " ".join(sorted(found.different))
        rows.append([name, *counts, different or "identical"])
        failures += [*found.failures, *sorted(found.different)]
        print(f"{name}: {found.kills} kills", file=sys.stderr, flush=True)
    print(format_table(rows), flush=True)
    victim.forks.close()
    return failures


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="repeats a torture")
    parser.add_argument("--short", action="store_true", help="one setup, a few kills")
    options = parser.parse_args()
    print(f"torture with --seed {options.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        failures = torture(Path(folder), options)
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{'NOT ' if failures else ''}all identical, after {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    isolate()  # as tests are, whose forks it uses
    sys.exit(main())
