"""scripts/best.py: its tokens are those of other projects, and its config of translations is that of each direction."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import best
from transformer_cli.config.load import load_config


def test_best_words_splits_words_and_signs() -> None:
    tokens = "it ' s a t - shirt , grün ! 3 . 50 …"
    assert best.words("It's a T-shirt, grün! 3.50 …") == tokens.split(" ")


def test_diverse_config_trains_half_as_long_on_the_text_and_its_translations(tmp_path: Path) -> None:
    dataset = SimpleNamespace(open=lambda _: SimpleNamespace(text=lambda split, side: [f"{split} {side}"]))
    stand_ins: dict[str, Any] = {"DATA": tmp_path, "Dataset": dataset, "find_dataset": lambda *_: None}
    stand_ins["trained"] = lambda config, seed: f"{config.data.target}{seed}"
    stand_ins["translated"] = lambda run, lines, _: [f"{run} of {line}" for line in lines]
    with mock.patch.multiple(best, **stand_ins):
        new = best.diverse_config(load_config(best.CONFIGS[0]), load_config(best.CONFIGS[1]), [0, 1])
    assert (new.training.end, new.training.consistency, new.model.dropout) == (("steps", 2500), 3.0, 0.2)
    written = [path.read_text().splitlines() for path in sorted(tmp_path.glob("*/train.*"))]
    assert written[0] == ["train source"] * 3 + ["de0 of train target", "de1 of train target"]
    assert written[1] == ["train target", "en0 of train source", "en1 of train source"] + ["train target"] * 2
