"""Damage every file of a dataset, a run and its export, one at a time, and count what tfm says: `make hostile`.

Each file is cut at 20 places, has one bit flipped at 50, is emptied, replaced by a sibling's and by another project's
content, and deleted. After each damage the dataset is read and prepared again, or the run translates and draws its
curves, or the exported model translates. If a dataset or a run is not refused, and always after the first damage of
each kind to a file, the run goes on training too. Each of these is refused with one line, or gives the same result as
without damage; anything else is missed, and the script fails. What a user may edit is followed: config.yaml, where its
settings may change, and the pointers, which may name any checkpoint or run that is there; this is counted on its own.

Files of training text in each format are damaged too, 200 times each: cut, with bytes changed, with parts of other
formats and entities put in. Each of these gives pairs or one line within three seconds, and takes less than 64 MB.
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
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from disturb import is_of_time
from transformer_cli import Translator, evaluate, prepare
from transformer_cli.adapters.corpora.formats import read_texts
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.adapters.study import plots
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import DataError, TfmError
from transformer_cli.runs.run import Run, find_run
from transformer_cli.runs.state import validations_so_far
from transformer_cli.text import words
from transformer_cli.text.codec import SIDES
from transformer_cli.training.trainer import train

CONFIG = """\
name: run
data:
  corpus: files
  {tokens}
  files:
    train: {{source: train.de, target: train.en}}
    valid: {{source: valid.de, target: valid.en}}
    test: {{source: test.de, target: test.en}}
model: {{d_model: 8, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 8, max_length: 40}}
training: {{epochs: 3, batch_size: 12, learning_rate: 3e-2, average: 2, seed: {seed}, precision: float32, device: cpu,
  num_threads: 1}}
"""
TOKENS = {"words": "min_freq: 1", "subwords": "tokens: subwords\n  subwords: {size: 290}"}
NOUNS = {"Hund": "dog", "Mann": "man", "Park": "park", "Ball": "ball", "Baum": "tree"}
VERBS = {"sieht": "sees", "sucht": "seeks", "malt": "paints"}
SENTENCES = ["Der Hund sieht den Ball.", "Der Mann malt den Park."]
KINDS = ("cut", "bit", "emptied", "sibling", "foreign", "deleted")
OUTCOMES = ("refused", "harmless", "edit", "missed")
EDITABLE = ("config.yaml", "best", "last", "average", "latest")


@dataclass
class Table:
    """How many damages of each kind ended how."""

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


def make_project(folder: Path, tokens: str, seed: int) -> None:
    """Prepare a small corpus, train a run of three epochs, the last two of which are averaged, and export it."""
    chance = random.Random(seed)
    (folder / "text").mkdir(parents=True)
    for split, size in (("train", 24), ("valid", 6), ("test", 6)):
        pairs = []
        for _ in range(size):
            (one, first), (other, second) = chance.sample(sorted(NOUNS.items()), 2)
            verb, third = chance.choice(sorted(VERBS.items()))
            pairs.append((f"Der {one} {verb} den {other}.", f"The {first} {third} the {second}."))
        for side, language in enumerate(("de", "en")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / "text" / f"{split}.{language}").write_text(lines, encoding="utf-8")
    (folder / "text/run.yaml").write_text(CONFIG.format(tokens=TOKENS[tokens], seed=seed), encoding="utf-8")
    config = load_config(folder / "text/run.yaml")
    prepare(config, data_dir=folder / "data")
    train(config, data_dir=folder / "data", runs_dir=folder / "runs")
    list(evaluate("run", data_dir=folder / "data", runs_dir=folder / "runs"))
    export(folder / "runs/run", folder / "export")


def read_data(project: Path) -> object:
    """All that a dataset gives."""
    config = Run.open(project / "runs/run").config
    dataset = Dataset.open(find_dataset(config.data, project / "data"))
    codecs = (dataset.codecs.source, dataset.codecs.target)
    found: list[object] = [[codec.tokens(range(len(codec))) for codec in codecs]]
    found += [codec.text(range(4, len(codec))) for codec in codecs]
    for name in dataset.manifest["splits"]:
        split = dataset.split(name)
        arrays = [array for side in (split.source, split.target) for array in (side.ids, side.offsets)]
        found += [zlib.crc32(np.asarray(array).tobytes()) for array in arrays]
        found += [dataset.text(name, side) for side in SIDES]
    return found


def prepare_again(project: Path) -> object:
    """What `tfm prepare` says of a dataset that is there."""
    prepared = prepare(load_config(project / "text/run.yaml"), data_dir=project / "data")
    return prepared.created, json.dumps(prepared.manifest, sort_keys=True)


def translate(project: Path) -> object:
    """The newest run's translations."""
    found = Translator(Run.open(find_run(None, project / "runs")), "cpu").translations(SENTENCES)
    return [(each.text, each.log_prob) for each in found]


