"""training.best_checkpoint_metric: which validation is the best, by the loss or by what the model writes."""

import re
from pathlib import Path

import pytest

from kinds import TrainTiny
from opened import translator_of
from outcomes import outcome
from transformer_cli.errors import ConfigError
from transformer_cli.scoring.evaluate import evaluate, read_splits
from transformer_cli.training import translation_score

BLEU = ("training.best_checkpoint_metric=bleu", "training.learning_rate=1e-3")


def test_metric_bleu_equals_evaluate_and_resumes_exactly(
    project: Path, train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "transformer_cli"):
        whole = train_tiny(tmp_path / "whole", *BLEU, "training.epochs=3")
    scores = [each["valid_score"] for each in whole.history()]
    assert [each["best"] for each in whole.history()] == [
        score > max(scores[:row], default=-1.0) for row, score in enumerate(scores)
    ]
    greedy = translator_of(whole).with_options(beam_size=1)
    (judged,) = evaluate(greedy, read_splits(whole.config.data, ["valid"], project / "data"), save_result=False)
    assert judged.result.bleu == pytest.approx(max(scores))
    assert f"  BLEU (NFC) {scores[0]:.2f}" in caplog.text
    train_tiny(tmp_path / "parts", *BLEU, "training.epochs=1")
    again = train_tiny(tmp_path / "parts", *BLEU, "training.epochs=3")
    assert outcome(again) == outcome(whole)


def test_examples_are_translated_logged_kept_and_resumed(
    project: Path, train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "transformer_cli"):
        whole = train_tiny(tmp_path / "whole", "training.examples=3", "training.epochs=2")
    (text,) = read_splits(whole.config.data, ["valid"], project / "data")
    first, last = (each["examples"] for each in whole.history())
    kept = [[(example["source"], example["reference"]) for example in each] for each in (first, last)]
    assert kept == [[(text.sources[row], text.references[0][row]) for row in (0, 13, 26)]] * 2
    assert [each["translation"] for each in first] != [each["translation"] for each in last]
    assert [each["translation"] for each in last] == translator_of(whole).translate([each["source"] for each in last])
    logged = [message.split(maxsplit=1)[1] for message in caplog.messages if message.startswith("  ")]
    assert logged == [line for each in (*first, *last) for line in each.values()]
    train_tiny(tmp_path / "parts", "training.examples=3", "training.epochs=1")
    assert outcome(train_tiny(tmp_path / "parts", "training.examples=3", "training.epochs=2")) == outcome(whole)


def test_metric_last_makes_the_last_validation_the_best_whatever_its_loss(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    last = "training.best_checkpoint_metric=last"
    run = train_tiny(tmp_path, last, "training.epochs=3", "training.learning_rate=0.5")  # its loss grows
    history = run.history()
    assert history[-1]["valid_loss"] > min(each["valid_loss"] for each in history)
    assert [each["best"] for each in history] == [True] * 3
    assert run.best_checkpoint_name == f"step-{history[-1]['step']:07d}"
    assert caplog.messages[-1].startswith(f"last validation loss {history[-1]['valid_loss']:.3f} (PPL ")


@pytest.mark.parametrize(("by", "best"), [("loss", 3), ("bleu", 1), ("chrf", 1)])
def test_best_has_the_lowest_loss_or_the_highest_score(
    train_tiny: TrainTiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    by: str,
    best: int,
) -> None:
    caplog.set_level("INFO")
    scores = iter([30.0, 10.0, 20.0, 25.0])
    monkeypatch.setattr(translation_score.TranslationScore, "score", lambda *given: next(scores))
    settings = ("training.epochs=3", "training.average_checkpoints=2")
    run = train_tiny(tmp_path, f"training.best_checkpoint_metric={by}", *settings)
    history = run.history()
    assert run.best_checkpoint_name in (
        f"step-{history[best - 1]['step']:07d}",
        *(["average-0000078"] if by == "loss" else []),
    )
    assert (history[0]["valid_score"] is None) == (by == "loss")
    if by != "loss":
        name, loss = {"bleu": "BLEU", "chrf": "chrF"}[by], r"\d\.\d+ \(PPL \d+\.\d\d\)"
        mean, end = caplog.messages[-2:]
        assert re.fullmatch(rf"mean of the last 2 validations' weights  valid {loss}  {name} \(NFC\) 25\.00", mean)
        assert end.startswith(f"best validation {name} (NFC) 30.00 (loss {history[0]['valid_loss']:.3f}, PPL ")
    other = "chrf" if by == "bleu" else "bleu"
    with pytest.raises(ConfigError, match=f"begun with other settings .training.best_checkpoint_metric: {by} → "):
        train_tiny(tmp_path, f"training.best_checkpoint_metric={other}", "training.epochs=3")
