"""Scores of given translations: what the decoder itself finds, line by line, in the order of the lines."""

import gzip
import logging
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.errors import ArgumentError, DataError
from transformer_cli.evaluation import evaluate as module
from transformer_cli.evaluation.evaluate import LineScore, ParallelText, evaluate, judge, score_files, score_pairs
from transformer_cli.translator import Translator

log = logging.getLogger(__name__)  # pytest --log-cli-level=INFO shows what is said here


def sides(corpus: Path, split: str = "test") -> tuple[list[str], list[str]]:
    source, target = ((corpus / f"{split}.{side}").read_text("utf-8").split("\n")[:-1] for side in ("de", "en"))
    return source, target


def test_score_files_lines_add_up_to_the_loss_of_the_split(
    translator: Translator,
    project: Path,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)
    (judged,) = evaluate(translator.run.folder, data_dir=project / "data")
    with caplog.at_level(logging.INFO):
        found = list(score_files(translator, corpus / "test.de", corpus / "test.en"))
    assert ([each.source for each in found], [each.target for each in found]) == sides(corpus)
    tokens = sum(each.tokens for each in found)
    assert tokens == judged.result.tokens
    assert -sum(each.log_prob for each in found) / tokens == pytest.approx(judged.result.loss, rel=1e-5)
    *_, unknown, total = caplog.messages
    assert unknown.endswith(f"of {tokens - 30} tokens are unknown: scored as <unk>")
    assert total == f"{corpus / 'test.en'}: 30 lines, {tokens} tokens, perplexity {judged.result.ppl:.3f}"


def test_score_pairs_of_blank_lines_count_where_the_other_side_has_words(
    translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both, no_target, no_source = score_pairs(translator, [(" ", ""), ("Der Hund", "  "), ("", "The dog")])
    assert both == LineScore(" ", "", 0.0, 0, 1.0)
    assert (no_target.tokens, no_source.tokens) == (1, 3)
    assert no_target.log_prob < 0
    assert no_source.log_prob < 0
    (tmp_path / "blank").write_text("\n")
    with caplog.at_level(logging.INFO):
        assert len(list(score_files(translator, tmp_path / "blank", tmp_path / "blank"))) == 1
    assert caplog.messages == []  # no perplexity


def test_score_and_evaluate_read_lines_with_placeholders_as_translate_does(translator: Translator) -> None:
    source = "Der alte Hund {name} singt im Park, siehe www.example.org."
    (found,) = translator.translations([source])
    assert "{name}" in found.text
    own, alone = score_pairs(translator, [(source, found.text), ("{name}", "%s")])
    assert own.log_prob == pytest.approx(found.log_prob, abs=1e-4)
    assert (own.tokens, alone.tokens) == (len(found.tokens) + 1, 0)
    judged = judge(translator, ParallelText("mine", [source, "{name}"], [[found.text, "{name}"]])).result
    assert judged.loss == pytest.approx(-own.log_prob / own.tokens, abs=1e-4)
    assert judged.sentences == 2
    assert judged.bleu == pytest.approx(100)


def test_score_files_line_too_long_is_named_with_its_file(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("Hund\nHund\n" + "Hund " * 15)
    (tmp_path / "b").write_text("dog\ndog\ndog\n")
    found = score_files(translator, tmp_path / "a.gz", tmp_path / "b")
    assert [next(found).tokens, next(found).tokens] == [2, 2]
    with pytest.raises(
        DataError, match=r"a.gz: line 3: 15 tokens, but the model takes at most 14 .*take the line out$"
    ):
        next(found)
    with pytest.raises(DataError, match=r"^target: line 1: 15 tokens"):
        list(score_pairs(translator, [("Hund", "dog " * 15)]))
    mistakes: list[tuple[Any, str]] = [
        (["Hund", None], "item 2, item 1: None, where a str is"),
        (["Hund"], r"item 2: \['Hund'\], where two texts are"),
    ]
    for wrong, said in mistakes:
        with pytest.raises(ArgumentError, match=f"^score_pairs: pairs, {said}"):
            list(score_pairs(translator, [("Hund", "dog"), ("Hund", "dog"), wrong]))
    (tmp_path / "a").write_text("Hund\nHund\n")
    with pytest.raises(DataError, match=r"a has 2 lines, .*b has 3; line n must translate line n"):
        list(score_files(translator, tmp_path / "a", tmp_path / "b"))
