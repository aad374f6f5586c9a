"""scripts/best.py: what the model with --diverse learns from, and its rows; tokens as others count them."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest

import best
from transformer_cli.text.lines import read_lines

SIZE = 20  # pairs in each split


@pytest.mark.long
def test_best_diverse_trains_on_translations_of_both_sides(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(best, "moses", lambda language: str)  # sacremoses may not be installed
    for path in corpus.glob("*.??"):
        few = "".join(f"{line}\n" for line in islice(read_lines(path), SIZE))
        (tmp_path / path.name).write_text(few, encoding="utf-8")
    tiny = (corpus / "tiny.yaml").read_text(encoding="utf-8").replace("epochs: 6", "epochs: 1")
    (tmp_path / "there.yaml").write_text(tiny.replace("name: tiny", "name: there"), encoding="utf-8")
    swapped = re.sub(r"source: (\w+)\.de, target: \w+\.en", r"source: \1.en, target: \1.de", tiny)
    swapped = swapped.replace("name: tiny", "name: back").replace("data:", "data:\n  source: en\n  target: de")
    (tmp_path / "back.yaml").write_text(swapped, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    configs = ("--config", "there.yaml", "--config", "back.yaml")
    best.main([*configs, "--seeds", "0", "1", "--judge", "test", "--diverse"])
    row, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["config"], row["split"], row["translations_of_seeds"]) == ("there-diverse", "test", [0, 1])
    assert {path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()} == {
        "there-0", "there-1", "back-0", "back-1", "there-diverse", "back-diverse"
    }  # fmt: skip
    source, target, german, english = (
        list(read_lines(tmp_path / name))
        for name in ("data/diverse-de-en/train.source", "data/diverse-de-en/train.target", "train.de", "train.en")
    )
    assert (source[: 3 * SIZE], target[:SIZE], target[3 * SIZE :]) == (german * 3, english, english * 2)
    there, back = (
        [line for seed in (0, 1) for line in read_lines(next((tmp_path / "data/diverse").glob(f"{name}-{seed}-*.txt")))]
        for name in ("there", "back")
    )
    assert (target[SIZE : 3 * SIZE], source[3 * SIZE :]) == (there, back)


def test_best_words_are_runs_of_word_characters_and_single_others() -> None:
    assert best.words("A T-shirt, grün!") == ["a", "t", "-", "shirt", ",", "grün", "!"]
    assert best.words("it's 3.50 …") == ["it", "'", "s", "3", ".", "50", "…"]
