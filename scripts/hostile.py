"""Tests damaged files, hostile text, and models written by other programs.

`make hostile` damages each file of a dataset, a run and its export, one at a time, and counts tfm's reactions. A file
is cut at 20 places, has one bit flipped at 50, is emptied, replaced by the content of a sibling or of another project,
and deleted. After each damage the dataset is read and prepared again, the run translates and draws its curves, or the
exported model translates. If a dataset or run is not refused, and always after the first damage of each kind to a file,
the run also continues training. tfm must refuse with one line, or give the same result as without damage; anything else
is "missed", and the script fails. Files that users may edit are counted as "edit" if tfm follows them: config.yaml, and
the pointers, which may name any existing checkpoint or run. Files of training text in each format are damaged 200 times
each: cut, with changed bytes, with inserted parts of other formats and entities. Each must give pairs or one line
within three seconds, in less than 64 MB.

tests/recipes/test_foreign.py compares imported models with the programs that wrote them, in an environment with
transformers 4.46.3 and pymarian 1.12.42. transformers writes random models of several shapes, and Marian trains small
ones for some steps. docs/records/other-models.md has the results.
"""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import random
import shutil
import subprocess
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
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import measure  # noqa: F401  # isort: skip  # it finds what is in tests/
from outcomes import outcome
from small_marian import learn
from torture import write_captions
from transformer_cli import Translator, evaluate, prepare
from transformer_cli.adapters.corpora.corpora import read_captions
from transformer_cli.adapters.corpora.formats import read_texts
from transformer_cli.adapters.interop.importing import import_run
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face
from transformer_cli.adapters.study import plots
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.batching import pad_ids
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import DataError, TfmError
from transformer_cli.model.loss import token_losses
from transformer_cli.runs.run import Run, find_run
from transformer_cli.runs.state import validations_so_far
from transformer_cli.text import words
from transformer_cli.text.codec import SIDES
from transformer_cli.text.vocabulary import EOS, SPECIALS, UNK

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


# Models of other programs

HUGGING_FACE: dict[str, dict[str, Any]] = {
    "one matrix, swish, scaled": {"activation_function": "swish", "scale_embedding": True},
    "relu, not scaled, Marian's positions too": {"activation_function": "relu"},
    "gelu, 4 + 1 layers": {"activation_function": "gelu", "scale_embedding": True, "encoder_layers": 4},
    "an output of its own, language tokens": {"tie_word_embeddings": False, "scale_embedding": True},
    "separate vocabularies": {"share_encoder_decoder_embeddings": False, "scale_embedding": True},
    "separate vocabularies, an output of its own, pytorch_model.bin": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    },
}
TEXT = read_captions(1000)["train"]
MARIAN: dict[str, list[str]] = {
    "one matrix": ["--tied-embeddings-all"],
    "separate .spm, tied output": ["--tied-embeddings"],
    "separate .spm, untied": [],
    "separate .yml, untied": [],
    "one .yml, source and target tied": ["--tied-embeddings-src"],
    "one .yml, one matrix, learned positions": ["--tied-embeddings-all", "--transformer-train-position-embeddings"],
    "relu": ["--tied-embeddings-all", "--transformer-ffn-activation", "relu"],
    "gelu": ["--tied-embeddings-all", "--transformer-ffn-activation", "gelu"],
    "pre-norm": ["--transformer-preprocess", "n", "--transformer-postprocess", "da", "--transformer-postprocess-top=n"],
    "post-norm, one more at the top": ["--tied-embeddings-all", "--transformer-postprocess-top", "n"],
}
SYMBOLS = ["snow & <b>bold</b>", "«Zitat» – 100 %", "a\u00a0b", "5 × 3 = 15", "ﬁ Ⅳ ½", "tab\there", "…"]


