"""Tokens and ids: the order, what text can never be, and the file."""

from pathlib import Path

import pytest

from transformer_cli.text.vocabulary import EOS, SPECIALS, UNK, Vocabulary

ODD = ("ä", "a\u0308", "😀", "\u200b", "\ufeff", "\x85", "\u2028", "\x1c", "\r", "'", '"', "#", "\\n", "日本語")


def build(min_freq: int = 1, **counts: int) -> Vocabulary:
    return Vocabulary.build(counts, min_freq=min_freq)


@pytest.mark.parametrize(
    ("min_freq", "max_words", "words"),
    [
        *((1, None, ["c", "a", "b", "ä", "z"]), (2, None, ["c", "a", "b", "ä"]), (3, None, ["c"])),
        *((9, None, []), (1, 2, ["c", "a"]), (1, 9, ["c", "a", "b", "ä", "z"])),
    ],
)
def test_vocabulary_build_sorts_by_frequency_then_alphabet(
    min_freq: int, max_words: int | None, words: list[str]
) -> None:
    counts = {"z": 1, "ä": 2, "b": 2, "a": 2, "c": 5, **dict.fromkeys(SPECIALS, 5)}
    assert Vocabulary.build(counts, min_freq=min_freq, max_words=max_words).tokens == (*SPECIALS, *words)


def test_vocabulary_special_token_in_text_is_unknown() -> None:
    vocabulary = Vocabulary.build({**dict.fromkeys(SPECIALS, 9), "a": 1}, min_freq=1)
    assert vocabulary.tokens == (*SPECIALS, "a")
    assert vocabulary.to_ids([*SPECIALS, "a"]) == [UNK, UNK, UNK, UNK, 4]


def test_vocabulary_to_ids_and_back_with_an_unknown_token() -> None:
    vocabulary = build(a=2, b=1)
    assert vocabulary.to_ids(["b", "x", "a", "b"]) == [5, UNK, 4, 5]
    assert vocabulary.to_tokens([5, UNK, 4, EOS]) == ["b", "<unk>", "a", "<eos>"]
    assert (vocabulary.to_ids([]), vocabulary.to_tokens([])) == ([], [])


def test_vocabulary_saved_and_loaded_is_equal(tmp_path: Path) -> None:
    vocabulary = Vocabulary((*SPECIALS, *ODD))
    vocabulary.save(tmp_path / "v.txt")
    assert (tmp_path / "v.txt").read_bytes() == "".join(f"{token}\n" for token in [*SPECIALS, *ODD]).encode()
    loaded = Vocabulary.load(tmp_path / "v.txt")
    assert loaded.tokens == vocabulary.tokens
    assert loaded.to_ids(ODD) == list(range(4, 4 + len(ODD)))
