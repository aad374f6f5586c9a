"""Codecs: text to ids and back, what is saved, and what a damaged file says."""

from pathlib import Path

import pytest

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.codec import Codec, Codecs, Encoded, WordCodec
from transformer_cli.data.vocabulary import SPECIALS, UNK, Vocabulary
from transformer_cli.data.words import Joins

DATA = DataConfig(source="de", target="en", lowercase=True)
JOINS = Joins(glue_left=frozenset({"."}), glued_pairs=frozenset({("t", "-")}))


def word_codec(*words: str, language: str = "en", lowercase: bool = True, joins: Joins = JOINS) -> WordCodec:
    return WordCodec(language, lowercase, Vocabulary((*SPECIALS, *words)), joins)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with the codecs of both sides."""
    Codecs(word_codec("hund", language="de", joins=Joins()), word_codec("a", "dog", ".")).save(tmp_path)
    return tmp_path


def test_a_line_becomes_words_and_ids_and_an_unknown_word_keeps_its_form() -> None:
    codec = word_codec("a", "dog", ".")
    assert codec.encode("A Dog  barks.") == Encoded(["a", "dog", "barks", "."], [4, 5, UNK, 6])
    assert codec.encode(" ") == Encoded([], [])
    assert len(codec) == len(codec.tokens(range(len(codec)))) == 7


def test_case_is_kept_where_the_codec_keeps_it() -> None:
    assert word_codec("A", lowercase=False).encode("A a") == Encoded(["A", "a"], [4, UNK])


def test_text_is_joined_and_an_unknown_word_is_replaced_where_another_is_at_hand() -> None:
    codec = word_codec("a", "dog", ".")
    ids = [4, UNK, 6]
    assert codec.tokens(ids) == ["a", "<unk>", "."]
    assert codec.text(ids) == "a <unk>."
    assert codec.text(ids, instead=["x", "Zorro", "y"]) == "a Zorro."
    assert codec.text([]) == ""


def test_what_replaces_an_unknown_word_is_joined_as_itself() -> None:
    assert word_codec("-").text([UNK, 4], instead=["t", "x"]) == "t-"


def test_a_line_is_cut_after_its_first_tokens() -> None:
    line = Encoded(["a", "b", "c"], [7, 8, 9])
    assert line.first(2) == Encoded(["a", "b"], [7, 8])
    assert (len(line), len(line.first(2))) == (3, 2)


def test_codecs_come_back_as_they_were_saved(saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == {"source.vocab.txt", "target.vocab.txt", "target.joins.json"}
    codecs = Codecs.load(saved, DATA)
    expected: list[tuple[Codec, list[str]]] = [(codecs.source, ["hund"]), (codecs.target, ["a", "dog", "."])]
    for codec, words in expected:
        assert codec.tokens(range(len(codec))) == [*SPECIALS, *words]
    assert codecs.source.encode("Hund").ids == [4]
    assert codecs.target.text([4, 5, 6]) == "a dog."
