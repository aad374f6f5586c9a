"""Judging a run: what is left out or cut, which splits are taken, what is read once; and scores of given translations.

These are what the decoder itself finds, line by line, in the order of the lines.
"""

import gzip
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from aligned import AlignedFiles
from opened import translator_of
from transformer_cli.config.load import load_config
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.errors import ArgumentError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.scoring import evaluate as module
from transformer_cli.scoring.evaluate import (
    ParallelText,
    evaluate,
    evaluate_text,
    score_files,
    score_pairs,
    select_texts,
)
from transformer_cli.text.codec import WordCodec
from transformer_cli.text.vocabulary import UNK
from transformer_cli.text.words import Tokenizer
from transformer_cli.translate import Translator

SOURCE = "Der alte Bado schläft zu Hause."
REFERENCE = "The old Bado sleeps at home."


def test_evaluate_text_scores_raw_references(translator: Translator) -> None:
    assert UNK in translator.run.codecs.target.encode(REFERENCE).ids
    judged = evaluate_text(translator, ParallelText("mine", [SOURCE], [[REFERENCE]]))
    assert "<unk>" in judged.translations[0].tokens
    assert "bado" in judged.translations[0].text
    assert judged.result.bleu_tokens < judged.result.bleu  # rebuilt from ids, the reference would hold <unk> too


def test_evaluate_text_lowercase_scores_cased_run(translator: Translator) -> None:
    config, codecs = translator.run.config, translator.run.codecs
    assert isinstance(codecs.target, WordCodec)
    run = replace(
        translator.run,
        config=config.model_copy(update={"data": config.data.model_copy(update={"lowercase": False})}),
        codecs=replace(codecs, target=replace(codecs.target, lowercase=False)),
    )
    cased = translator_of(run)
    text = ParallelText("mine", ["der kleine Hund läuft im Park ."], [["THE small dog runs in the park ."]])
    found = [evaluate_text(cased, text, lowercase=lowercase).result for lowercase in (False, True)]
    assert found[0].bleu < found[1].bleu
    assert found[0].bleu_tokens < found[1].bleu_tokens
    assert found[0].chrf < found[1].chrf
    own = evaluate_text(cased, text).result  # as the model looks at it
    assert [each.bleu_signature.count("case:lc") for each in (*found, own)] == [0, 1, 0]
    assert [each.chrf_signature.count("case:lc") for each in (*found, own)] == [0, 1, 0]