class TheirModel:
    """A model of transformers in a folder, which reads and writes the ids of one of our runs."""

    def __init__(self, folder: Path, translator: Translator) -> None:
        from transformers import MarianMTModel, MarianTokenizer

        self.tokenizer, self.model = MarianTokenizer.from_pretrained(folder), MarianMTModel.from_pretrained(folder)
        self.model.eval()
        self._start, self._codecs = self.model.config.decoder_start_token_id, translator.run.codecs
        names = ["vocab.json", "target_vocab.json" if (folder / "target_vocab.json").exists() else "vocab.json"]
        lists = [json.loads((folder / name).read_text()) for name in names]
        self.source, self.target = (
            _rows(codec.all_tokens(), tokens) for codec, tokens in zip(vars(self._codecs).values(), lists, strict=True)
        )
        """their row of each of our ids"""

    def read(self, line: str) -> list[int | None]:
        """Returns the ids of a line by our codec."""
        return [*(self.source[number] for number in self._codecs.source.encode(line).ids), 0]

    def distance(self, ours: torch.Tensor, line: str, reference: str) -> float:
        """Returns the largest difference of a logit among shared tokens. ours (target, tokens)."""
        written = [self._start, *(self.target[number] for number in self._codecs.target.encode(reference).ids)]
        with torch.inference_mode():
            theirs = self.model(torch.tensor([self.read(line)]), decoder_input_ids=torch.tensor([written])).logits[0]
        columns = [number for number, row in enumerate(self.target) if row not in (None, self._start)]
        rows = [self.target[number] for number in columns]
        return float((ours[: len(theirs), columns] - theirs[:, rows]).abs().max())


def _rows(ours: Sequence[str], theirs: dict[str, int]) -> list[int | None]:
    rows = [None if token in SPECIALS else theirs[token] for token in ours]
    rows[UNK], rows[EOS] = theirs["<unk>"], theirs["</s>"]
    return rows


