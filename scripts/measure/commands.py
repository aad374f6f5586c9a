"""The commands as a user runs them, each in a process of its own: seconds, and memory from /proc (Linux)."""

import os
import subprocess
import sys
import time
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli.config.schema import Config
from transformer_cli.datasets.dataset import find_dataset

PYTHON = (sys.executable, "-c")
TFM = (sys.executable, "-m", "transformer_cli")
STEPS = 30  # training steps, after which memory does not grow any more
SAMPLE_PAIRS = 50_000  # pairs of a large corpus that spaCy alone tokenises, to measure its speed
WATCH_S = 0.3
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
import os, sys, time
from transformer_cli.commands.app import main
from transformer_cli.training.trainer import Trainer
def peak():  # in kB; getrusage would include the parent's
    return open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
take_step, imported, ends = Trainer.step, peak(), []
def counted_step(self, rows):
    take_step(self, rows)
    ends.append(time.time())
    if len(ends) == int(sys.argv[1]):
        print(ends[0], peak(), imported, flush=True)
        os._exit(0)
Trainer.step = counted_step
main(["train", *sys.argv[2:]])
"""
IDLE = "import transformer_cli.datasets.make_dataset, spacy, torchtext.vocab; print(flush=True); input()"
IDLE_WORKER = """\
import sys
sys.modules["torch"] = None  # as the workers of `tfm prepare` do
import transformer_cli.datasets.word_cutting, spacy
print(flush=True)
input()
"""


def prepare_speed(config: Config, *, rounds: int = 3) -> list[Figure]:
    """Compare `tfm prepare` from nothing with spaCy's tokenisers alone on the same text; both times include imports."""
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


def large_prepare_speed(yaml: Path, pairs: int) -> list[Figure]:
    """Measure `tfm prepare` of a large corpus: pairs/s beside cores × spaCy's own speed, and memory.

    Memory is the proportional set size summed over processes, in which a shared page counts once, minus that of idle
    interpreters.
    """
    _needs_proc()
    sampled, cores, samples = min(pairs, SAMPLE_PAIRS), len(os.sched_getaffinity(0)), []
    for language in ("de", "en"):
        with open(yaml.with_name(f"train.{language}"), encoding="utf-8") as lines:
            sample = yaml.with_name(f"sample.{language}")
            sample.write_text("".join(islice(lines, sampled)), encoding="utf-8")
        samples.append(f"{language}={sample}")
    say(f"prepare: spaCy alone on {sampled:,} pairs, and on none")
    nothing = [f"{language}={os.devnull}" for language in ("de", "en")]
    ways = [partial(_run, *PYTHON, BARE_SPACY, *texts) for texts in (samples, nothing)]
    bare, imports = alternate(ways, rounds=3)
    say(f"prepare: tfm prepare of {pairs:,} pairs")
    seconds, memory, processes = _watch((*TFM, "prepare", "--config", str(yaml)), yaml.parent)
    return [
        Figure("prepare", "large", "pairs/s", pairs / seconds, cores * sampled / (bare - imports)),
        Figure("prepare", "large: memory beyond idle interpreters", "MB", (memory - _idle_memory(processes)) / MB),
        Figure("prepare", "large: processes at the peak of memory", "", processes),
    ]


def training_memory(name: str, data: Path, *options: str) -> list[Figure]:
    """Measure peak memory of some steps of `tfm train` beside its imports, and seconds until the first step is done."""
    _needs_proc()
    say(f"memory: {STEPS} steps of {name}")
    with TemporaryDirectory() as folder:
        Path(folder, "data").symlink_to(data.resolve())
        started = time.time()
        first_step, *peaks = _run(*PYTHON, SOME_STEPS, str(STEPS), *options, folder=Path(folder)).split()
    return [
        Figure("memory", f"{name}: peak, imports as reference", "MB", *(int(peak) * 1024 / MB for peak in peaks)),
        Figure("memory", f"{name}: start to first step", "s", float(first_step) - started),
    ]


def start_up(run: Path, *, rounds: int = 7) -> list[Figure]:
    """Measure the seconds of two help texts and of a short translation, beside importing torch and spaCy."""
    commands = {
        "tfm --help": ["--help"],
        "tfm evaluate --help": ["evaluate", "--help"],
        "tfm translate": ["translate", "--run", str(run), "Ein Hund."],
    }
    ways = [*(partial(_run, *TFM, *each) for each in commands.values()), partial(_run, *PYTHON, "import torch, spacy")]
    say(f"start: {', '.join(commands)}; importing torch and spaCy")
    alternate(ways, rounds=1)  # from now on all files are in the page cache
    *seconds, imports = alternate(ways, rounds=rounds)
    figures = [Figure("start", name, "s", taken, imports) for name, taken in zip(commands, seconds, strict=True)]
    for name in ("tfm --help", "tfm evaluate --help"):
        trace = (sys.executable, "-X", "importtime", *TFM[1:], *commands[name])
        imported = subprocess.run(trace, capture_output=True, text=True, check=True).stderr.split()
        figures.append(Figure("start", f"{name} imports torch", "0 or 1", "torch" in imported))
    return figures


def _needs_proc() -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        raise Unavailable("memory is read from Linux's /proc/PID/smaps_rollup, which this system does not have")


def _run(*command: str, folder: Path | None = None) -> str:
    """Run a command that sees no GPU, and return its standard output. Raises Unavailable if it fails."""
    without_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=folder, env=without_gpu, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[-2:])}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _watch(command: tuple[str, ...], folder: Path) -> tuple[float, int, int]:
    """Run a command. Returns its seconds, the bytes that its processes held together at the peak, and their number."""
    peak = (0, 0)
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            family = _family(process.pid)
            peak = max(peak, (sum(map(_memory, family)), len(family)))
            time.sleep(WATCH_S)
    if process.returncode:
        raise Unavailable(f"{' '.join(command[1:])}: exit code {process.returncode}")
    return time.perf_counter() - started, *peak


def _idle_memory(processes: int) -> int:
    """Returns the bytes of this many idle interpreters together, with the imports of `tfm prepare` and its workers."""
    programs = [IDLE] + [IDLE_WORKER] * (processes - 1)
    idle = [subprocess.Popen((*PYTHON, each), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for each in programs]
    for each in idle:
        assert each.stdout is not None
        each.stdout.readline()
    memory = sum(_memory(each.pid) for each in idle)
    for each in idle:
        each.communicate(b"\n")
    return memory


def _family(process: int) -> list[int]:
    """Returns a process and all its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
    family = [process]
    for member in family:  # the list grows during the loop
        family += [child for child, parent in parents.items() if parent == member]
    return family


def _memory(process: int) -> int:
    """Returns the proportional set size in bytes; 0 if the process has just ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().split("\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
