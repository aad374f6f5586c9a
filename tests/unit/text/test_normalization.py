"""One reading of every text: what is read of a line, by a codec of words and by codecs of subwords."""

import unicodedata
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transformer_cli.text.codec import Codec, EncodedText, SubwordCodec, WordCodec
from transformer_cli.text.normalization import NormalizedText, Placeholder, is_all_caps, lower, upper
from transformer_cli.text.subwords import train_subwords
from transformer_cli.text.vocabulary import SPECIALS, UNK, Vocabulary
from transformer_cli.text.words import Detokenizer

TEXT = ["Der kleine Hund läuft im Park.", "Ein Mann trägt einen Hut.", "die USA sind groß"] * 30
PERSIAN = ["می\u200cخواهم کتاب", "کتاب می\u200cخوانم"] * 30


def subwords(text: list[str], *, size: int = 300, language: str = "de", lowercase: bool = False) -> SubwordCodec:
    lines = [lower(line, language) if lowercase else line for line in text]
    model = train_subwords(lines, vocab_size=size, algorithm="bpe")
    return SubwordCodec(model, lowercase, language=language)


def words(text: list[str], *, language: str = "de", lowercase: bool = False) -> WordCodec:
    empty = WordCodec(language, lowercase, Vocabulary(tuple(SPECIALS)), Detokenizer())
    found = dict.fromkeys(word for line in text for word in empty.tokenizer.tokens(line))
    return WordCodec(language, lowercase, Vocabulary((*SPECIALS, *found)), Detokenizer())


CODECS: dict[str, Callable[[], Codec]] = {
    "words": lambda: words(TEXT),
    "lower-cased words": lambda: words(TEXT, lowercase=True),
    "subwords": lambda: subwords(TEXT, size=360),
    "lower-cased subwords": lambda: subwords(TEXT, size=360, lowercase=True),
}


@cache
def known(name: str) -> Codec:
    """A codec of TEXT."""
    return CODECS[name]()


IGNORABLE = [  # DerivedCoreProperties.txt, Unicode 16: Default_Ignorable_Code_Point, some of its last plane
    *(0xAD, 0x34F, 0x61C, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810)),
    *range(0x200B, 0x2010),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000, 15)),
]
CONTROLS = [code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc" and not chr(code).isspace()]


@pytest.mark.parametrize("name", CODECS)
def test_normalize_removes_unknown_invisible_characters(name: str) -> None:
    codec = known(name)
    for line in TEXT[:2]:
        wanted = codec.encode(line)
        for code in [*IGNORABLE, *CONTROLS]:
            assert codec.encode(chr(code) + line) == wanted, hex(code)
            assert codec.encode(line.replace("n", f"n{chr(code)}", 1)) == wanted, hex(code)


def test_normalize_removes_no_visible_character() -> None:
    codec = known("words")
    dropped = {*IGNORABLE, *CONTROLS, *range(0xD800, 0xE000)}
    for code in {*range(0xA1, 0x3000, 7), 0x600, 0x6DD, 0x70F, 0x110BD, 0xFFF9, 0x13430} - dropped:
        if not (char := chr(code)).isspace():
            normalized = codec.encode(f"Hund {char} Hund").normalized
            assert normalized.placeholders or len(normalized.text.split()) == 3, hex(code)


@given(st.text(), st.sampled_from(sorted(CODECS)))
@example("\uffe8", "words")  # a narrow form of a symbol
def test_normalize_any_text_is_nfc_and_idempotent(text: str, name: str) -> None:
    normalized = known(name).encode(text).normalized
    assert normalized.text == unicodedata.normalize("NFC", normalized.text.strip())
    assert all(0 <= each.offset <= len(normalized.text) for each in normalized.placeholders)
    if not normalized.all_caps:
        assert known(name).encode(normalized.text).ids == known(name).encode(text).ids


def test_normalize_keeps_a_known_joiner() -> None:
    codec = subwords(PERSIAN, language="fa")
    assert codec.encode(PERSIAN[0]).normalized.text == PERSIAN[0]
    assert known("subwords").encode("می\u200cخواهم").normalized.text == "میخواهم"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ខ្ញុំ\u200bស្រឡាញ់", "ខ្ញុំ ស្រឡាញ់"),  # Khmer writes its words apart so
        ("แมว\u200bกิน", "แมว กิน"),
        ("Hunde\u200bhütte", "Hundehütte"),
        ("\u0600 12", "\u0600 12"),  # a sign that is seen
    ],
)
def test_normalize_zero_width_space_by_script(line: str, text: str) -> None:
    assert known("subwords").encode(line).normalized.text == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        *(("der ﬂeiﬃge Hund", "der fleiffige Hund"), ("Ｄｅｒ Ｈｕｎｄ，２４", "Der Hund,24")),
        *(("𝐃𝐞𝐫 𝓗𝓾𝓷𝓭 𝕝ä𝕦𝕗𝕥", "Der Hund läuft"), ("𝐥𝐚\u0308𝐮𝐟𝐭", "läuft"), ("Ⓓⓔⓡ 🄷🅄🄽🄳", "Der HUND")),
        *(("Hund™ und ㎏", "HundTM und kg"), ("2½ Hunde, 10² m²", "2 1/2 Hunde, 10 2 m2")),
        ("E‑Hund – ‚Hund‘ «Hund» geht´s…", "E-Hund - 'Hund' \"Hund\" geht's..."),
        ("ｶﾞｰ Ж ¨", "ガー Ж ¨"),
    ],
)
@pytest.mark.parametrize("name", ["words", "lower-cased words", "subwords", "lower-cased subwords"])
def test_normalize_unknown_character_to_its_equivalent(name: str, line: str, text: str) -> None:
    wanted = text.lower() if name == "lower-cased subwords" else text
    assert known(name).encode(line).normalized == NormalizedText(wanted)


