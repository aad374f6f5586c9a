"""Held-out text that stands in the training text too: what is counted, and what is worth a warning."""

from pathlib import Path

import pytest

from transformer_cli.data.make_dataset import count_overlap, warn_of_overlap
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import Codecs, WordCodec
from transformer_cli.text.vocabulary import Vocabulary
from transformer_cli.text.words import Detokenizer


def codecs(*, lowercase: bool) -> Codecs:
    return Codecs(*(WordCodec("xx", lowercase, Vocabulary.build({}, min_freq=1), Detokenizer()) for _ in range(2)))


def write(folder: Path, **splits: list[str]) -> None:
    """Each pair is written source|target."""
    for split, pairs in splits.items():
        sides = zip(*(pair.split("|") for pair in pairs), strict=True)
        for side, lines in zip(("source", "target"), sides, strict=True):
            (folder / f"{split}.{side}.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())


def test_count_overlap_counts_pairs_and_sources_of_each_split(tmp_path: Path) -> None:
    write(
        tmp_path,
        train=["  a |x", "b|y", "a|x", "c|z", "d|x", "b\u2028c|y"],
        valid=["a|x\t", "a|x", "b|x", "e|x"],  # a line counts as often as it is held out
        test=["c|z", "x|a", "C|z", "b\u2028c|y"],  # neither the other way round nor in another case
        none=["f|g"],
    )
    assert count_overlap(tmp_path, ["train", "valid", "test", "none"], codecs(lowercase=False)) == {
        "valid": {"pairs": 2, "sources": 3, "references": 4},
        "test": {"pairs": 2, "sources": 2, "references": 3},
        "none": {"pairs": 0, "sources": 0, "references": 0},
    }


def test_count_overlap_compares_normalised_lines(tmp_path: Path) -> None:
    lines = ["ein  Käfer , da|a  BUG", "EIN KA\u0308FER, DA |A bug", "ein Käfer da|a bug"]
    write(tmp_path, train=["Ein Käfer, da|a bug"], test=lines)
    for lowercase, n_found in ((True, [2, 2, 3]), (False, [0, 0, 1])):
        found = count_overlap(tmp_path, ["train", "test"], codecs(lowercase=lowercase))["test"]
        assert list(found.values()) == n_found


@pytest.mark.parametrize(
    ("sentences", "pairs", "sources", "references", "warned"),
    [
        (1000, 0, 9, 9, False),  # short sentences that recur with another translation
        *((1000, 0, 10, 0, True), (1000, 0, 0, 10, True), (1000, 1, 1, 1, True), (30, 0, 0, 0, False)),
        (30, 0, 0, 1, True),
    ],
)
def test_warn_of_overlap_for_pairs_or_many_of_a_side(
    sentences: int, pairs: int, sources: int, references: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    splits = {"train": {"sentences": 9}, "valid": {"sentences": 1000}, "test": {"sentences": sentences}}
    overlap = {
        "valid": {"pairs": 0, "sources": 1},  # of a dataset that did not count references
        "test": {"pairs": pairs, "sources": sources, "references": references},
    }
    warn_of_overlap({"splits": splits, "overlap": overlap})
    sides = f"{pluralize(sources, 'source')}, {pluralize(references, 'reference')}"
    message = f"also in the training text: test {pairs} of {sentences:,} pairs ({sides})"
    assert [each.split(";")[0] for each in caplog.messages] == [message] * warned
