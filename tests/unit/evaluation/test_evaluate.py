"""Judging a run: what is left out, what is cut, which splits are taken, and how often a text is tokenised."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sealed import set_config
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import FilePair
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.errors import DataError
from transformer_cli.evaluation.evaluate import (
    ParallelText,
    evaluate,
    judge,
)
from transformer_cli.runs.run import Run
from transformer_cli.text.codec import WordCodec
from transformer_cli.text.vocabulary import UNK
from transformer_cli.text.words import Tokenizer
from transformer_cli.translator import Translator

SOURCE = "Der alte Bado schläft zu Hause."
REFERENCE = "The old Bado sleeps at home."
PAIR = FilePair(source=Path("a"), target=Path("b"))


def test_judge_keeps_words_of_the_reference_that_the_vocabulary_lacks(translator: Translator) -> None:
    assert UNK in translator.run.codecs.target.encode(REFERENCE).ids
    judged = judge(translator, ParallelText("mine", [SOURCE], [[REFERENCE]]))
    assert "<unk>" in judged.translations[0].tokens
    assert "bado" in judged.translations[0].text
    assert judged.result.bleu_tokens < judged.result.bleu  # rebuilt from ids, the reference would hold <unk> too


def test_judge_cased_run_may_be_scored_without_case(translator: Translator) -> None:
    config, codecs = translator.run.config, translator.run.codecs
    assert isinstance(codecs.target, WordCodec)
    run = replace(
        translator.run,
        config=config.model_copy(update={"data": config.data.model_copy(update={"lowercase": False})}),
        codecs=replace(codecs, target=replace(codecs.target, lowercase=False)),
    )
    cased = Translator(run, "cpu")
    text = ParallelText("mine", ["der kleine Hund läuft im Park ."], [["THE small dog runs in the park ."]])
    found = [judge(cased, text, lowercase=lowercase).result for lowercase in (False, True)]
    assert found[0].bleu < found[1].bleu
    assert found[0].bleu_tokens < found[1].bleu_tokens
    assert found[0].chrf < found[1].chrf
    own = judge(cased, text).result  # as the model looks at it
    assert [each.bleu_signature.count("case:lc") for each in (*found, own)] == [0, 1, 0]
    assert [each.chrf_signature.count("case:lc") for each in (*found, own)] == [0, 1, 0]


def test_judge_sentence_too_long_is_left_out_of_the_loss_and_cut(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    alone = judge(translator, ParallelText("mine", [SOURCE], [[REFERENCE]]))
    judged = judge(translator, ParallelText("mine", [SOURCE, "Hund " * 15], [[REFERENCE, "dog"]]))
    assert (
        "mine: 1 sentence too long: left out of the loss; of a long source, the beginning is translated" in caplog.text
    )
    assert (judged.result.sentences, len(judged.translations)) == (2, 2)
    assert judged.result.tokens == alone.result.tokens
    assert judged.result.loss == pytest.approx(alone.result.loss)
    with pytest.raises(DataError, match=r"^mine: every line is blank, or too long for the model; name"):
        judge(translator, ParallelText("mine", ["Hund " * 15], [["dog"]]))


def test_judge_leaves_pairs_of_blank_lines_out(translator: Translator) -> None:
    alone = judge(translator, ParallelText("mine", [SOURCE], [[REFERENCE]])).result
    with_blanks = judge(translator, ParallelText("mine", ["", SOURCE, " "], [["", REFERENCE, "\t"]])).result
    assert replace(with_blanks, seconds=alone.seconds) == alone
    with pytest.raises(DataError, match=r"^mine: every line is blank, or too long for the model; name"):
        judge(translator, ParallelText("mine", ["", " "], [["", ""]]))


@pytest.mark.parametrize("as_files", [False, True])
def test_evaluate_tokenises_each_text_once(
    project: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, as_files: bool
) -> None:
    seen = Counter[str]()
    tokens = Tokenizer.tokens

    def count(tokenizer: Tokenizer, text: str) -> list[str]:
        seen[text] += 1
        return tokens(tokenizer, text)

    monkeypatch.setattr(Tokenizer, "tokens", count)
    files = (corpus / "test.de", corpus / "test.en") if as_files else None
    judged = list(evaluate("tiny", files=files, data_dir=project / "data", runs_dir=project / "runs"))
    assert [(each.result.split, len(each.translations)) for each in judged] == [("test.de" if as_files else "test", 30)]
    lines = [line for side in ("de", "en") for line in (corpus / f"test.{side}").read_text("utf-8").split("\n")[:-1]]
    assert seen == Counter(lines)


def test_evaluate_dataset_without_test_sets_asks_for_a_split(corpus: Path, tmp_path: Path, tiny: Run) -> None:
    config = load_config(corpus / "tiny.yaml")
    files = {name: pair for name, pair in (config.data.files or {}).items() if name != "test"}
    data = config.data.model_copy(update={"files": files, "fingerprint": None})
    dataset = make_dataset(config.model_copy(update={"data": data}), data_dir=tmp_path / "data")
    run = shutil.copytree(tiny.folder, tmp_path / "run")
    pinned = data.model_copy(update={"fingerprint": dataset.manifest["fingerprint"]})
    set_config(run, tiny.config.model_copy(update={"data": pinned}))
    with pytest.raises(DataError, match=r"has no test set; name a split with splits, such as valid$"):
        list(evaluate(run, data_dir=tmp_path / "data"))
    assert [each.result.split for each in evaluate(run, splits=["valid"], data_dir=tmp_path / "data")] == ["valid"]


def test_evaluate_files_that_cannot_be_judged_are_one_line(project: Path, tmp_path: Path) -> None:
    for sources, references, message in (
        ("", "", "empty; name a file with one sentence per line"),
        ("a\nb\n", "a\n", "has 2 lines, .* has 1; line n must"),
    ):
        (tmp_path / "a.de").write_text(sources)
        (tmp_path / "a.en").write_text(references)
        with pytest.raises(DataError, match=f"^{tmp_path}/a.de.*{message}"):
            list(evaluate(project / "runs/tiny", files=(tmp_path / "a.de", tmp_path / "a.en")))


def test_evaluate_says_how_many_lines_of_a_file_stood_in_training(
    project: Path, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for side in ("de", "en"):
        trained, new = (corpus / f"{split}.{side}" for split in ("train", "test"))
        lines = [*trained.read_text(encoding="utf-8").splitlines()[:2], new.read_text(encoding="utf-8").splitlines()[0]]
        (tmp_path / f"own.{side}").write_text("".join(f"{line.upper()}\n" for line in lines), encoding="utf-8")
    files = (tmp_path / "own.de", tmp_path / "own.en")
    run = shutil.copytree(project / "runs/tiny", tmp_path / "tiny")
    list(evaluate(run, files=files, data_dir=project / "data", runs_dir=tmp_path))
    assert "own.de: 2 of 3 lines stood in the training text" in caplog.text
