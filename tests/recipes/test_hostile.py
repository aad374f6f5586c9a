"""Short forms of what `make hostile` and `make torture` try: damaged files, and training and `tfm prepare` killed."""

import subprocess
import sys
from pathlib import Path

import pytest

import hostile
import torture


@pytest.mark.long
@pytest.mark.usefixtures("no_curves")
def test_hostile_damage_is_one_line_or_harmless(tmp_path: Path) -> None:
    tables = hostile.try_all(tmp_path, "subwords", n_cuts=1, n_bits=1, every=4, seed=2)
    for table in tables.values():
        assert table.missed == []
        tried = {kind: sum(n for (each, _), n in table.counts.items() if each == kind) for kind in hostile.KINDS}
        assert min(tried.values()) > 0, tried
        assert sum(n for (_, outcome), n in table.counts.items() if outcome == "refused") > 10
        assert all(line.count("\n") == 0 and ";" in line for line in table.said)


TEXTS = hostile.texts_of_all_formats()


@pytest.mark.parametrize(
    "name", ["TMX", *(pytest.param(each, marks=pytest.mark.long) for each in TEXTS if each != "TMX")]
)
def test_hostile_training_text_gives_pairs_or_one_line(tmp_path: Path, name: str) -> None:
    table = hostile.try_text(tmp_path, TEXTS[name], 20)
    assert table.missed == []
    assert sum(table.counts.values()) == 20
    assert all(line.count("\n") == 0 and ";" in line for line in table.said)


def test_hostile_counts_a_miss(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some/file").write_bytes(b"abcdefgh")

    def use(project: Path) -> bytes:
        return (project / "some/file").read_bytes()

    trial = hostile.Trial(tmp_path, [use], 2, 3)
    trial.damage(tmp_path / "some/file", tmp_path / "none")
    table = trial.table
    assert sum(table.counts.values()) == len(table.missed) == 2 + 3 + 1 + 1
    assert table.missed[-1].startswith("some/file: deleted: use: FileNotFoundError")
    assert str(table).splitlines()[-8].split() == ["all", "7", "0", "0", "0", "7"]


SCRIPT = Path(torture.__file__)


@pytest.mark.long  # make test cuts training off before each file, and kills it (test_interrupted.py)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_torture_ends_bit_for_bit_as_without_kills() -> None:
    command = [sys.executable, str(SCRIPT), "--short", "--seed", "0"]
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
