"""Pairs in memory as a corpus: what stands in the dataset, which text makes another one, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpus import PairCorpus, read_pairs
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.errors import ConfigError, DataError

PAIRS = {"valid": [("Ein Hund", " A dog ")], "train": [("Ein Hund.", "A dog."), ("Ein\tMann\u2028", "A man\r")]}
DATA = DataConfig.model_validate({"corpus": "pairs", "min_freq": 1})


def test_make_dataset_of_pairs_keeps_text_and_is_found(tmp_path: Path) -> None:
    prepared = make_dataset(Config(data=DATA), PairCorpus(PAIRS), data_dir=tmp_path)
    assert prepared.folder.name == f"pairs.de-en-{prepared.manifest['fingerprint']}"
    assert {split: list(read_pairs(prepared.folder, split)) for split in PAIRS} == PAIRS
    dataset = Dataset.open(find_dataset(DATA, tmp_path))
    assert list(dataset.manifest["splits"]) == ["train", "valid"]
    assert dataset.text("train", "target") == [target for _, target in PAIRS["train"]]
    assert not make_dataset(Config(data=DATA), PairCorpus(PAIRS), data_dir=tmp_path).created
    other = PairCorpus({**PAIRS, "test": [("Mann", "man")]})
    assert make_dataset(Config(data=DATA), other, data_dir=tmp_path).manifest["splits"]["test"]["sentences"] == 1


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ({"valid": []}, r"^pairs: valid has no pair; a dataset needs train and valid"),
        ({"../x": [("a", "b")]}, r"^pairs: '\.\./x' cannot name a split"),
        ({"train": [("a", "b"), ("a", " ")]}, r"^pairs\['train'\]\[1\]: the target is empty; take the pair out$"),
        ({"train": [("a\nb", "c")]}, r"^pairs\['train'\]\[0\]: the source has a line end; a side is one line$"),
        ({"test": [("a" * 4_001, "c")]}, r"^pairs\['test'\]\[0\]: the source has more than 4,000 characters; split it"),
        ({"train": [("a", "\ud800")]}, r"^pairs\['train'\]\[0\]: the target: character 1: a lone surrogate"),
        ({"train": ["ab"]}, r"^pairs\['train'\]\[0\] is not a pair of a source and a target, but 'ab'$"),
        ({"train": [("a", 5)]}, r"^pairs\['train'\]\[0\] is not a pair of a source and a target"),
    ],
)
def test_pair_corpus_refuses_invalid_pairs(splits: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        PairCorpus({**PAIRS, **splits})


def test_find_dataset_of_pairs_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no dataset pairs de→en with these settings; call prepare\(config, pairs="):
        find_dataset(DATA, tmp_path)


@pytest.mark.parametrize("settings", [{"skip_empty": True}, {"clean": ["empty"]}, {"held_out": {"valid": 0.1}}])
def test_config_of_pairs_refuses_cleaning(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(settings))}: it applies to corpus: files, but corpus is pairs"):
        Config.model_validate({"data": {"corpus": "pairs", **settings}})
