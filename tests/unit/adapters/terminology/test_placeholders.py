"""Held spans come back once, beside their words, at word edges, with the white space of the new place."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_cli import Translator
from transformer_cli.adapters.terminology.placeholders import Holder, Link, places_in, put_back
from transformer_cli.errors import ConfigError
from transformer_cli.text.reading import Held


def linked(source: str, text: str, *pairs: tuple[int, int]) -> list[Link]:
    """Links of words by their numbers, counted from 0."""
    sources, targets = ([match.span() for match in re.finditer(r"\w+|[^\w ]", each)] for each in (source, text))
    return [(sources[one], targets[other]) for one, other in pairs]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (Held(4, "X", " ", " "), "a X dog red."),  # before Hund
        (Held(8, "X", " ", ""), "a dog red X."),  # behind rot
        (Held(3, "X", "", " "), "aX dog red."),  # leans on ein
        (Held(0, "X", "", " "), "X a dog red."),
        (Held(16, "X", " ", ""), "a dog red. X"),
        (Held(3, "&nbsp;", "", ""), "a&nbsp;dog red."),  # instead of a space
    ],
)
def test_put_back_places_a_span_beside_the_words_that_it_stood_beside(held: Held, expected: str) -> None:
    source, text = "ein Hund rot ist", "a dog red."
    held = Held({8: 12}.get(held.place, held.place), held.text, held.before, held.after)
    assert put_back(text, source, [held], linked(source, text, (0, 0), (1, 1), (2, 2)))[0] == expected


def test_put_back_never_within_a_word() -> None:
    links: list[Link] = [((0, 4), (0, 2)), ((5, 9), (2, 5))]  # pieces of one word of the translation
    assert put_back("tools here", "Werk zeug da", [Held(5, "X", " ", " ")], links)[0] == "X tools here"


def test_put_back_never_behind_the_last_mark_and_one_mark_stands_for_both() -> None:
    links: list[Link] = [((0, 3), (5, 6))]  # the article belongs to the full stop
    assert put_back("a dog.", "ein Hund.", [Held(4, "X", " ", " ")], links)[0] == "a dog X."
    assert put_back("a dog.", "Hund ein.", [Held(5, "Inc.", " ", " ")], [])[0] == "a dog Inc."


@pytest.mark.parametrize(
    ("line", "read", "expected"),
    [
        ("  Hu\u00adnd am\u00a0Strand", "Hund am Strand", ["Hu\u00adnd", "am", "Strand"]),
        ("Cafe\u0301 {Bar} ２４ ﬂiegt…", "Café 24 fliegt…", ["Cafe\u0301", "２４", "ﬂiegt…"]),
        ("EIN 😀 HUND", "ein Hund", ["EIN", "HUND"]),
        ("½ Hund{x} da", "1/2 Hund da", ["½", "Hund", "da"]),
        ("", "Hund", [""]),
    ],
)
def test_places_in_a_line_are_those_of_what_was_read_of_it(line: str, read: str, expected: list[str]) -> None:
    spans = [match.span() for match in re.finditer(r"\S+", read)]
    found = places_in(line, read, spans, Holder().spans(line))
    assert [line[start:end] for start, end in found] == expected


@given(
    st.lists(st.sampled_from(["Hund", "ein", ",", ".", "(", ")", "läuft", "犬"]), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["", " "]), st.sampled_from(["", " "])), max_size=5),
    st.data(),
)
def test_put_back_gives_every_span_back_once_and_loses_no_text(
    words: list[str], spans: list[tuple[int, str, str]], data: st.DataObject
) -> None:
    source, text = " ".join(words), " ".join(reversed(words))
    marks = "①②③④⑤"
    held = [Held(min(place, len(source)), marks[n], one, other) for n, (place, one, other) in enumerate(spans)]
    held.sort(key=lambda each: each.place)
    number = st.integers(0, len(words) - 1)
    chosen = data.draw(st.lists(st.tuples(number, number), max_size=8))
    spots = [[match.span() for match in re.finditer(r"\S+", each)] for each in (source, text)]
    found, _ = put_back(text, source, held, [(spots[0][one], spots[1][other]) for one, other in chosen])
    assert sorted(char for char in found if char in marks) == sorted(each.text for each in held)
    assert "".join(char for char in found if char not in marks and char != " ") == text.replace(" ", "")
    assert not re.search(r"  |[a-zä][①-⑤][a-zä]", found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name}, {0:.2f}, {{ x }}, {} and ${x}", ["{name}", "{0:.2f}", "{{ x }}", "{}", "${x}"]),
        ("%s of %5.2f, %(n)s and %1$s; 50% der, 50%d, %ss", ["%s", "%5.2f", "%(n)s", "%1$s"]),
        ("%c%c: %sB of %*s, %'d %.*fMB %dth 5 %der", ["%c%c", "%sB", "%*s", "%'d", "%.*fMB"]),
        ("lib%s.so, %s_BLOCK_SIZE, 5%d, a%C3%A9", ["%s", "%s_BLOCK_SIZE"]),
        ("at https://x.org/a_(b)?c=1. (www.x.de), a+c@d.org!", ["https://x.org/a_(b)?c=1", "(www.x.de)", "a+c@d.org"]),
        ("„{a}“, '{b}'{c}' \"%s\" [{d}) f({e})", ["„{a}“", "'{b}'", "{c}", '"%s"', "{d}", "({e})"]),
        ("%1, %L2 %n 50%% %name%; 20%, 100%ige, %1.5, 5%-6%", ["%1", "%L2", "%n", "%%", "%name%"]),
        ("  - [ ] 12) a - b * c", ["- [ ] 12)"]),
        ("%{n} #{n} {{{n}}} mailto:a@b.de", ["%{n}", "#{n}", "{{{n}}}", "mailto:a@b.de"]),
        ("{ $n }, %{ n }, $t(a.b, {c})", ["{ $n }", "%{ n }", "$t(a.b, {c})"]),
        ("%2$,d, %1$,.2f, %1$lld", ["%2$,d", "%1$,.2f", "%1$lld"]),
        ("bei H&amp;M, M&uuml;ll &amp; {1>a b<1} b&#1;", ["H&amp;M", "&amp;", "{1>", "<1}", "&#1;"]),
        ("a &amp; b&nbsp;c &#8222;d <%= e %> {% f %}", ["&amp;", "&nbsp;", "&#8222;", "<%= e %>", "{% f %}"]),
        (
            "{n, plural, =0 {a} other {# {b}}} c {d, date, short} { $n -> [one] e } { NUMBER($n) }",
            ["{n, plural, =0 {a} other {# {b}}}", "{d, date, short}", "{ $n -> [one] e }", "{ NUMBER($n) }"],
        ),
        ("{{n, plural, =0 {a b}} und =0 {a b} other {# c}", ["{n, plural, =0 {a b}}", "=0 {a b}", "other {# c}"]),
        ("{a, b} @you www. http:// 100 % 3:1 Uhr:morgens C:\\n R&B; AT&T; F&uuml;r &x1; (%) one {a, b}", []),
    ],
)
def test_holder_finds_placeholders_and_addresses_of_a_text(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in Holder().spans(text)] == expected
    assert Holder(placeholders=False).spans(text) == []


def test_holder_pattern_goes_first_and_one_that_is_none_is_an_error() -> None:
    assert Holder(pattern=r"\s*#\w+|{a").spans("{a} #b") == [(0, 2), (4, 6)]
    assert Holder(pattern="[[a]--b").spans("a") == []  # of which Python warns
    with pytest.raises(ConfigError, match="is not a regular expression"):
        Holder(pattern="(")


SPANS = ["{a}", "{ $a }", "&amp;", "{n, plural, other {# a}}", "{0}", "{{ b }}", "%s", "%(n)s", "%1$s", "${c}"]
SPANS += ["https://x.org/d(e)", "#d. Ein", "e.f@g.org", "\ufdd0"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([*SPANS, "Hund", "Ein", "läuft", "EIN HUND", ",", ".", "(", "😀", "\n"]), max_size=14))
@pytest.mark.parametrize("split", [False, True])
def test_translations_held_spans_come_back_exactly_once(
    translator: Translator, by_subwords: Translator, split: bool, words: list[str]
) -> None:
    lines = " ".join(words).split("\n")
    for each in (translator, by_subwords):
        holding = each.with_options(split_sentences=split, hold_pattern=r"#\w\. \w+", on_error="truncate")
        for line, found in zip(lines, holding.translations(lines), strict=True):
            spans = [line[start:end] for start, end in holding.wording.holder.spans(line)]
            assert sorted(found.source[start:end] for (start, end), _ in found.held) == sorted(spans)
            assert sorted(found.text[start:end] for _, (start, end) in found.held) == sorted(spans)
            assert sum(map(found.text.count, set(spans))) >= len(spans)
        page = "<p>" + "<p>".join(f"{line} <b>{{z}}</b> Hund" for line in lines)
        assert holding.translate_html(page).count("<b>{z}</b>") == len(lines)
