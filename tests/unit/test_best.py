"""scripts/best.py: tokens as the figures beside ours have them, and how long what is left will take."""

import shutil
from functools import partial
from pathlib import Path

import pytest

import best
from transformer_cli.config.load import load_config
from transformer_cli.runs.run import Run


def test_words_are_runs_of_word_characters_and_single_others() -> None:
    assert best.words("A T-shirt, grün!") == ["a", "t", "-", "shirt", ",", "grün", "!"]
    assert best.words("it's 3.50 …") == ["it", "'", "s", "3", ".", "50", "…"]


def test_it_says_how_long_what_is_left_will_take(
    corpus: Path, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best, "estimate", partial(best.estimate, seconds=0.01))
    run = Path(shutil.copytree(project / "runs/tiny", tmp_path / "tiny"))
    assert best.left(tmp_path / "nothing") == 1.0
    assert best.left(run) == 0.0
    config_file = run / "config.yaml"
    config_file.write_text(config_file.read_text("utf-8").replace("epochs: 6", "epochs: 8"), "utf-8")
    assert best.left(run) == 0.25
    config = load_config(corpus / "tiny.yaml")
    best.say_how_long([(config, 1.5), (config, 0.0)], project / "data")
    plan, total = capsys.readouterr().err.splitlines()
    (tokens,) = {sum(line["target_tokens"] for line in Run.open(run).history())}
    assert plan.startswith(f"tiny: 1.5 × {tokens:,} target tokens, at ")
    assert total == "training will take about 0.0 hours, if nothing else runs on this machine"
