"""Judging a run: what is left out, what is cut, which splits are taken, and how often a text is tokenised."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from transformer_cli.data.vocabulary import UNK
from transformer_cli.data.words import Tokenizer
from transformer_cli.errors import DataError
from transformer_cli.evaluation.evaluate import ParallelText, evaluate, judge
from transformer_cli.translator import Translator

SOURCE = "Der alte Bado schläft zu Hause."
REFERENCE = "The old Bado sleeps at home."


def test_a_reference_keeps_the_words_that_the_vocabulary_lacks(translator: Translator) -> None:
    assert UNK in translator.run.codecs.target.encode(REFERENCE).ids
    judged = judge(translator, ParallelText("mine", [SOURCE], [REFERENCE]))
    assert "<unk>" in judged.translations[0].tokens
    assert "bado" in judged.translations[0].text
    assert judged.result.bleu_tokens < judged.result.bleu  # rebuilt from ids, the reference would hold <unk> too


@pytest.mark.parametrize("lowercase", [True, False])
def test_scores_look_at_case_where_the_model_does(translator: Translator, lowercase: bool) -> None:
    config = translator.run.config
    data = config.data.model_copy(update={"lowercase": lowercase})
    changed = Translator(replace(translator.run, config=config.model_copy(update={"data": data})), translator.device)
    result = judge(changed, ParallelText("mine", [SOURCE], [REFERENCE])).result
    assert ("case:lc" in result.bleu_signature, "case:lc" in result.chrf_signature) == (lowercase, lowercase)


def test_a_sentence_too_long_is_left_out_of_the_loss_and_cut_to_be_translated(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    alone = judge(translator, ParallelText("mine", [SOURCE], [REFERENCE]))
    judged = judge(translator, ParallelText("mine", [SOURCE, "Hund " * 15], [REFERENCE, "dog"]))
    assert "mine: 1 sentences are too long: left out of the loss, cut to be translated" in caplog.text
    assert (judged.result.sentences, len(judged.translations)) == (2, 2)
    assert judged.result.tokens == alone.result.tokens
    assert judged.result.loss == pytest.approx(alone.result.loss)


def test_nothing_but_sentences_too_long_is_an_error(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"^mine: every sentence is longer than the model's 16 positions$"):
        judge(translator, ParallelText("mine", ["Hund " * 15], ["dog"]))


def test_evaluate_takes_every_test_set_of_the_run_and_no_other_split(project: Path) -> None:
    judged = list(evaluate("tiny", data_dir=project / "data", runs_dir=project / "runs"))
    assert [each.result.split for each in judged] == ["test"]
    assert len(judged[0].translations) == 30


@pytest.mark.parametrize("as_files", [False, True])
def test_each_text_is_tokenised_once(
    project: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, as_files: bool
) -> None:
    seen = Counter[str]()
    tokens = Tokenizer.tokens

    def count(tokenizer: Tokenizer, text: str) -> list[str]:
        seen[text] += 1
        return tokens(tokenizer, text)

    monkeypatch.setattr(Tokenizer, "tokens", count)
    files = (corpus / "test.de", corpus / "test.en") if as_files else None
    list(evaluate("tiny", files=files, data_dir=project / "data", runs_dir=project / "runs"))
    lines = [line for side in ("de", "en") for line in (corpus / f"test.{side}").read_text("utf-8").split("\n")[:-1]]
    assert seen == Counter(lines)
