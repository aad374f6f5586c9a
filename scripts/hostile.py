"""Tests damaged files and hostile text.

`make hostile` damages each file of a dataset, a run and its export, one at a time, and counts tfm's reactions. A file
is cut at 20 places, has one bit flipped at 50, is emptied, replaced by the content of a sibling or of another project,
and deleted. After each damage the dataset is read and prepared again, the run translates and draws its curves, or the
exported model translates. If a dataset or run is not refused, and always after the first damage of each kind to a file,
the run also continues training. tfm must refuse with one line, or give the same result as without damage; anything else
is "missed", and the script fails. Files that users may edit are counted as "edit" if tfm follows them: config.yaml, and
the pointers, which may name any existing checkpoint or run. Files of training text in each format are damaged 200 times
each: cut, with changed bytes, with inserted parts of other formats and entities. Each must give pairs or one line
within three seconds, in less than 64 MB.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import measure  # noqa: F401  # isort: skip  # it finds what is in tests/
from outcomes import outcome
from torture import write_captions
from transformer_cli import Translator, evaluate, prepare
from transformer_cli.adapters.corpora.formats import read_texts
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.adapters.study import plots
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import DataError, TfmError
from transformer_cli.runs.finding import find_run
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import validations_so_far
from transformer_cli.text import words
from transformer_cli.text.codec import SIDES

CONFIG = """\
name: run
data:
  corpus: files
  {tokens}
  files: {{train: {{source: train.de, target: train.en}}, valid: {{source: valid.de, target: valid.en}}}}
model: {{d_model: 8, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 8, max_length: 80}}
training: {{epochs: 3, batch_size: 12, learning_rate: 3e-2, average_checkpoints: 2, precision: float32, device: cpu,
  num_threads: 1}}
"""
TOKENS = {"words": "min_freq: 1", "subwords": "tokens: subwords\n  subwords: {vocab_size: 330}"}
SENTENCES = ["Ein Hund läuft am Strand.", "Der Mann malt den Park."]
KINDS = ("cut", "bit", "emptied", "sibling", "foreign", "deleted")
OUTCOMES = ("refused", "harmless", "edit", "missed")
EDITABLE = ("config.yaml", "best", "last", "average", "latest")


@dataclass
class Table:
    """The number of outcomes by kind of damage."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """the lines with which damage was refused"""

    def __str__(self) -> str:
        lines = [f"{'':10}{'tried':>8}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES)]
        for kind in (*KINDS, "all"):
            found = [sum(n for (k, o), n in self.counts.items() if kind in (k, "all") and o == out) for out in OUTCOMES]
            lines.append(f"{kind:10}{sum(found):>8,}" + "".join(f"{n:>11,}" for n in found))
        return "\n".join([*lines, *(f"missed: {line}" for line in self.missed)])


def make_project(folder: Path, tokens: str, n_pairs: int) -> None:
    """Prepares a small corpus, trains a run of three epochs, averages the last two, and exports it."""
    text = folder / "text"
    text.mkdir(parents=True)
    write_captions(text, train=n_pairs, valid=6)
    (text / "run.yaml").write_text(CONFIG.format(tokens=TOKENS[tokens]), encoding="utf-8")
    config = load_config(text / "run.yaml")
    prepare(config, data_dir=folder / "data")
    train(config, data_dir=folder / "data", runs_dir=folder / "runs")
    list(evaluate("run", splits="valid", data_dir=folder / "data", runs_dir=folder / "runs"))
    export(folder / "runs/run", folder / "export")


def read_data(project: Path) -> object:
    """Returns the content of a dataset."""
    config = Run.open(project / "runs/run").config
    dataset = Dataset.open(find_dataset(config.data, project / "data"))
    codecs = (dataset.codecs.source, dataset.codecs.target)
    found: list[object] = [(codec.tokens(range(len(codec))), codec.decode(range(4, len(codec)))) for codec in codecs]
    for name in dataset.manifest["splits"]:
        split = dataset.split(name)
        arrays = [array for side in (split.source, split.target) for array in (side.ids, side.offsets)]
        found += [*(np.asarray(array).tobytes() for array in arrays), *(dataset.text(name, side) for side in SIDES)]
    return found


def prepare_again(project: Path) -> object:
    """Prepares an existing dataset again."""
    prepared = prepare(load_config(project / "text/run.yaml"), data_dir=project / "data")
    return prepared.created, json.dumps(prepared.manifest, sort_keys=True)


def translations(run: Run) -> object:
    """Returns a run's translations and their scores."""
    found = Translator(run, "cpu").with_options(max_tokens=20).translate_detailed(SENTENCES)
    return [(each.text, each.log_prob) for each in found]


def translate(project: Path) -> object:
    """Returns the newest run's translations."""
    return translations(Run.open(find_run(None, project / "runs")))


