"""Subwords: any text comes back exactly, learning and sampling repeat, and what a bad size or a damaged model says."""

import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.config.schema import DataConfig, SubwordsConfig
from transformer_cli.errors import ConfigError
from transformer_cli.text.codec import Codec, Codecs, SubwordCodec, codec_files
from transformer_cli.text.subwords import SubwordModel, min_vocab_size, train_subwords
from transformer_cli.text.vocabulary import EOS, PAD, SOS, SPECIALS, UNK

CAPTIONS = Path(__file__).with_name("captions.txt")
"""300 of the embedded corpus, in German and in English by turns"""
SIZE = 400
ALGORITHMS = ("bpe", "unigram")
HOSTILE = [
    *("<unk>", "a <sos> b<eos>", "<pad><pad>", "<0x0A>", "<s></s>", "▁", "a▁b ▁▁", "\ue000", "\ue000_\ue000\ue000▁"),
    *(" a", "a ", "  a   b  ", "\ta", "a\u2028b\x85c", "a\rb", "a\x00b", "\x00", "▅ a", "\ufeffa", "a\u200bb", "ﬁ Ⅳ ①"),
    *("e\u0301 é", "漢字かな交じり文", "שלום", "ชาวบ้าน", "👩‍👩‍👧‍👦 🏳️‍🌈", "\U0010ffff", "\ufffd", "x" * 5_000),
]


@cache
def text() -> list[str]:
    return CAPTIONS.read_text(encoding="utf-8").splitlines()


@cache
def model(algorithm: str) -> bytes:
    return train_subwords(text(), vocab_size=SIZE, algorithm=algorithm)


@cache
def by_pairs() -> SubwordCodec:
    return SubwordCodec(model("bpe"))


LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)


def comes_back(codec: Codec, line: str) -> bool:
    encoded = codec.encode_raw(line)
    assert UNK not in encoded.ids
    assert len(encoded.tokens) == len(encoded.ids)
    return codec.decode(encoded.ids) == (line if line.strip() else "")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(st.lists(LINES, min_size=10, max_size=10))
def test_subword_codec_restores_any_line(algorithm: str, lines: list[str]) -> None:
    codec = SubwordCodec(model(algorithm))
    assert [line for line in lines if not comes_back(codec, line)] == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_subword_codec_restores_hostile_lines(algorithm: str) -> None:
    codec = SubwordCodec(model(algorithm))
    assert [line for line in (*text()[:3], *HOSTILE) if not comes_back(codec, line)] == []


def test_subword_codec_restores_names_of_special_tokens() -> None:
    lines = [f"{name}{word} {name}" for name in (*SPECIALS, "<0x41>", "▁", "▅", "a\0b") for word in ("", "x", "yy")]
    codec = SubwordCodec(train_subwords([*text(), *lines * 50], vocab_size=400, algorithm="bpe"))
    assert [line for line in lines if not comes_back(codec, line)] == []
    assert len(set(codec.tokens(range(len(codec))))) == len(codec)


def test_subword_codec_lowercase_restores_lower_case() -> None:
    codec = SubwordCodec(model("bpe"), True)
    assert codec.decode(codec.encode("Ein HUND Ä İ").ids) == "Ein HUND Ä İ".lower()


@pytest.mark.parametrize("share", [1, 5])  # of lines that have word breaks
def test_subword_codec_restores_word_breaks_of_khmer(share: int) -> None:
    words = ["ខ្ញុំ", "ភាសា", "ខ្មែរ", "សាលា", "រៀន", "ផ្ទះ"]
    chance = random.Random(0)
    lines = ["\u200b".join(chance.choices(words, k=6)) for _ in range(300)]
    text = [line if number % share == 0 else line.replace("\u200b", "") for number, line in enumerate(lines)]
    codec = SubwordCodec(train_subwords(text, vocab_size=300, algorithm="bpe"), language="km")
    assert [codec.decode(codec.encode(line).ids) for line in lines] == lines


