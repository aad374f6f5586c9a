"""scripts/best.py: it starts, and counts tokens as others do."""

import pytest

import best
from isolation import ROOT


def test_best_diverse_needs_a_config_for_each_direction(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        best.main(["--diverse", "--config", str(ROOT / "configs/multi30k-best.yaml")])
    assert "--diverse: two configs are needed, one for each direction" in capsys.readouterr().err


def test_best_words_are_runs_of_word_characters_and_single_others() -> None:
    assert best.words("A T-shirt, grün!") == ["a", "t", "-", "shirt", ",", "grün", "!"]
    assert best.words("it's 3.50 …") == ["it", "'", "s", "3", ".", "50", "…"]
