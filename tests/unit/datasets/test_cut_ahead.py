"""Text that a worker cuts for the next step: the same cuts as here, whatever becomes of the worker."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from transformer_cli.datasets.dataset import EncodedSplit, MappedLines, Side
from transformer_cli.datasets.sampled_text import Cut, CutAhead, SampledText
from transformer_cli.text.codec import SubwordCodec
from transformer_cli.text.lengths import Rows
from transformer_cli.text.subwords import learn_pieces

LINES = [f"{'low ' * (number % 3)}lower newest wi{'d' * number}est" for number in range(12)]
BATCHES: list[Rows] = [np.array(rows) for rows in ([3, 1], [0, 7, 2], [11], [4, 5])]


@pytest.fixture
def text(tmp_path: Path) -> SampledText:
    codec = SubwordCodec(learn_pieces(LINES, size=280, algorithm="bpe"), dropout=0.5)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    lines, side = MappedLines.open(tmp_path / "text"), Side.of(codec.encode_all(LINES))
    return SampledText(EncodedSplit(side, side), (lines, lines), (codec, codec), seed=3, max_length=None)


def ids(cut: Cut) -> list[list[int]]:
    split, batches = cut
    return [side[row].tolist() for side in (split.source, split.target) for rows in batches for row in rows]


def cut_here(text: SampledText, *numbers: int) -> list[list[int]]:
    return ids(text.cut([BATCHES[number] for number in numbers], epoch=2, first=numbers[0]))


def test_what_comes_next_is_cut_by_the_worker_as_it_is_here(
    text: SampledText, workers: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [cut_here(text, number) for number in range(4)]
    cutting = CutAhead(text)
    assert ids(cutting.cut(BATCHES[:1], epoch=2, first=0, following=BATCHES[1:2])) == expected[0]  # outside: no worker
    with cutting:
        assert ids(cutting.cut(BATCHES[:1], epoch=2, first=0, following=BATCHES[1:2])) == expected[0]
        monkeypatch.setattr(SubwordCodec, "sample", None)  # this process cuts nothing more
        found = [
            ids(cutting.cut(BATCHES[i : i + 1], epoch=2, first=i, following=BATCHES[i + 1 : i + 2])) for i in (1, 2, 3)
        ]
    assert found == expected[1:]
    assert [each.poll() for each in workers] == [-9]  # one, which has ended


def test_what_was_not_named_is_cut_here(text: SampledText, workers: list["subprocess.Popen[bytes]"]) -> None:
    with CutAhead(text) as cutting:
        cutting.cut(BATCHES[:1], epoch=2, first=0, following=BATCHES[1:2])
        assert ids(cutting.cut(BATCHES[2:], epoch=2, first=2)) == cut_here(text, 2, 3)
        cutting.cut(BATCHES[:1], epoch=1, first=0, following=BATCHES[1:2])
        assert ids(cutting.cut(BATCHES[1:2], epoch=2, first=1)) == cut_here(text, 1)


def test_a_worker_that_was_killed_is_done_without(text: SampledText, workers: list["subprocess.Popen[bytes]"]) -> None:
    with CutAhead(text) as cutting:
        workers[0].kill()
        workers[0].wait()
        for number in range(4):
            found = cutting.cut(
                BATCHES[number : number + 1], epoch=2, first=number, following=BATCHES[number + 1 :][:1]
            )
            assert ids(found) == cut_here(text, number)