def write_hugging_face(place: Path, name: str) -> None:
    """Lets transformers write a random model of a shape."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    shape = HUGGING_FACE[name]
    place.mkdir(parents=True)
    models = [learn([pair[side] for pair in TEXT], place / f"{each}.spm", 400) for side, each in enumerate(SIDES)]
    pieces = [[each.id_to_piece(index) for index in range(2, len(each) - 20)] for each in models]
    languages = [">>deu<<"] if "language" in name else []
    separate = not shape.get("share_encoder_decoder_embeddings", True)
    lists = pieces if separate else [[*dict.fromkeys([*pieces[0], *pieces[1]])]]
    for each, file in zip(lists, ("vocab.json", "target_vocab.json"), strict=False):
        tokens = ["</s>", "<unk>", *languages, *each, "<pad>"]
        (place / file).write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        n_tokens = len(tokens)  # of each side as many, since both models have the same size
    target_vocabulary = str(place / "target_vocab.json") if separate else None
    tokenizer = MarianTokenizer(
        *(str(place / f"{side}.spm") for side in SIDES),
        str(place / "vocab.json"),
        target_vocab_file=target_vocabulary,
        separate_vocabs=separate,
        source_lang="de",
        target_lang="en",
    )
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 128}
    sizes |= {
        f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("attention_heads", 4), ("ffn_dim", 48))
    }
    pad = n_tokens - 1
    config = MarianConfig(
        **{"vocab_size": n_tokens, **sizes, "pad_token_id": pad, "decoder_start_token_id": pad, **shape}
    )
    torch.manual_seed(1)
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "embed_positions" not in key:
                weight.normal_(1.0 if "norm.weight" in key else 0.0, 0.3)
        model.final_logits_bias.normal_()
    model.generation_config.update(bad_words_ids=[[pad]], num_beams=1, max_length=40, forced_eos_token_id=None)
    model.save_pretrained(place, safe_serialization=".bin" not in name)
    tokenizer.save_pretrained(place)


def hugging_face(folder: Path, name: str) -> tuple[int, float]:
    """Imports a random model of a shape, and lets transformers open its export by tfm.

    Returns the number of lines with different ids in either, and the largest difference of a logit.
    """
    place = folder / "model"
    write_hugging_face(place, name)
    translator = Translator.load(import_run(place, name="run", runs_dir=folder / "runs").folder)
    codecs = translator.run.codecs
    theirs = TheirModel(place, translator)
    again = TheirModel(export_to_hugging_face(translator.run.folder, folder / "again"), translator)
    lines = [*(pair[0] for pair in TEXT), *SYMBOLS, "", "  "]
    if "language" in name:  # of a model without them, transformers reads such a token as <unk>, and tfm as text
        prefixes = itertools.cycle([">>deu<<", ">>fra<<", ">>xyz<<", ""])
        lines = [f"{token} {line}" for token, line in zip(prefixes, lines, strict=False)]
    filled = filter(str.strip, lines)
    wrong = sum(each.read(line) != each.tokenizer(line).input_ids for line in filled for each in (theirs, again))
    worst = 0.0
    for line, (_, reference) in zip(lines[:100], TEXT, strict=False):
        ids = [codecs.source.encode(line).ids], [codecs.target.encode(reference).ids]
        with torch.inference_mode():
            ours = translator.model(*(pad_ids(each) for each in ids))[0]
        worst = max(worst, *(each.distance(ours, line, reference) for each in (theirs, again)))
    return wrong, worst


def pymarian(*command: str) -> "subprocess.CompletedProcess[str]":
    """Runs Marian. Returns its output and log."""
    done = subprocess.run([sys.executable, "-m", "pymarian", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def marian(folder: Path, name: str) -> float:
    """Lets Marian train a small model, and imports it.

    Returns the largest difference of a score, in nats, of the tokens of 100 lines.
    """
    place = folder / "model"
    place.mkdir(parents=True)
    sides = list(zip(*TEXT, strict=True))
    is_list, is_separate = ".yml" in name, "separate" in name or name == "pre-norm"
    both = [line for pair in TEXT for line in pair]
    learned = [
        learn(sides[side] if is_separate else both, place / f"{each}.spm", 400) for side, each in enumerate(SIDES)
    ]
    for side, each in enumerate(SIDES):
        lines = [" ".join(learned[side].encode(line, out_type=str)) if is_list else line for line in sides[side]]
        (folder / each).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / f"{each}.some").write_text("".join(f"{line}\n" for line in lines[:100]), encoding="utf-8")
    if is_list:
        files = [f"{each}.vocab.yml" for each in SIDES] if is_separate else ["opus.vocab.yml"] * 2
        for file, lists in zip(files, (SIDES[:1], SIDES[1:]) if is_separate else (SIDES, SIDES), strict=True):
            words = {word for each in lists for word in (folder / each).read_text(encoding="utf-8").split()}
            named = enumerate(json.dumps(word, ensure_ascii=False) for word in ["</s>", "<unk>", *sorted(words)])
            (place / file).write_text("".join(f"{word}: {n}\n" for n, word in named), encoding="utf-8")
    else:
        files = [f"{each}.spm" for each in SIDES] if is_separate else ["source.spm"] * 2
    vocabularies = [str(place / file) for file in files]
    sizes = "--type transformer --dim-emb 32 --enc-depth 2 --dec-depth 2 --transformer-heads 4 --transformer-dim-ffn 48"
    steps = "--mini-batch 32 --after-batches 60 --learn-rate 0.003 --seed 1 --workspace 256"
    training = [*sizes.split(), *steps.split(), *MARIAN[name]]
    model = [str(place / "model.npz"), "--vocabs", *vocabularies, "--cpu-threads", "1", "--quiet"]
    pymarian("train", "--model", *model, *training, "--train-sets", *(str(folder / each) for each in SIDES))
    (place / "model.npz.decoder.yml").write_text(json.dumps({"vocabs": vocabularies, "normalize": 1, "beam-size": 6}))
    run = import_run(place, name="run", source="de", target="en", runs_dir=folder / "runs")
    some = [str(folder / f"{each}.some") for each in SIDES]
    scores = pymarian("score", "--model", *model, "--train-sets", *some, "--word-scores").stdout.splitlines()
    translator, worst = Translator.load(run.folder), 0.0
    for (source, target), line in zip(TEXT[:100], scores, strict=True):
        ids = pad_ids([run.codecs.source.encode(source).ids]), pad_ids([run.codecs.target.encode(target).ids])
        with torch.inference_mode():
            ours = -token_losses(translator.model, *ids).nll
        expected = torch.tensor([float(number) for number in line.partition("WordScores=")[2].split()])
        worst = max(worst, float((ours - expected).abs().max()))
    return worst


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
