"""Damaged files of a dataset, a run and its export: a seeded part of what `make hostile` tries. Nothing is missed."""

import random
from pathlib import Path

import hostile


def test_hostile_every_damage_is_refused_with_one_line_or_harmless(tmp_path: Path) -> None:
    tables = hostile.try_all(tmp_path, "subwords", n_cuts=1, n_bits=1, every=8, seed=2, in_full=False)
    for table in tables.values():
        assert table.missed == []
        tried = {kind: sum(n for (each, _), n in table.counts.items() if each == kind) for kind in hostile.KINDS}
        assert min(tried.values()) > 0, tried
        assert sum(n for (_, outcome), n in table.counts.items() if outcome == "refused") > 4
        assert all(line.count("\n") == 0 and ";" in line for line in table.said)


def test_every_damaged_training_text_gives_pairs_or_one_line(tmp_path: Path) -> None:
    for table in hostile.try_texts(tmp_path, 10).values():
        assert table.missed == []
        assert sum(table.counts.values()) == 10
        assert all(line.count("\n") == 0 and ";" in line for line in table.said)


def test_hostile_counts_a_miss(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some/file").write_bytes(b"abcdefgh")

    def use(project: Path) -> bytes:
        return (project / "some/file").read_bytes()

    table, trial = hostile.Table(), hostile.Trial(tmp_path, [use])
    trial.damage(tmp_path / "some/file", tmp_path / "none", table, random.Random(0), 2, 3)
    assert sum(table.counts.values()) == len(table.missed) == 2 + 3 + 1 + 1
    assert table.missed[-1].startswith("some/file: deleted: use: FileNotFoundError")
    assert str(table).splitlines()[-8].split() == ["all", "7", "0", "0", "0", "7"]
