"""Seconds and memory (from /proc, Linux) of commands, each in a process of its own."""

import os
import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import find_dataset

PYTHON = (sys.executable, "-c")
TFM = (sys.executable, "-m", "transformer_cli")
STEPS = 30  # training steps, after which memory no longer grows
LARGE = 1_000_000  # pairs of a large text
LARGE_SETTINGS = {"subwords": ("demo", "--set", "data.subwords.vocab_size=32000"), "words": ("multi30k",)}
MB = 1e6

BARE_SPACY = """\
import sys, spacy
for argument in sys.argv[1:]:
    language, path = argument.split("=", 1)
    tokenize = spacy.blank(language).tokenizer
    with open(path, encoding="utf-8", newline="\\n") as lines:
        for line in lines:
            tokenize(line.rstrip("\\n"))
"""
SOME_STEPS = """\
import os, resource, sys, time
from transformer_cli.commands.app import main
from transformer_cli.training.trainer import Trainer
def peak():  # in kB; getrusage would include the parent's
    return open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
take_step, imported, ends, faults = Trainer.step, peak(), [], []
def counted_step(self, rows):
    take_step(self, rows)
    ends.append(time.time())
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    if len(ends) == int(sys.argv[1]):
        print(ends[0], (faults[-1] - faults[0]) / max(1, len(faults) - 1), peak(), imported, flush=True)
        os._exit(0)
Trainer.step = counted_step
main(["train", *(f"--config={name}" for name in sys.argv[2:])])
"""


def prepare_speed(config: Config, *, rounds: int = 3) -> list[Figure]:
    """Compares a first `tfm prepare` with spaCy's tokenisers alone on the same text; both times include imports."""
    with TemporaryDirectory() as temporary:
        folders = (Path(temporary, str(number)) for number in range(rounds + 1))

        def prepare() -> Path:
            folder = next(folders)
            folder.mkdir()
            _run(*TFM, "prepare", folder=folder)
            return find_dataset(config.data, folder / "data")

        dataset = prepare()
        texts = [*(f"{config.data.source}={path}" for path in dataset.glob("*.source.txt"))]
        texts += [*(f"{config.data.target}={path}" for path in dataset.glob("*.target.txt"))]
        say("prepare: tfm prepare, then spaCy alone on one core")
        bare = partial(_run, *PYTHON, BARE_SPACY, *texts)
        return [Figure("prepare", config.run_name, "s", *alternate((prepare, bare), rounds=rounds))]


def training_memory(name: str, data: Path) -> list[Figure]:
    """Measures memory and page faults of some steps of `tfm train`, its imports, and the seconds to the first step."""
    if not Path("/proc/self/status").exists():
        raise Unavailable("memory is read from Linux's /proc/self/status, which this system does not have")
    say(f"memory: {STEPS} steps of {name}")
    with TemporaryDirectory() as folder:
        Path(folder, "data").symlink_to(data.resolve())
        started = time.time()
        first_step, faults, *peaks = _run(*PYTHON, SOME_STEPS, str(STEPS), folder=Path(folder)).split()
    return [
        Figure("memory", f"{name}: peak, imports as reference", "MB", *(int(peak) * 1024 / MB for peak in peaks)),
        Figure("memory", f"{name}: start to first step", "s", float(first_step) - started),
        Figure("memory", f"{name}: page faults", "a step", float(faults)),
    ]


def large_text(data: Path) -> list[Figure]:
    """Measures the seconds and peak memory of preparing a large text, and the seconds from there to the first step.

    data: a dataset of Multi30k. The text is its training pairs, drawn again and again, two words of each side changed.
    """
    figures, draw = list[Figure](), random.Random(1)
    with TemporaryDirectory() as folder:
        for side in ("source", "target"):
            lines = [line.split() for line in (data / f"train.{side}.txt").read_text(encoding="utf-8").splitlines()]
            words = sorted({word for line in lines for word in line})
            with open(Path(folder, f"large.{side}"), "w", encoding="utf-8") as file:
                for number in range(LARGE):
                    changed = [*lines[number * 7919 % len(lines)], str(number)]
                    for _ in range(2):
                        changed[draw.randrange(len(changed))] = draw.choice(words)
                    print(*changed, file=file)
        for kind, (config, *settings) in LARGE_SETTINGS.items():
            say(f"large: {LARGE:,} pairs, {kind}")
            options = ("--config", config, "--source", "de", "--target", "en", *settings)
            started = time.time()
            peak = _peak_memory(*TFM, "prepare", "large.source", "large.target", *options, folder=Path(folder))
            figures.append(Figure("large", f"prepare {LARGE:,} pairs, {kind}", "s", time.time() - started))
            figures.append(Figure("large", f"its peak memory, {kind}", "MB", peak / MB))
            started = time.time()
            first_step, *_ = _run(*PYTHON, SOME_STEPS, "1", "large.yaml", folder=Path(folder)).split()
            taken = float(first_step) - started
            figures.append(Figure("large", f"start of training to first step, {kind}", "s", taken))
            Path(folder, "large.yaml").unlink()
    return figures


def _peak_memory(*command: str, folder: Path) -> int:
    """Runs a command. Returns the peak of the proportional set sizes of all its processes, in bytes."""
    peak, process = 0, subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        total, numbers = 0, [process.pid]
        with suppress(OSError):  # a process that has just ended
            for number in numbers:
                found = re.search(r"^Pss: +(\d+)", Path(f"/proc/{number}/smaps_rollup").read_text(), re.MULTILINE)
                total += int(found[1]) * 1024 if found else 0
                for children in Path(f"/proc/{number}/task").glob("*/children"):
                    numbers += map(int, children.read_text().split())
        peak = max(peak, total)
        time.sleep(0.2)
    if process.returncode:
        raise Unavailable(f"{' '.join(command[-2:])}: exit code {process.returncode}")
    return peak


def start_up(run: Path, *, rounds: int = 7) -> list[Figure]:
    """Measures the seconds of two help texts and of a short translation, and of importing torch and spaCy."""
    commands = {
        "tfm --help": ["--help"],
        "tfm evaluate --help": ["evaluate", "--help"],
        "tfm translate": ["translate", "--run", str(run), "Ein Hund."],
    }
    ways = [*(partial(_run, *TFM, *each) for each in commands.values()), partial(_run, *PYTHON, "import torch, spacy")]
    say(f"start: {', '.join(commands)}; importing torch and spaCy")
    alternate(ways, rounds=1)  # from now on all files are in the page cache
    *seconds, imports = alternate(ways, rounds=rounds)
    return [Figure("start", name, "s", taken, imports) for name, taken in zip(commands, seconds, strict=True)]


def _run(*command: str, folder: Path | None = None) -> str:
    """Runs a command without a GPU. Returns its standard output. Raises Unavailable if it fails."""
    without_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=folder, env=without_gpu, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[-2:])}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
