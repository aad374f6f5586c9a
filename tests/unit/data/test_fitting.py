"""Lines as an encoder reads them: characters that it has never seen, and lines that are in no language."""

import unicodedata

import pytest

from transformer_cli.data.codec import SubwordCodec
from transformer_cli.data.fitting import Fitting
from transformer_cli.data.subwords import learn_pieces
from transformer_cli.translator import Options, Translator

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
def test_characters_of_no_training_text_are_read_as_those_they_mean(
    kind: str, line: str, request: pytest.FixtureRequest
) -> None:
    translator: Translator = request.getfixturevalue(kind)
    wanted, found = translator.translations([SENTENCE, line])
    assert (found.text, found.source_ids) == (wanted.text, wanted.source_ids)
    assert found.source == line


def test_characters_of_the_training_text_are_read_as_they_are() -> None:
    text = ["1\N{NO-BREAK SPACE}000 Ha\N{SOFT HYPHEN}sen", "zwei Igel"] * 20
    codec = SubwordCodec(False, learn_pieces(text, size=290, algorithm="bpe"))
    fitting = Fitting(codec, None, "stop")
    for line in text:
        assert fitting.line(line).read == codec.encode(line)
    assert fitting.line("ein\N{NARROW NO-BREAK SPACE}Igel").read == codec.encode("ein Igel")


def test_a_line_without_a_letter_stays_as_it_is(translator: Translator) -> None:
    lines = ["---", "12.5 %", "😀", "\N{ZERO WIDTH SPACE}", "  "]
    wanted = [*lines[:3], "", ""]
    assert translator.translate(lines) == wanted
    assert translator.translate(lines, Options(split_sentences=True)) == [*wanted[:-1], "  "]
    assert translator.translate([f"{SENTENCE} 😀"], Options(split_sentences=True))[0].endswith(" 😀")
