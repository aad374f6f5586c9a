"""The corpus of embedded captions."""

import hashlib

import pytest

from transformer_cli.config.data import DataConfig
from transformer_cli.data import captions
from transformer_cli.data.corpora import open_corpus


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_captions_come_in_either_direction_with_one_sum(source: str, target: str) -> None:
    settings = {"corpus": "captions", "source": source, "target": target, "captions": {"sentences": 100, "seed": 3}}
    corpus = open_corpus(DataConfig.model_validate(settings))
    written = captions.write(100, 3)
    step = 1 if source == "de" else -1
    assert {split: list(new_pass()) for split, new_pass in corpus.splits.items()} == {
        split: [pair[::step] for pair in pairs] for split, pairs in written.items()
    }
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert corpus.sizes == {split: len(pairs) for split, pairs in written.items()}
    text = "".join(f"{split}\t{de}\t{en}\n" for split, pairs in written.items() for de, en in pairs)
    assert corpus.sums == {"captions": hashlib.sha256(text.encode()).hexdigest()}
    assert list(corpus.splits["valid"]()) == list(corpus.splits["valid"]())