def test_normalize_keeps_a_known_compatible_character() -> None:
    codec = subwords([*TEXT, *["２½ ’ﬁ"] * 30], size=380)
    assert codec.encode("２½ ’ﬁ").normalized.text == "２½ ’ﬁ"


@pytest.mark.parametrize(
    ("language", "text", "small", "large"),
    [
        ("tr", "IŞIK YANDI. İSTANBUL", "ışık yandı. istanbul", "IŞIK YANDI. İSTANBUL"),
        ("az-Latn", "I\u0307KI", "ikı", "İKI"),
        ("lt", "J\u0301 Ì Į\u0303", "j\u0307\u0301 i\u0307\u0300 į\u0307\u0303", "J\u0301 Ì Į\u0303"),
        ("de", "IST ÄRGER", "ist ärger", "IST ÄRGER"),
        ("el", "ΟΔΟΣ", "οδος", "ΟΔΟΣ"),
    ],
)
def test_lower_and_upper_depend_on_the_language(language: str, text: str, small: str, large: str) -> None:
    assert unicodedata.normalize("NFC", lower(text, language)) == unicodedata.normalize("NFC", small)
    assert upper(lower(text, language), language) == unicodedata.normalize("NFC", large)


@pytest.mark.parametrize("make", [words, subwords])
def test_encode_turkish_capitals_as_small_letters(make: Callable[..., Codec]) -> None:
    codec = make(["ışık yandı istanbul", "ılık iyi"] * 40, language="tr", lowercase=True)
    assert codec.encode("IŞIK YANDI İSTANBUL").ids == codec.encode("ışık yandı istanbul").ids


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        *(("EIN HUND LÄUFT.", True), ("STRAßE UND HAUS", True), ("NATO", False), ("FRAU:", True)),
        *(("A B", False), ("NHKは放送 JR です", False), ("Der NATO GIPFEL", False), ("12 %", False)),
        *((">>tur<< EIN HUND", True), ("<2tr> EIN HUND", True), (">>TUR<< HUND", False), (">>tur<< Ein Hund", False)),
    ],
)
def test_is_all_caps_needs_several_cased_words(text: str, is_so: bool) -> None:
    assert is_all_caps(text) is is_so


