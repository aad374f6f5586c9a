"""Encoding of lines: characters that the codec does not know, and lines without letters."""

import unicodedata

import pytest

from transformer_cli.text.codec import SubwordCodec
from transformer_cli.text.line_encoder import LineEncoder
from transformer_cli.text.subwords import train_subwords
from transformer_cli.translate import Translator

SENTENCE = "Der kleine Hund läuft im Park."


@pytest.mark.parametrize(
    "line",
    [
        SENTENCE.replace(" ", "\N{NO-BREAK SPACE}"),
        SENTENCE.replace(" ", "\t"),
        unicodedata.normalize("NFD", SENTENCE),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{SENTENCE}",
        SENTENCE.replace("läuft", "läu\N{SOFT HYPHEN}ft"),
    ],
)
@pytest.mark.parametrize("kind", ["translator", "by_subwords"])
def test_translate_unknown_characters_as_their_equivalents(
    kind: str, line: str, request: pytest.FixtureRequest
) -> None:
    translator: Translator = request.getfixturevalue(kind)
    wanted, found = translator.translate_detailed([SENTENCE, line])
    assert (found.text, found.source_ids) == (wanted.text, wanted.source_ids)
    assert found.source == line


@pytest.mark.parametrize(("n_times", "text"), [(20, "3\N{NO-BREAK SPACE}km"), (1, "3 km")])
def test_encode_no_break_space_by_its_frequency(n_times: int, text: str) -> None:
    lines = [*["zwei Igel", "drei Hasen"] * 20, *["3\N{NO-BREAK SPACE}km"] * n_times]
    codec = SubwordCodec(train_subwords(lines, vocab_size=290, algorithm="bpe"))
    assert "\N{NO-BREAK SPACE}" in "".join(codec.all_tokens())
    assert LineEncoder(codec, None, "stop").encode(lines[-1]).encoded.normalized.text == text


def test_translate_line_without_letters_is_copied(translator: Translator) -> None:
    split = translator.with_options(split_sentences=True)
    lines = ["---", "12.5 %", "😀", "\N{ZERO WIDTH SPACE}", "  "]
    wanted = [*lines[:4], ""]
    assert translator.translate(lines) == wanted
    assert split.translate(lines) == [*wanted[:-1], "  "]
    (joined,) = split.translate_detailed([f"12.5! {SENTENCE} 😀"])
    (alone,) = translator.translate_detailed([SENTENCE])
    assert joined.text == f"12.5! {alone.text} 😀"
    assert (joined.tokens, joined.alignment, joined.score) == (alone.tokens, alone.alignment, alone.score)


def test_encode_line_without_letters_if_the_codec_has_none() -> None:
    codec = SubwordCodec(train_subwords(["1 2 3", "3 2 1"] * 20, vocab_size=265, algorithm="bpe"))
    assert LineEncoder(codec, None, "stop").encode("2 1").encoded == codec.encode("2 1")
