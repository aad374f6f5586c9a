"""Damaged files of a dataset, a run and an export; and a short form of `make torture`, which kills commands."""

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import torture
from outcomes import outcome
from transformer_cli import Translator, prepare
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.errors import TfmError
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import validations_so_far
from transformer_cli.text.codec import SIDES

# Files with another bit, and files of another project, which nothing but a checksum tells from the right ones

EDITABLE = ("config.yaml", "best", "last", "average", "latest")  # a user may change these
SETTING_ERROR = re.compile(r"config\.yaml: line \d+: [a-z_.]+: must ")


def read_dataset(project: Path) -> object:
    """All that a dataset gives."""
    dataset = Dataset.open(find_dataset(load_config(project / "tiny.yaml").data, project / "data"))
    sides = [side for split in map(dataset.split, dataset.manifest["splits"]) for side in (split.source, split.target)]
    arrays = [np.asarray(array).tobytes() for side in sides for array in (side.ids, side.offsets)]
    texts = [dataset.text(split, side) for split in dataset.manifest["splits"] for side in SIDES]
    codecs = (dataset.codecs.source, dataset.codecs.target)
    return [codec.tokens(range(len(codec))) for codec in codecs], arrays, texts


def prepare_again(project: Path) -> object:
    prepared = prepare(load_config(project / "tiny.yaml"), data_dir=project / "data")
    return prepared.created, prepared.manifest


def translate(project: Path, run: str = "runs/tiny") -> object:
    return [(each.text, each.log_prob) for each in Translator(project / run, "cpu").translate_detailed(["Ein Hund."])]


def translate_exported(project: Path) -> object:
    return translate(project, "export")


def draw(project: Path) -> object:
    return validations_so_far(Run.open(project / "runs/tiny"))


def go_on(project: Path) -> object:
    """One more epoch, in a copy of the project."""
    with TemporaryDirectory(dir=project.parent) as copy:
        for part in ("data", "runs"):
            shutil.copytree(project / part, Path(copy, part))
        config = load_config(project / "tiny.yaml", ["training.epochs=2"])
        return outcome(train(config, data_dir=Path(copy, "data"), runs_dir=Path(copy, "runs")))


USES: dict[str, Sequence[Callable[[Path], object]]] = {
    "data": (read_dataset, prepare_again, go_on),
    "runs": (translate, draw, go_on),
    "export": (translate_exported,),
}


@pytest.mark.long
@pytest.mark.usefixtures("no_curves")
def test_damaged_file_is_refused_or_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    project, other, chance = tmp_path / "project", tmp_path / "other", random.Random(0)
    for folder, changes in ((project, ()), (other, ("training.seed=1", "data.min_freq=3"))):
        shutil.copytree(corpus, folder)
        config = load_config(folder / "tiny.yaml", ["training.epochs=1", *changes])
        prepared = prepare(config, data_dir=folder / "data")
        export(train(config, data_dir=folder / "data", runs_dir=folder / "runs").folder, folder / "export")
    prepared.folder.rename(other / "data" / next((project / "data").iterdir()).name)
    for part, uses in USES.items():
        expected, said = [use(project) for use in uses], list[str]()
        files = [path for path in sorted((project / part).rglob("*")) if path.is_file() and path.stat().st_size]
        for path in files:
            content, foreign = path.read_bytes(), other / path.relative_to(project)
            damages = [foreign.read_bytes()] if foreign.is_file() else []
            for bit in (chance.randrange(8 * len(content)) for _ in range(2)):
                flipped = bytearray(content)
                flipped[bit // 8] ^= 1 << bit % 8
                damages.append(bytes(flipped))
            for damaged in damages:
                path.write_bytes(damaged)
                for use, result in zip(uses, expected, strict=True):
                    try:
                        found = use(project)
                    except TfmError as error:
                        said.append(str(error))
                    else:
                        assert repr(found) == repr(result) or path.name in EDITABLE, (path, use.__name__)
            path.write_bytes(content)
        assert len(said) > 10
        # One line each: what to do stands behind a semicolon, or a setting is to be corrected in its line.
        assert not [line for line in said if "\n" in line or not (";" in line or SETTING_ERROR.search(line))]


@pytest.mark.long  # make test cuts training off before each file, and kills it (test_interrupted.py)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_torture_ends_bit_for_bit_as_without_kills() -> None:
    command = [sys.executable, torture.__file__, "--short", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *table, last = done.stdout.splitlines()
    assert first == "torture with --seed 0"
    assert last.startswith("all identical")
    assert sum(line.count("identical") for line in table) == 3


def test_torture_notices_other_results(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole", tmp_path / "other"
    for folder, seconds, loss in ((whole, 1, 2.5), (other, 9, 2.5)):
        (folder / "data" / "set").mkdir(parents=True)
        (folder / "history.jsonl").write_text(f'{{"train_seconds": {seconds}, "train_loss": {loss}}}\n')
        (folder / "model.safetensors").write_bytes(bytes(8))
        (folder / "data" / "set" / "ids").write_bytes(bytes(8))
    assert torture.differences(whole, other) == torture.half_made(other, whole) == set()
    (other / "history.jsonl").write_text('{"train_seconds": 9, "train_loss": 2.50001}\n')
    (other / "model.safetensors").write_bytes(bytes(7) + b"\1")
    (other / "data" / "set" / "ids").unlink()
    assert torture.differences(whole, other) == {"history.jsonl", "model.safetensors", "data/set/ids"}
    assert torture.half_made(other, whole) == {"data/set/ids"}