def test_evaluate_text_long_sentence_truncated_without_loss(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    alone = evaluate_text(translator, ParallelText("mine", [SOURCE], [[REFERENCE]]))
    judged = evaluate_text(translator, ParallelText("mine", [SOURCE, "Hund " * 15], [[REFERENCE, "dog"]]))
    assert "mine: 1 sentence too long: excluded from the loss; translated from the truncated source" in caplog.text
    assert (judged.result.sentences, len(judged.translations)) == (2, 2)
    assert judged.result.tokens == alone.result.tokens
    assert judged.result.loss == pytest.approx(alone.result.loss)
    caplog.clear()
    evaluate_text(translator, ParallelText("mine", [SOURCE, "Hund"], [[REFERENCE, "dog " * 15]]))
    said = "mine: 1 reference too long: excluded from the loss"
    assert [each for each in caplog.messages if "long" in each] == [said]
    with pytest.raises(DataError, match=r"^mine: every line is blank, or too long for the model; name"):
        evaluate_text(translator, ParallelText("mine", ["Hund " * 15], [["dog"]]))


def test_evaluate_text_skips_pairs_of_blank_lines(translator: Translator) -> None:
    alone = evaluate_text(translator, ParallelText("mine", [SOURCE], [[REFERENCE]])).result
    with_blanks = evaluate_text(translator, ParallelText("mine", ["", SOURCE, " "], [["", REFERENCE, "\t"]])).result
    assert replace(with_blanks, seconds=alone.seconds) == alone
    with pytest.raises(DataError, match=r"^mine: every line is blank, or too long for the model; name"):
        evaluate_text(translator, ParallelText("mine", ["", " "], [["", ""]]))


@pytest.mark.parametrize("as_files", [False, True])
def test_evaluate_tokenises_each_text_once(
    project: Path, tiny: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch, as_files: bool
) -> None:
    seen = Counter[str]()
    tokens = Tokenizer.tokens

    def count(tokenizer: Tokenizer, text: str) -> list[str]:
        seen[text] += 1
        return tokens(tokenizer, text)

    monkeypatch.setattr(Tokenizer, "tokens", count)
    files = (corpus / "test.de", corpus / "test.en") if as_files else None
    judged = evaluate(translator_of(tiny), select_texts(tiny.config.data, files=files, data_dir=project / "data"))
    assert [(each.result.split, len(each.translations)) for each in judged] == [("test.de" if as_files else "test", 30)]
    lines = [line for side in ("de", "en") for line in (corpus / f"test.{side}").read_text("utf-8").split("\n")[:-1]]
    assert seen == Counter(lines)


def test_select_texts_dataset_without_test_set_raises(corpus: Path, tmp_path: Path) -> None:
    config = load_config(corpus / "tiny.yaml")
    files = {name: pair for name, pair in (config.data.files or {}).items() if name != "test"}
    data = config.data.model_copy(update={"files": files, "fingerprint": None})
    make_dataset(config.model_copy(update={"data": data}), AlignedFiles(data), data_dir=tmp_path / "data")
    with pytest.raises(DataError, match=r"has no test set; name another split, such as valid$"):
        select_texts(data, data_dir=tmp_path / "data")
    data = data.model_copy(update={"to": "en"})  # as --to chooses it
    assert [text.name for text in select_texts(data, splits=["valid"], data_dir=tmp_path / "data")] == ["valid"]


def test_select_texts_wrong_files_raise_data_error(tiny: Run, tmp_path: Path) -> None:
    for sources, references, message in (
        ("", "", "empty; name a file with one sentence per line"),
        ("a\nb\n", "a\n", "has 2 lines, .* has 1; line n must"),
    ):
        (tmp_path / "a.de").write_text(sources)
        (tmp_path / "a.en").write_text(references)
        with pytest.raises(DataError, match=f"^{tmp_path}/a.de.*{message}"):
            select_texts(tiny.config.data, files=(tmp_path / "a.de", tmp_path / "a.en"))


def test_select_texts_warns_of_lines_from_training_text(
    project: Path, tiny: Run, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for side in ("de", "en"):
        trained, new = (corpus / f"{split}.{side}" for split in ("train", "test"))
        lines = [*trained.read_text(encoding="utf-8").splitlines()[:2], new.read_text(encoding="utf-8").splitlines()[0]]
        (tmp_path / f"own.{side}").write_text("".join(f"{line.upper()}\n" for line in lines), encoding="utf-8")
    data = tiny.config.data.model_copy(update={"to": "en"})  # as --to chooses it
    select_texts(data, files=(tmp_path / "own.de", tmp_path / "own.en"), data_dir=project / "data")
    assert "own.de: also in the training text: 2 of 3 lines, 2 of 3 references; " in caplog.text
    caplog.clear()
    reference = (corpus / "train.en").read_text(encoding="utf-8").splitlines()[0]
    for n_lines in (100, 101):  # 1 % of the references is worth a warning; fewer may be short ones that recur
        sources, references = ([f"{word} {n}" for n in range(n_lines)] for word in ("neu", "new"))
        select_texts(tiny.config.data, lists=(sources, [reference, *references[1:]]), data_dir=project / "data")
    (message,) = caplog.messages
    assert message.startswith("lists: also in the training text: 1 of 100 references; ")


def test_score_files_sum_equals_loss_of_split(
    translator: Translator,
    project: Path,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CHUNK_LINES", 7)
    (judged,) = evaluate(translator, select_texts(translator.run.config.data, data_dir=project / "data"))
    with caplog.at_level(logging.INFO):
        found = list(score_files(translator, corpus / "test.de", corpus / "test.en"))
    sides = [(corpus / f"test.{side}").read_text("utf-8").splitlines() for side in ("de", "en")]
    assert [[each.source for each in found], [each.target for each in found]] == sides
    tokens = sum(each.tokens for each in found)
    assert tokens == judged.result.tokens
    assert -sum(each.log_prob for each in found) / tokens == pytest.approx(judged.result.loss, rel=1e-5)
    *_, unknown, total = caplog.messages
    assert unknown.endswith(f"of {tokens - 30} tokens are unknown and are scored as <unk>")
    assert total == f"{corpus / 'test.en'}: 30 lines, {tokens} tokens, perplexity {judged.result.ppl:.3f}"


def test_score_pairs_blank_line_counts_if_other_side_has_words(
    translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both, no_target, no_source = score_pairs(translator, [(" ", ""), ("Der Hund", "  "), ("", "The dog")])
    assert both == module.LineScore(" ", "", 0.0, 0, 1.0)
    assert (no_target.tokens, no_source.tokens) == (1, 3)
    assert no_target.log_prob < 0
    assert no_source.log_prob < 0
    (tmp_path / "blank").write_text("\n")
    with caplog.at_level(logging.INFO):
        assert len(list(score_files(translator, tmp_path / "blank", tmp_path / "blank"))) == 1
    assert caplog.messages == []  # no perplexity


def test_score_files_long_line_error_names_file(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_LINES", 2)
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("Hund\nHund\n" + "Hund " * 15)
    (tmp_path / "b").write_text("dog\ndog\ndog\n")
    found = score_files(translator, tmp_path / "a.gz", tmp_path / "b")
    assert [next(found).tokens, next(found).tokens] == [2, 2]
    said = r"a.gz: line 3: 15 tokens, but the model takes at most 14 .*; remove it, since "
    with pytest.raises(DataError, match=said):
        next(found)
    with pytest.raises(DataError, match=r"^target: line 1: 15 tokens"):
        list(score_pairs(translator, [("Hund", "dog " * 15)]))
    with pytest.raises(ArgumentError, match=r"^score_pairs: pairs, item 2: \['Hund'\] is not a pair"):
        list(score_pairs(translator, [("Hund", "dog"), ("Hund", "dog"), ["Hund"]]))
    (tmp_path / "a").write_text("Hund\nHund\n")
    with pytest.raises(DataError, match=r"a has 2 lines, .*b has 3; line n must translate line n"):
        list(score_files(translator, tmp_path / "a", tmp_path / "b"))