def translate_exported(project: Path) -> object:
    """Returns the exported run's translations."""
    return translations(Run.open(project / "export"))


def translate_imported(project: Path) -> object:
    """Imports a model of another program, and returns its translations."""
    with tempfile.TemporaryDirectory() as place:
        return translations(import_run(project, name="run", source="de", target="en", runs_dir=Path(place)))


def draw(project: Path) -> object:
    """Returns the data of the run's learning curves."""
    return validations_so_far(Run.open(project / "runs/run"))


def go_on(project: Path) -> object:
    """Trains the run for one more epoch, in a copy of the project."""
    with tempfile.TemporaryDirectory() as place:
        for part in ("data", "runs"):
            shutil.copytree(project / part, Path(place, part))
        config = load_config(project / "text/run.yaml", ["training.epochs=4"])
        return outcome(train(config, data_dir=Path(place, "data"), runs_dir=Path(place, "runs")))


@dataclass
class Trial:
    """A project whose files are damaged one at a time."""

    project: Path
    uses: Sequence[Callable[[Path], object]]
    n_cuts: int
    n_bits: int
    seed: int = 0
    has_sums: bool = True
    """whether damage can be told from another content, so that another result is a miss"""

    def __post_init__(self) -> None:
        self.table, self._chance = Table(), random.Random(self.seed)
        self._expected = {use: use(self.project) for use in self.uses}

    def damages(self, path: Path, foreign: Path) -> Iterator[tuple[str, bytes | None]]:
        """Yields the kind of each damage and the damaged content (None: deleted)."""
        content = path.read_bytes()
        inside = range(1, len(content))
        for place in sorted(self._chance.sample(inside, min(self.n_cuts, len(inside)))):
            yield "cut", content[:place]
        for bit in sorted(self._chance.sample(range(8 * len(content)), min(self.n_bits, 8 * len(content)))):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            yield "bit", bytes(flipped)
        if content:
            yield "emptied", b""
        alike = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other.suffix == path.suffix]
        alike += sorted(path.parent.parent.glob(f"*/{path.name}"))
        contents = dict.fromkeys(each.read_bytes() for each in alike)
        yield from (("sibling", other) for other in list(contents)[:4] if other != content)
        if foreign.is_file() and foreign.read_bytes() != content:
            yield "foreign", foreign.read_bytes()
        yield "deleted", None

    def outcome(self, *, in_full: bool, is_editable: bool) -> tuple[str, str]:
        """Uses the damaged project. Returns refused, harmless, edit or missed, with details on the last.

        in_full: continue training even if an earlier step was refused. is_editable: another result counts as edit.
        """
        refused = edited = False
        for use, expected in self._expected.items():
            if refused and use is go_on and not in_full:
                break
            try:
                found = use(self.project)
            except TfmError as error:
                if "\n" in str(error):
                    return "missed", f"{use.__name__}: more than one line: {error}"
                self.table.said.append(str(error))
                refused = True
            except Exception as error:
                return "missed", f"{use.__name__}: {type(error).__name__}: {error}"
            else:
                if repr(found) != repr(expected):
                    if not is_editable:
                        return "missed", f"{use.__name__}: another result"
                    edited = True
        return ("refused" if refused else "edit" if edited else "harmless"), ""

    def damage(self, path: Path, foreign: Path) -> None:
        """Damages one file in all ways, and counts the outcomes. foreign: the content in another project."""
        content, times = path.read_bytes(), path.stat()
        seen = set[str]()
        # a list, because the damaged file is one of its siblings
        for kind, damaged in list(self.damages(path, foreign)):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            is_editable = path.name in EDITABLE or not self.has_sums
            outcome, why = self.outcome(in_full=kind not in seen, is_editable=is_editable)
            seen.add(kind)
            self.table.counts[kind, outcome] += 1
            if outcome == "missed":
                self.table.missed.append(f"{path.relative_to(self.project)}: {kind}: {why}")
            path.write_bytes(content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def try_all(folder: Path, tokens: str, *, n_cuts: int, n_bits: int, every: int = 1, seed: int = 0) -> dict[str, Table]:
    """Damages every file of a dataset, of its run, and of the run's export. Returns the three tables.

    tokens: words or subwords. every: damage only every n-th file.
    """
    project, other = folder / tokens, folder / f"other {tokens}"
    for place, n_pairs in ((project, 24), (other, 30)):
        make_project(place, tokens, n_pairs)
    (data,), (other_data,) = (sorted((place / "data").iterdir()) for place in (project, other))
    parts = {
        "dataset": (data, other_data, [read_data, prepare_again, go_on]),
        "run": (project / "runs", other / "runs", [translate, draw, go_on]),
        "export": (project / "export", other / "export", [translate_exported]),
    }
    tables = {}
    for name, (ours, theirs, uses) in parts.items():
        trial = Trial(project, uses, n_cuts, n_bits, seed)
        for path in sorted(path for path in ours.rglob("*") if path.is_file())[::every]:
            trial.damage(path, theirs / path.relative_to(ours))
        tables[name] = trial.table
    return tables


def try_model(folder: Path, model: Path, *, n_cuts: int, n_bits: int) -> Table:
    """Damages every file of another program's model, which has no checksums. Returns the table."""
    project = Path(shutil.copytree(model, folder / "model"))
    trial = Trial(project, [translate_imported], n_cuts, n_bits, has_sums=False)
    for path in sorted(project.iterdir()):
        path.chmod(0o644)
        trial.damage(path, Path())
    return trial.table


# Training text

UNIT = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>{} <ph>x</ph></seg></tuv></tu>'
TMX = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>{}</body></tmx>'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
INSERTED = [b"&l9;", f"<!DOCTYPE tmx [{LAUGHS}]>".encode(), b"<hi>" * 5_000, b"<!--", b"</tu>", b"a" * 500_000]
INSERTED += [b'"', b'"\n' * 999, b"\t" * 100_000, b"[" * 100_000, b"\\ud83d", b"\r", b"\0", b"\xff\xfe", "😀".encode()]


def texts_of_all_formats() -> dict[str, bytes]:
    """Returns a file of training text in each format."""
    pairs = [(f"Satz {n}, der Hund", f'Sentence {n}, the "dog"') for n in range(60)]
    rows = io.StringIO()
    csv.writer(rows).writerows([("de", "en"), *pairs])
    tsv = "".join(f"{source}\t{target}\n" for source, target in pairs)
    tmx = TMX.format("\n".join(UNIT.format(source, target) for source, target in pairs))
    objects = ({"translation": {"de": source, "en": target}} for source, target in pairs)
    return {
        "TMX": tmx.encode(),
        "UTF-16": tmx.encode("utf-16"),
        "TSV": tsv.encode(),
        "CSV": rows.getvalue().encode(),
        "JSON": "".join(f"{json.dumps(each)}\n" for each in objects).encode(),
        "gzip": gzip.compress(tsv.encode(), mtime=0),
        "bzip2": bz2.compress(tmx.encode()),
        "xz": lzma.compress(tmx.encode()),
    }


def damaged_text(content: bytes, chance: random.Random) -> bytes:
    """Cuts a text, changes some bytes, inserts something, or several of these."""
    while True:
        kind, place = chance.randrange(3), chance.randrange(len(content) + 1)
        if kind == 0:
            content = content[:place]
        elif kind == 1:
            content = content[:place] + chance.randbytes(chance.randint(1, 4)) + content[place + 2 :]
        else:
            content = content[:place] + chance.choice(INSERTED) + content[place:]
        if chance.random() < 0.6:
            return content


def try_text(folder: Path, content: bytes, n: int) -> Table:
    """Reads a file of training text, damaged in n ways."""
    path, table, chance = folder / "text.csv", Table(), random.Random(0)
    data = DataConfig(corpus="files", files={"train": path, "valid": path})
    tracemalloc.start()
    for number in range(n):
        path.write_bytes(damaged_text(content, chance))
        tracemalloc.reset_peak()
        begun, outcome, why = time.process_time(), "harmless", ""
        try:
            sum(1 for _ in read_texts([path], data))
        except DataError as error:
            outcome = "refused"
            table.said.append(str(error))
            if "\n" in str(error):
                why = f"more than one line: {error}"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        seconds, peak = time.process_time() - begun, tracemalloc.get_traced_memory()[1]
        if seconds > 3 or peak > 64e6:
            why = f"{seconds:.1f} s, {peak:,} bytes"
        if why:
            outcome = "missed"
            table.missed.append(f"{number}: {why}")
        table.counts["cut", outcome] += 1
    tracemalloc.stop()
    return table


# make hostile


def make_quick() -> None:
    """Skips slow steps that change nothing here: syncing, drawing, and opening spaCy's tokenisers again."""
    os.fsync = lambda fd: None
    plots.draw_curves = lambda histories: Figure((1, 1))
    words._blank_tokenizer = cache(words._blank_tokenizer)
    torch.set_num_threads(1)


def main() -> None:
    make_quick()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, content in texts_of_all_formats().items():
            table = try_text(Path(folder), content, 200)
            print(f"text, {name}: {dict(table.counts)}", *table.missed, sep="\n", flush=True)
            missed += len(table.missed)
        for tokens in TOKENS:
            with redirect_stderr(io.StringIO()):
                tables = try_all(Path(folder), tokens, n_cuts=20, n_bits=50)
            for name, table in tables.items():
                print(f"{name} of {tokens}\n{table}\n", flush=True)
                missed += len(table.missed)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