def translate_exported(project: Path) -> object:
    """The exported run's translations."""
    found = Translator(Run.open(project / "export"), "cpu").translations(SENTENCES)
    return [(each.text, each.log_prob) for each in found]


def translate_imported(project: Path) -> object:
    """The translations of a model of another program, imported anew."""
    with tempfile.TemporaryDirectory() as place:
        run = import_run(project, name="run", source="de", target="en", runs_dir=Path(place))
        found = Translator(run, "cpu").with_options(max_tokens=20).translations(SENTENCES)
        return [(each.text, each.log_prob) for each in found]


def draw(project: Path) -> object:
    """What the run's learning curves show."""
    return validations_so_far(Run.open(project / "runs/run"))


def go_on(project: Path) -> object:
    """The run after one more epoch, in a copy of the project."""
    with tempfile.TemporaryDirectory() as place:
        for part in ("data", "runs"):
            shutil.copytree(project / part, Path(place, part))
        config = load_config(project / "text/run.yaml", ["training.epochs=4"])
        run = train(config, data_dir=Path(place, "data"), runs_dir=Path(place, "runs"))
        history = [{key: entry[key] for key in entry if not is_of_time(key)} for entry in run.history()]
        saved = {
            pointer: [
                (path.name, zlib.crc32(path.read_bytes())) for path in sorted(run.checkpoint(pointer).glob("*.saf*"))
            ]
            for pointer in ("best", "last", "average")
        }
        return history, saved, {pointer: run.checkpoint(pointer).name for pointer in saved}


