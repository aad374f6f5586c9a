"""Text that is cut anew each epoch: what follows from what, and what keeps its usual cut; mapped lines."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from transformer_cli.datasets import dataset
from transformer_cli.datasets.dataset import EncodedSplit, MappedLines, Side
from transformer_cli.datasets.sampled_text import SampledText
from transformer_cli.errors import DataError
from transformer_cli.text.codec import SubwordCodec

LINES = {"source": ["ab", "abab", "b", "aabb", "ababab", "bbb"], "target": ["ba", "a", "abab", "bbaa", "aab", "bab"]}
PAIRS = {"ab": 4, "ba": 5, "aa": 6, "bb": 7}
ONES = {"a": 8, "b": 9}


@dataclass(frozen=True)
class PairCodec:
    """Two letters are one token; sampled, a pair may come apart."""

    def usual(self, line: str) -> list[int]:
        return self._ids(line, random.Random(), 0.0)

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        chance = random.Random(seed)
        return [self._ids(line, chance, 0.5) for line in lines]

    def _ids(self, line: str, chance: random.Random, dropout: float) -> list[int]:
        pairs = [line[start : start + 2] for start in range(0, len(line), 2)]
        return [
            id_
            for pair in pairs
            for id_ in ([ONES[one] for one in pair] if chance.random() < dropout or len(pair) < 2 else [PAIRS[pair]])
        ]


def text_of(folder: Path, **changes: Any) -> SampledText:
    for side, lines in LINES.items():
        (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    codec = PairCodec()
    return SampledText(
        split=EncodedSplit(*(Side.of([codec.usual(line) for line in lines]) for lines in LINES.values())),
        lines=(MappedLines.open(folder / "source"), MappedLines.open(folder / "target")),
        codecs=cast(list[SubwordCodec], [codec, codec]),
        **{"seed": 1, "max_length": None, **changes},
    )


@pytest.fixture
def text(tmp_path: Path) -> SampledText:
    return text_of(tmp_path)


def rows(*batches: list[int]) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    return [np.array(batch) for batch in batches]


def sentences(split: EncodedSplit) -> list[tuple[list[int], list[int]]]:
    return [(split.source[row].tolist(), split.target[row].tolist()) for row in range(len(split))]


def letters(ids: Sequence[int]) -> str:
    names = {id_: name for name, id_ in (PAIRS | ONES).items()}
    return "".join(names[id_] for id_ in ids)


def test_a_batch_is_its_rows_of_the_text_cut_anew(text: SampledText) -> None:
    split, batches = text.cut(rows([4, 2], [1]), epoch=1, first=0)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2]]
    found = [(letters(source), letters(target)) for source, target in sentences(split)]
    assert found == [(LINES["source"][row], LINES["target"][row]) for row in (4, 2, 1)]
    assert any(len(split.source[new]) > len(text.split.source[old]) for new, old in enumerate((4, 2, 1)))


def test_a_cut_follows_from_seed_epoch_and_batch(text: SampledText) -> None:
    everything = rows([0, 1, 2, 3, 4, 5])

    def cut(seed: int, epoch: int, batch: int) -> list[tuple[list[int], list[int]]]:
        return sentences(replace(text, seed=seed).cut(everything, epoch=epoch, first=batch)[0])

    assert cut(1, 1, 0) == cut(1, 1, 0)
    others = [cut(1, 1, 0), cut(2, 1, 0), cut(1, 2, 0), cut(1, 1, 1)]
    assert all(one != other for index, one in enumerate(others) for other in others[:index])


def test_accumulated_batches_are_cut_as_they_are_one_by_one(text: SampledText) -> None:
    batches = rows([4, 1], [0], [2, 3, 5])
    together, _ = text.cut(batches, epoch=3, first=7)
    alone = [text.cut([batch], epoch=3, first=first)[0] for first, batch in enumerate(batches, 7)]
    assert sentences(together) == [sentence for split in alone for sentence in sentences(split)]


def test_both_sides_of_the_same_text_are_cut_differently(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    same = replace(text, lines=(text.lines[0], text.lines[0]), split=EncodedSplit(text.split.source, text.split.source))
    assert any(source != target for source, target in sentences(same.cut(rows([1, 3, 4]), epoch=1, first=0)[0]))


def test_a_cut_that_does_not_fit_is_the_usual_one(tmp_path: Path) -> None:
    text = text_of(tmp_path, max_length=5)  # three tokens, <sos> and <eos>
    long = 4  # "ababab" is three tokens only if no pair comes apart; its target always fits
    cuts = [text.cut(rows([long, 1]), epoch=epoch, first=0)[0] for epoch in range(20)]
    assert {tuple(split.source[0]) for split in cuts} == {(4, 4, 4)}
    assert {tuple(split.target[0]) for split in cuts} == {(6, 9), (8, 8, 9)}
    assert {len(split.source[1]) for split in cuts} == {2, 3}  # "abab" in four tokens does not fit either


# The lines


@pytest.mark.parametrize("block", [1, 4, 1 << 24])
def test_lines_end_at_their_line_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(dataset, "BLOCK", block)
    expected = ["größer\r", "", "a\u2028b\x0cc", "\ufeffd"]
    (tmp_path / "text").write_bytes("".join(f"{line}\n" for line in expected).encode())
    lines = MappedLines.open(tmp_path / "text")
    assert [lines[index] for index in range(len(lines))] == expected


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a\n\xff\n")
    lines = MappedLines.open(tmp_path / "text")
    assert lines[0] == "a"
    with pytest.raises(DataError, match=rf"^{tmp_path}/text: line 2 is damaged: 'utf-8' .*; delete the folder and run"):
        lines[1]
