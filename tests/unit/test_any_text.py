"""Any text goes through tokenise → translate → detokenise: as many lines out as in, each of them one line of UTF-8."""

import io
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from transformer_cli import Translator
from transformer_cli.commands.translate import translation_as_json
from transformer_cli.config.schema import MAX_LINE_CHARS
from transformer_cli.text.lines import decoded_lines
from transformer_cli.text.words import Detokenizer, Tokenizer

pytestmark = pytest.mark.no_cover  # other tests run the same lines; counting them is slow

LINES = 20  # in each example
NASTY = [
    *"\0\t\v\f\r\x1b\x1c\x7f\x85\x9b\xa0\xad",
    *"\u0301\u0338\u064b\u0e31\u1160\u180e\u200b\u200d\u200f\u2028\u2029\u202e\u2060\u2800\u3000\u3164\ufe0f\ufeff\ufffd\uffff",
    *"▁▅\ue000_<>&'\"(.…-/:@#\\",
    *"äßſİıǅΣςﬁ犬บ안ﷺ",
    *"😀\U0001f1e9\U0001f3fd\U000e0001\U0010ffff",
    *("<unk>", "<sos>", "<eos>", "<pad>", "<0x0A>", "<0xFF>", "http://a.b/", "n't", "z.B.", "1,000", ":-)", "Hund"),
]
CHARACTERS = st.characters(exclude_characters="\n", exclude_categories=["Cs"])
TEXT = st.one_of(
    st.text(CHARACTERS, max_size=30),
    st.lists(st.sampled_from(NASTY), max_size=12).map("".join),
    st.lists(st.sampled_from([*NASTY, " "]), max_size=30).map(" ".join),
    st.builds(lambda unit, times: unit * times, st.sampled_from(NASTY), st.integers(0, 300)),
)
END = st.sampled_from(["\n", "\n", "\n", "\r\n"])
FEW = settings(
    max_examples=6, database=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)


def assert_line_by_line(translator: Translator, lines: Sequence[tuple[str, str]]) -> None:
    content = "".join(line + end for line, end in lines).encode()
    found = list(translator.stream(decoded_lines(io.BytesIO(content), "text"), chunk=7))
    assert len(found) == len(lines) == content.count(b"\n")
    printed = "".join(f"{each.text}\n" for each in found).encode()
    assert printed.count(b"\n") == len(lines)
    as_json = "".join(f"{translation_as_json(each)}\n" for each in found).encode()
    assert as_json.count(b"\n") == len(lines)
    for (line, _), each in zip(lines, found, strict=True):
        assert each.text.strip() == "" or line.strip()
        assert (each.sentences is not None) == translator.settings.split_sentences or each.was_too_long
        text, place = each.text, 0
        for sentence in each.sentences or ():  # each after the white space that stands before it, if there is any
            gap = each.source[place : sentence.start]
            assert text.startswith(gap + sentence.text) or (not gap and text.startswith(f" {sentence.text}"))
            text = text[len(gap or (" " * (not text.startswith(sentence.text)))) + len(sentence.text) :]
            place = sentence.start + len(sentence.source)
        assert each.sentences is None or text == each.source[place:]


def many(lines: int) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(TEXT, END), min_size=lines, max_size=lines)


@pytest.mark.parametrize("kind", ["translator", "by_subwords"])
@seed(0)
@FEW
@given(many(LINES), st.sampled_from(["blank", "copy", "truncate"]), st.booleans())
def test_stream_any_text_yields_one_translation_per_line(request, kind, lines, on_too_long, split):  # type: ignore[no-untyped-def]
    translator = request.getfixturevalue(kind)
    assert_line_by_line(translator.with_options(on_too_long=on_too_long, split_sentences=split), lines)


@cache
def tokenizer(language: str) -> Tokenizer:
    return Tokenizer(language, lowercase=True)


@seed(0)
@settings(FEW, max_examples=60)
@given(TEXT, st.sampled_from(["de", "en", "it", "zh", "xx"]))
def test_tokenizer_any_text_gives_words_and_flags(line: str, language: str) -> None:
    tokens = tokenizer(language).split(line[:MAX_LINE_CHARS])
    assert all(token and not token.isspace() for token in tokens.words)
    assert len(tokens.words) == len(tokens.no_space_after)
    assert bool(tokens.words) == bool(line.strip())
    joined = Detokenizer().detokenize(tokens.words)
    assert joined.split() == tokens.words
    joined.encode()