@pytest.mark.parametrize("blank", ["", " ", "\t \u2003\xa0"])
def test_subword_codec_blank_line_has_no_tokens(blank: str) -> None:
    assert (by_pairs().encode(blank).ids, by_pairs().encode_lines([blank])) == ([], [[]])
    assert by_pairs().decode([]) == ""


def test_subword_codec_decodes_any_ids_to_one_line() -> None:
    newline, half = 4 + ord("\n"), 4 + 0xC3
    hund = by_pairs().encode("Hund").ids
    assert by_pairs().decode([*hund, newline, *hund]) == "Hund  Hund"
    assert by_pairs().decode([UNK, *hund, EOS, PAD, SOS], unk_replacements=["x"] * (4 + len(hund))) == "Hund"
    assert by_pairs().decode([*hund, half]) == "Hund\ufffd"


def test_subword_codec_tokens_show_bytes_and_blanks() -> None:
    codec = SubwordCodec(train_subwords([*text(), "a\tb\xa0▁" * 300], vocab_size=SIZE, algorithm="bpe"))
    assert "".join(by_pairs().encode("Der kleine Hund").tokens) == " Der kleine Hund"
    assert by_pairs().encode_raw("é").tokens == [" ", "<0xC3>", "<0xA9>"]
    shown = "".join(codec.encode_raw("a\tb\xa0▁").tokens)
    assert shown == " a<U+0009>b<U+00A0>▁"
    assert codec.decode(codec.encode("▁ a▁b").ids) == "▁ a▁b"  # it has pieces, so it is no placeholder
    assert by_pairs().tokens([UNK, PAD, SOS, EOS]) == list(SPECIALS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_train_subwords_same_text_gives_same_bytes(algorithm: str) -> None:
    again = train_subwords(iter(text()), vocab_size=SIZE, algorithm=algorithm)
    assert again == model(algorithm)
    assert again != train_subwords(text()[1:], vocab_size=SIZE, algorithm=algorithm)
    assert len(SubwordModel(again)) == SIZE


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_train_subwords_too_small_size_names_the_minimum(algorithm: str) -> None:
    said = r"^data\.subwords\.vocab_size: 270 is too small .*; set it to (\d+) or more$"
    with pytest.raises(ConfigError, match=said) as caught:
        train_subwords(text(), vocab_size=270, algorithm=algorithm)
    smallest = int(str(caught.value).split()[-3])
    assert smallest <= min_vocab_size(text()) <= smallest + 1  # SentencePiece's own count may leave out the space
    assert len(SubwordModel(train_subwords(text(), vocab_size=smallest, algorithm=algorithm))) == smallest


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_train_subwords_too_large_size_warns(algorithm: str, caplog: pytest.LogCaptureFixture) -> None:
    found = len(SubwordModel(train_subwords(text(), vocab_size=100_000, algorithm=algorithm)))
    assert caplog.messages == [f"the training text gives {found} subwords, not data.subwords.vocab_size: 100000"]


def test_train_subwords_without_text_raises_config_error() -> None:
    said = r"^data\.subwords\.vocab_size: \d+ cannot be learned from the .*empty"
    with pytest.raises(ConfigError, match=said) as caught:
        train_subwords([], vocab_size=SIZE, algorithm="bpe")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_train_subwords_reads_long_lines_whole(algorithm: str) -> None:
    joined = " ".join(text())
    assert len(joined) > 20_000
    pieces = SubwordModel(train_subwords([joined, "x" * 70_000], vocab_size=SIZE, algorithm=algorithm))
    assert "x" in pieces.all_tokens()
    assert len(pieces.ids(joined)) < len(joined) / 1.5


def test_codecs_saved_and_loaded_are_equal(tmp_path: Path) -> None:
    data = DataConfig(tokens="subwords", subwords=SubwordsConfig(vocab_size=SIZE), lowercase=True)
    Codecs(by_pairs(), by_pairs()).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(codec_files(data))
    source, target = (SubwordCodec(model("bpe"), True, "bpe", language) for language in ("de", "en"))
    assert Codecs.load(tmp_path, data) == Codecs(source, target)