def damages(
    path: Path, foreign: Path, chance: random.Random, n_cuts: int, n_bits: int
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the kind of each damage to a file, and what is in the file then (None: it is gone)."""
    content = path.read_bytes()
    for place in sorted(chance.sample(range(1, max(2, len(content))), min(n_cuts, max(0, len(content) - 1)))):
        yield "cut", content[:place]
    for bit in sorted(chance.sample(range(8 * len(content)), min(n_bits, 8 * len(content)))):
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


class Trial:
    """A project whose files are damaged one at a time."""

    def __init__(self, project: Path, uses: Sequence[Callable[[Path], object]], *, has_sums: bool = True) -> None:
        """has_sums: whether damage can be told from another content, so that another result is a miss."""
        self.project, self._has_sums = project, has_sums
        self.expected = {use: use(project) for use in uses}

    def outcome(self, table: Table, *, in_full: bool, is_editable: bool) -> tuple[str, str]:
        """Use the damaged project. Returns refused, harmless, edit or missed, and more about the last.

        in_full: go on training even if something before it was refused. is_editable: whether another result is no miss.
        """
        refused = edited = False
        for use, expected in self.expected.items():
            if refused and use is go_on and not in_full:
                break
            try:
                found = use(self.project)
            except TfmError as error:
                if "\n" in str(error):
                    return "missed", f"{use.__name__}: more than one line: {error}"
                table.said.append(str(error))
                refused = True
            except Exception as error:
                return "missed", f"{use.__name__}: {type(error).__name__}: {error}"
            else:
                if repr(found) != repr(expected):
                    if not is_editable:
                        return "missed", f"{use.__name__}: another result"
                    edited = True
        return ("refused" if refused else "edit" if edited else "harmless"), ""

    def damage(
        self,
        path: Path,
        foreign: Path,
        table: Table,
        chance: random.Random,
        n_cuts: int,
        n_bits: int,
        *,
        in_full: bool = True,
    ) -> None:
        """Damage one file in all ways, and count how each ends."""
        content, times = path.read_bytes(), path.stat()
        seen: set[str] = set()
        # a list, because the damaged file is one of its siblings
        for kind, damaged in list(damages(path, foreign, chance, n_cuts, n_bits)):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            is_editable = path.name in EDITABLE or not self._has_sums
            outcome, why = self.outcome(table, in_full=in_full and kind not in seen, is_editable=is_editable)
            seen.add(kind)
            table.counts[kind, outcome] += 1
            if outcome == "missed":
                table.missed.append(f"{path.relative_to(self.project)}: {kind}: {why}")
            path.write_bytes(content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def try_all(
    folder: Path, tokens: str, *, n_cuts: int, n_bits: int, every: int = 1, seed: int = 0, in_full: bool = True
) -> dict[str, Table]:
    """Damage every file of a dataset, of a run of it, and of the run's export. Returns the three tables.

    tokens: words or subwords. every: take only every so many-th file. in_full: after the first damage of each kind to
    a file, go on training even if something else was refused.
    """
    project, other = folder / tokens, folder / f"other {tokens}"
    for place, number in ((project, 1), (other, 2)):
        make_project(place, tokens, number)
    (data,), (other_data,) = (sorted((place / "data").iterdir()) for place in (project, other))
    tables = {"dataset": Table(), "run": Table(), "export": Table()}
    chance = random.Random(seed)
    trial = Trial(project, [read_data, prepare_again, go_on])
    for path in sorted(data.iterdir())[::every]:
        trial.damage(path, other_data / path.name, tables["dataset"], chance, n_cuts, n_bits, in_full=in_full)
    uses = {"run": [translate, draw, go_on], "export": [translate_exported]}
    for name, part in {"run": "runs", "export": "export"}.items():
        trial = Trial(project, uses[name])
        for path in sorted(path for path in (project / part).rglob("*") if path.is_file())[::every]:
            foreign = other / path.relative_to(project)
            trial.damage(path, foreign, tables[name], chance, n_cuts, n_bits, in_full=in_full)
    return tables


def try_model(folder: Path, model: Path, *, n_cuts: int, n_bits: int) -> Table:
    """Damage every file of a model of another program's, which has no sums. Returns the table."""
    project, table, chance = Path(shutil.copytree(model, folder / "model")), Table(), random.Random(0)
    trial = Trial(project, [translate_imported], has_sums=False)
    for path in sorted(project.iterdir()):
        path.chmod(0o644)
        trial.damage(path, Path(), table, chance, n_cuts, n_bits)
    return table


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
    """Cut a text, or change some bytes, or put something in, or several of these."""
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


def try_texts(folder: Path, n: int, seed: int = 0) -> dict[str, Table]:
    """Read n damaged files of each format. Returns a table for each."""
    path, tables, chance = folder / "text.csv", dict[str, Table](), random.Random(seed)
    data = DataConfig(corpus="files", files={"train": path, "valid": path})
    tracemalloc.start()
    for name, content in texts_of_all_formats().items():
        table = tables[name] = Table()
        for number in range(n):
            path.write_bytes(damaged_text(content, chance))
            tracemalloc.reset_peak()
            begun, outcome = time.process_time(), "harmless"
            try:
                sum(1 for _ in read_texts([path], data))
            except DataError as error:
                outcome = "refused" if "\n" not in str(error) else f"more than one line: {error}"
                table.said.append(str(error))
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            if time.process_time() - begun > 3 or tracemalloc.get_traced_memory()[1] > 64e6:
                outcome = f"{time.process_time() - begun:.1f} s, {tracemalloc.get_traced_memory()[1]:,} bytes"
            if outcome not in OUTCOMES:
                table.missed.append(f"{name} {number}: {outcome}")
            table.counts["cut", outcome if outcome in OUTCOMES else "missed"] += 1
    tracemalloc.stop()
    return tables


def make_quick() -> None:
    """Leave out what takes time and changes nothing here: syncing, drawing, and making spaCy's tokenisers anew."""
    os.fsync = lambda fd: None
    plots.draw_curves = lambda histories: Figure((1, 1))
    words._blank_tokenizer = cache(words._blank_tokenizer)
    torch.set_num_threads(1)


def main() -> None:
    make_quick()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, table in try_texts(Path(folder), 200).items():
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
