"""BLEU by the length of the source: which sentences belong together, and their score."""

from pathlib import Path

import pytest
import sacrebleu

from transformer_cli.config.data import DataConfig, FilePair
from transformer_cli.evaluation.by_length import LengthScore, bleu_by_source_length, source_length

REFERENCE = "The old Bado sleeps at home."
PAIR = FilePair(source=Path("a"), target=Path("b"))


def words(n: int) -> str:
    return " ".join(["wort"] * n)


def test_each_length_is_in_one_group_and_groups_without_sentences_are_left_out() -> None:
    sources = [words(n) for n in (51, 10, 0, 11, 15, 31, 50, 400)]
    found = bleu_by_source_length(sources, [REFERENCE] * 8, [REFERENCE] * 8, DataConfig())
    groups = [(each.shortest, each.longest, each.sentences) for each in found]
    assert groups == [(0, 10, 2), (11, 15, 2), (31, 50, 2), (51, None, 2)]
    assert [each.bleu for each in found] == pytest.approx([100.0] * 4)


@pytest.mark.parametrize(("lowercase", "language", "tokenizer"), [(True, "en", "13a"), (False, "zh", "zh")])
def test_a_groups_score_is_sacrebleus_of_its_sentences(lowercase: bool, language: str, tokenizer: str) -> None:
    texts = ["the old Bado sleeps at the beach.", "the young Bado sleeps at home.", "no"]
    data = DataConfig(corpus="files", files={"train": PAIR, "valid": PAIR}, target=language, lowercase=lowercase)
    found = bleu_by_source_length([words(3), words(4), words(12)], texts, [REFERENCE] * 3, data)
    expected = sacrebleu.corpus_bleu(texts[:2], [[REFERENCE] * 2], lowercase=lowercase, tokenize=tokenizer).score
    assert found[0] == LengthScore(0, 10, 2, expected)


@pytest.mark.parametrize(
    ("line", "language", "length"),
    [("  a  b ", "de", 2), ("两只 狗。", "zh", 4), ("", "ja", 0), ("개가 잔다.", "ko", 2)],
)
def test_a_length_is_in_words_or_without_spaces_in_characters(line: str, language: str, length: int) -> None:
    assert source_length(line, language) == length
