"""Text to tokens as spaCy splits it, and back by a learned detokenizer."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import spacy

from tables import read_tables
from transformer_cli.errors import ConfigError
from transformer_cli.text import words as module
from transformer_cli.text.words import Detokenizer, Tokenizer, Tokens, learn_detokenizer, tokenizer_or_fallback

TABLES = read_tables(Path(__file__).with_name("words.txt"))
AWKWARD = (
    "Dr. Müller's t-shirt (z.B. in A.B.) isn't/can't:-) u.s.w.... 5,50€ https://a.example/b?c=d, e.mail@example.org!",
    "«L'homme» d'aujourd'hui qu'il—lui‚ 10°C 3.5kg 12:30am don't. gonna :') U.S. U.S . : ) '' `` a.m. p.m..",
    "Ð 日本語 👩‍👩‍👧 x²=y_z #tag @name C++ c'est-à-dire ... -- ---a IM im o'clock 'cause dell'arte İstanbul'da",
)


@cache
def tokenizer(language: str, *, lowercase: bool = True) -> Tokenizer:
    return Tokenizer(language, lowercase=lowercase)


def tokens(text: str) -> Tokens:
    """`a b~, c` stands for the tokens a b , c, of which b and the comma were written together."""
    words, no_space_after = [], []
    for piece in text.split(" "):
        together = piece.split("~")
        words += together
        no_space_after += [True] * (len(together) - 1) + [False]
    return Tokens(words, no_space_after)


def learned(*sentences: str) -> Detokenizer:
    return learn(map(tokens, sentences))


def learn(sentences: Iterable[Tokens]) -> Detokenizer:
    ids: dict[str, int] = {}
    neighbours: list[tuple[int, int, bool]] = []
    for split in sentences:
        words = [ids.setdefault(word, len(ids)) for word in split.words]
        neighbours += zip(words[:-1], words[1:], split.no_space_after[:-1], strict=True)
    left, right, no_space_after = zip(*neighbours, strict=True)
    return learn_detokenizer(list(ids), np.array(left, np.int32), np.array(right, np.int32), np.array(no_space_after))


@pytest.mark.parametrize(
    ("line", "expected"), [*TABLES["tokens"], ("en: \ta  man\u00a0and\u2028a\x85dog\r", "a man and a dog")]
)
def test_tokenizer_splits_as_spacy(line: str, expected: str) -> None:
    language, _, text = line.partition(": ")
    split = tokenizer(language).split(text)
    wanted = tokens(expected)
    assert split.words == wanted.words == tokenizer(language).tokens(text)
    assert split.no_space_after[:-1] == wanted.no_space_after[:-1]  # nothing follows the last


def test_tokenizer_lowers_case_after_splitting() -> None:
    assert tokenizer("en").tokens("IM im") == ["im", "i", "m"]  # English splits "im" and not "IM"
    assert tokenizer("en", lowercase=False).tokens("DON'T Don't") == ["DON'T", "Do", "n't"]


@pytest.mark.parametrize("language", ["de", "en", "ru"])
def test_tokenizer_without_attributes_splits_as_spacy(language: str) -> None:
    """Forms' attributes are not computed: the tokens are those of the whole tokeniser, at first sight and later."""
    whole, ours = spacy.blank(language).tokenizer, tokenizer(language, lowercase=False)
    for text in (*AWKWARD, *AWKWARD):
        doc = whole(text)
        assert ours.split(text) == Tokens([t.text for t in doc], [not t.whitespace_ for t in doc])


LONG = "(((a)))[😀]" * 50 + "Haus-Tür" * 40


@pytest.mark.parametrize("language", ["de", "en", "xx"])
@pytest.mark.parametrize("text", [LONG, f"Ein  Hund, {LONG} {LONG}!", "x" * 200, "x" * 201, "." * 401 + " a"])
def test_tokenizer_splits_and_restores_a_long_run(language: str, text: str) -> None:
    split = tokenizer(language, lowercase=False).split(text)
    spaced = [
        word + ("" if no_space_after else " ")
        for word, no_space_after in zip(split.words, split.no_space_after, strict=True)
    ]
    assert "".join(spaced).rstrip() == " ".join(text.split())
    assert max(map(len, split.words)) <= module.MAX_UNSPACED_CHARS