@pytest.mark.parametrize("name", ["words", "subwords"])
def test_normalize_truecases_a_line_in_capitals(name: str) -> None:
    normalized = known(name).encode("DER KLEINE HUND LÄUFT.").normalized
    assert (normalized.text, normalized.all_caps) == ("Der kleine Hund läuft.", True)
    assert known(name).encode("DIE USA SIND GROSS").normalized.text.startswith("die USA sind")
    assert known(name).encode("<2tr> DER KLEINE HUND").normalized.text == "<2tr> Der kleine Hund"
    assert not known(f"lower-cased {name}").encode("DER KLEINE HUND").normalized.all_caps


def test_encode_unknown_word_keeps_its_token() -> None:
    codec = words(["a dog ."], language="en", lowercase=True)
    text = "A Dog  barks."
    assert codec.encode(f" {text}") == EncodedText(["a", "dog", "barks", "."], [4, 5, UNK, 6], NormalizedText(text))
    assert codec.encode(" ") == EncodedText([], [])
    assert words(["A"]).encode("A a").ids == [4, UNK]
    assert len(codec) == len(codec.tokens(range(len(codec)))) == 7


def test_codec_repr_is_short() -> None:
    assert len(repr(words([" ".join(map(str, range(10_000)))]))) < 250


def test_normalize_keeps_capitals_if_the_codec_has_no_lower_case() -> None:
    codec = subwords([line.upper().replace("ß", "SS") for line in TEXT])
    assert codec.encode("DER KLEINE HUND").normalized.text == "DER KLEINE HUND"


FAMILY, FLAG, KEYCAP, HEART = "👨\u200d👩\u200d👧", "🇩🇪", "1\ufe0f\u20e3", "❤\ufe0f"
SYMBOLS = ["😀", "👍🏽", FAMILY, FLAG, KEYCAP, HEART, "•", "→", "☎", "①", "🎉🎉", "🏴\U000e0067\U000e007f", "‼️"]


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize(
    ("line", "text", "place"),
    [
        *(("{} Ein Hund", "Ein Hund", 0), ("Ein Hund {}", "Ein Hund", 8), ("Ein {} Hund", "Ein Hund", 4)),
        *(("Ein Hund {}.", "Ein Hund.", 8), ("Ein{} Hund", "Ein Hund", 3), ("Ein {}Hund", "Ein Hund", 4)),
        *(("犬{}が", "犬が", 1), ("Ein{}Hund", "Ein Hund", 3), ("Ein{} ﬁ", "Ein fi", 3)),
    ],
)
def test_normalize_unknown_symbol_becomes_a_placeholder(symbol: str, line: str, text: str, place: int) -> None:
    normalized = known("subwords").encode(line.format(symbol)).normalized
    assert normalized.text == text
    assert [(each.text, each.offset) for each in normalized.placeholders] == [(symbol, place)]


def test_normalize_known_symbol_stays_in_the_text() -> None:
    codec = subwords([*TEXT, *["Hund 😀 → Park"] * 30])
    assert codec.encode("Hund 😀 → Park").normalized.placeholders == ()
    assert codec.encode("Hund 👍 Park").normalized.placeholders == (Placeholder(5, "👍", " ", " "),)


def test_normalize_signs_like_letters_are_not_symbols() -> None:
    assert known("words").encode("20 °C © 2020 €5 ™").normalized.placeholders == ()
    assert len(known("words").encode("a\U0001fae8b").normalized.placeholders) == 1
    assert len(known("words").encode("ⓐ Hund").normalized.placeholders) == 1
    assert known("words").encode("col·lecció").normalized.text == "col·lecció"
    assert known("words").encode("· Ein Hund").normalized == NormalizedText("Ein Hund", (Placeholder(0, "·", "", " "),))
