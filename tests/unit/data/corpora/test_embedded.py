"""The corpus of embedded captions."""

import hashlib

import pytest

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpora import open_corpus
from transformer_cli.data.corpora.embedded import read_captions


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_captions_come_in_either_direction_with_one_sum(source: str, target: str) -> None:
    settings = {"corpus": "captions", "source": source, "target": target, "captions": {"sentences": 100}}
    corpus = open_corpus(DataConfig.model_validate(settings))
    written = read_captions(100)
    step = 1 if source == "de" else -1
    assert {split: list(new_pass()) for split, new_pass in corpus.splits.items()} == {
        split: [pair[::step] for pair in pairs] for split, pairs in written.items()
    }
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert corpus.sizes == {split: len(pairs) for split, pairs in written.items()}
    text = "".join(f"{split}\t{de}\t{en}\n" for split, pairs in written.items() for de, en in pairs)
    assert corpus.sums == {"captions": hashlib.sha256(text.encode()).hexdigest()}
    assert list(corpus.splits["valid"]()) == list(corpus.splits["valid"]())


def test_a_larger_train_split_begins_with_the_smaller_and_leaves_the_others_alone() -> None:
    small, default, most = (read_captions(n) for n in (100, 12_000, 20_000))
    assert [len(pairs) for pairs in most.values()] == [20_000, 500, 500]
    assert most["train"][:12_000] == default["train"]
    assert default["train"][:100] == small["train"]
    assert (most["valid"], most["test"]) == (small["valid"], small["test"])


def test_the_largest_corpus_is_the_largest_that_the_config_takes() -> None:
    with pytest.raises(ValueError, match="less than or equal to 20000"):
        DataConfig.model_validate({"corpus": "captions", "captions": {"sentences": 20_001}})
