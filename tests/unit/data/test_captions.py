"""The grammar behind the embedded corpus."""

import bz2
import itertools

import pytest

import captions
from captions import Caption
from transformer_cli.data.corpora import CAPTIONS


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Caption]]:
    return captions.write_captions(2_000, seed=0)


def test_what_comes_with_the_package_is_what_the_grammar_writes() -> None:
    assert bz2.decompress(CAPTIONS.read_bytes()) == bz2.decompress(captions.as_data())  # whatever the hash order


def test_constructions_of_test_are_new_but_their_parts_are_not(splits: dict[str, list[Caption]]) -> None:
    made_of = {split: {caption.construction for caption in part} for split, part in splits.items()}
    assert not made_of["test"] & (made_of["train"] | made_of["valid"])
    assert made_of["test"] == set(captions.unseen_constructions())
    assert made_of["train"] | made_of["valid"] <= set(captions.seen_constructions())
    assert set(itertools.chain(*made_of["test"])) <= set(itertools.chain(*made_of["train"]))
    assert {len(construction) for construction in made_of["train"]} == {1, 2, 3}
