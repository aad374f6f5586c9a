"""A model whose code has been edited since it was saved: whoever uses it is told so."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kinds import TrainTiny
from transformer_cli import CompareOptions, Translator, compare, evaluate, inspect_sentence, score_pairs
from transformer_cli.model.transformer import Embedding


def test_model_of_other_code_is_warned_of_once(
    workspace: Path, train_tiny: TrainTiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs, data = workspace / "runs", workspace / "data"
    uses: list[Callable[[], object]] = [
        lambda: Translator("tiny", runs_dir=runs),
        lambda: evaluate("tiny", splits=["valid", "test"], data_dir=data, runs_dir=runs),
        lambda: inspect_sentence(runs / "tiny", "Der alte Hund singt."),
        lambda: compare(["tiny"], CompareOptions(splits=["valid", "test"], data_dir=data, runs_dir=runs)),
        lambda: [*score_pairs(runs / "tiny", [("Der Hund", "the dog")])],
        lambda: train_tiny(runs, "training.epochs=7"),
    ]
    before = shutil.copytree(runs, workspace / "before")
    for use in uses:
        use()
    assert "code has changed" not in caplog.text
    embed = Embedding.forward
    monkeypatch.setattr(Embedding, "forward", lambda *given: 3.0 * embed(*given))  # which has no weight of its own
    shutil.rmtree(runs)
    before.rename(runs)
    for use in uses:
        caplog.clear()
        use()
        (said,) = (message for message in caplog.messages if "code has changed" in message)
        assert re.search(r"tiny/checkpoints/step-\d+: .* code has changed .* the loss of 3 pairs was 0\.0\d+ and", said)