def test_tokenizer_not_rule_based_keeps_long_runs() -> None:
    whole = spacy.blank("zh").tokenizer("两只狗" * 100 + "a" * 250)
    assert tokenizer("zh").tokens("两只狗" * 100 + "a" * 250) == [token.text for token in whole]


@pytest.mark.parametrize("language", ["qq", "", "DE", "de.x", "../de", "d e", "punctuation", "lex_attrs"])
def test_tokenizer_unknown_language_raises_config_error(language: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tokenizer(language, lowercase=True)
    said = f"spaCy has no tokeniser for language {language!r}; give a code such as de, en, fr, cs, or xx (any)"
    assert str(caught.value) == said


def test_tokenizer_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(_: str) -> None:
        raise ImportError("it needs\n  some-package")

    monkeypatch.setattr("spacy.blank", lacks)
    with pytest.raises(ConfigError, match=r"^spaCy's tokeniser for 'ja' needs a further package: it needs some-pack"):
        Tokenizer("ja", lowercase=True)


SENTENCES = (
    "a man (~left~) and a t~-~shirt~.",
    "the dog (~right~) ca~n't jump~, I do~n't know~.",
    '"~hello~"~, he says~: "~yes~!~"',
    "three - no~, two - men",
    "five - six 's dog~'s",
)


@pytest.mark.parametrize(("words", "text"), [*TABLES["learned from all sentences"], ("", "")])
def test_detokenizer_learns_missing_spaces(words: str, text: str) -> None:
    assert learned(*SENTENCES).detokenize(words.split()) == text


@pytest.mark.parametrize(("sentences", "text"), TABLES["learned from these"])
def test_learn_detokenizer_pair_follows_its_majority(sentences: str, text: str) -> None:
    assert learned(*sentences.split(" ¦ ")).detokenize(["a", text[-1]]) == text


@pytest.mark.parametrize(("sentence", "attached"), TABLES["attached"])
def test_learn_detokenizer_attaches_only_non_letters(sentence: str, attached: str) -> None:
    detokenizer = learned(sentence)
    found = {"left": detokenizer.attach_left, "right": detokenizer.attach_right}
    assert "".join(f"to the {side} {word}" for side, words in found.items() for word in words) == attached


@pytest.mark.parametrize("sentences", ["两~只~狗", "ein hund läuft"])
def test_detokenizer_separates_unseen_pairs(sentences: str) -> None:
    assert learned(sentences).detokenize(["雪", "地"]) == "雪 地"


def test_detokenizer_restores_unseen_captions() -> None:
    captions = ["رجلان يمشيان في الشارع.", "رجل عجوز يجلس على مقعد، وينظر إلى البحيرة.", "هل تحب هذه الصورة؟"]
    split = tokenizer("ar")
    detokenizer = learn(map(split.split, captions))
    for new in ("امرأة ترتدي معطفا أزرق تركب دراجة، وخلفها كلب صغير.", "هل يرتدي الطباخ قبعة؟"):
        assert detokenizer.detokenize(split.tokens(new)) == new


def test_detokenizer_json_round_trip_in_stable_order() -> None:
    detokenizer = learned(*SENTENCES)
    value = json.loads(json.dumps(detokenizer.as_json()))
    assert Detokenizer.from_json(value) == detokenizer
    assert json.dumps(detokenizer.as_json()) == json.dumps(learned(*reversed(SENTENCES)).as_json())
    assert all(value.values())
    assert all(value[key] == sorted(value[key]) for key in value)


def test_tokenizer_or_fallback_unknown_language_warns(caplog: pytest.LogCaptureFixture) -> None:
    for language in ("de", "deu", "de_AT"):
        assert tokenizer_or_fallback(language, lowercase=True).language == "de"
    assert caplog.text == ""
    assert tokenizer_or_fallback("qq", lowercase=True).tokens("Da, dort.") == ["da", ",", "dort", "."]
    assert "no tokeniser for language 'qq'; give a code such as de, en, fr, cs, or xx (any); the rules" in caplog.text
