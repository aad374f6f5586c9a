"""A codec of words: text to tokens and ids."""

from transformer_cli.text.codec import Encoded, WordCodec
from transformer_cli.text.reading import Reading
from transformer_cli.text.vocabulary import SPECIALS, UNK, Vocabulary
from transformer_cli.text.words import Joins


def word_codec(*words: str, lowercase: bool = True) -> WordCodec:
    return WordCodec("en", lowercase, Vocabulary((*SPECIALS, *words)), Joins())


def test_word_codec_encode_unknown_word_keeps_its_form() -> None:
    codec = word_codec("a", "dog", ".")
    text = "A Dog  barks."
    assert codec.encode(f" {text}") == Encoded(["a", "dog", "barks", "."], [4, 5, UNK, 6], Reading(text))
    assert codec.encode(" ") == Encoded([], [])
    assert len(codec) == len(codec.tokens(range(len(codec)))) == 7


def test_word_codec_encode_cased_keeps_case() -> None:
    assert word_codec("A", lowercase=False).encode("A a") == Encoded(["A", "a"], [4, UNK], Reading("A a"))


def test_repr_of_a_codec_is_short_whatever_it_knows() -> None:
    assert len(repr(word_codec(*map(str, range(10_000))))) < 250
