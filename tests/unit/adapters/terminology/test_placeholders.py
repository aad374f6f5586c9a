"""Placeholders and addresses are found, and copied into translations unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_cli import Translator
from transformer_cli.adapters.terminology.placeholders import PlaceholderFinder
from transformer_cli.adapters.terminology.template_code import code_ends
from transformer_cli.errors import ConfigError
from transformer_cli.scoring.evaluate import ParallelText, evaluate_text, score_pairs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name}, {0:.2f}, {{ x }}, {} and ${x}", ["{name}", "{0:.2f}", "{{ x }}", "{}", "${x}"]),
        ("%s of %5.2f, %(n)s and %1$s; 50% der, 50%d", ["%s", "%5.2f", "%(n)s", "%1$s"]),
        ("%sam %s%sab a%sb; 20%ig, 20%sig, %dc", ["%s", "%s", "%s", "%s"]),
        ("%c%c: %sB of %*s, %'d %.*fMB %dth 5 %der", ["%c%c", "%sB", "%*s", "%'d", "%.*fMB"]),
        ("lib%s.so, %s_BLOCK_SIZE, 5%d, a%C3%A9", ["%s", "%s_BLOCK_SIZE"]),
        ("at https://x.org/a_(b)?c=1. (www.x.de), a+c@d.org!", ["https://x.org/a_(b)?c=1", "(www.x.de)", "a+c@d.org"]),
        ("„{a}“, '{b}'{c}' \"%s\" [{d}) f({e})", ["„{a}“", "'{b}'", "{c}", '"%s"', "{d}", "({e})"]),
        ("A <a@b.de>, <http://c.d>. „http://c.d“, @{e}", ["<a@b.de>", "<http://c.d>", "„http://c.d“", "@{e}"]),
        ("« www.a.de » [<{b}>] 看「www.c.cn/狗」。`%s` (d@e.de, {f})",
         ["« www.a.de »", "[<{b}>]", "「www.c.cn/狗」", "`%s`", "d@e.de", "{f}"]),
        ("« {a} » »b« {c} »d« {{ `}}` }}", ["« {a} »", "{c}", "{{ `}}` }}"]),
        ("%1, %L2 %n 50%% %name%; 20%, 100%ige, %1.5, 5%-6%", ["%1", "%L2", "%n", "%%", "%name%"]),
        ("  - [ ] 12) a - b * c", ["- [ ] 12)"]),
        ("(1) [2] iv) aa) 1.2.) (b) b) A", ["(1) [2] iv) aa) 1.2.) (b) b)"]),
        ("§ 5a (IV)", ["§ 5a (IV)"]),
        ("(im) Haus ist) § 5, a) [Hund]", []),
        ("%{n} #{n} {{{n}}} mailto:a@b.de", ["%{n}", "#{n}", "{{{n}}}", "mailto:a@b.de"]),
        ("{ $n }, %{ n }, $t(a.b, {c})", ["{ $n }", "%{ n }", "$t(a.b, {c})"]),
        ("%2$,d, %1$,.2f, %1$lld", ["%2$,d", "%1$,.2f", "%1$lld"]),
        ("\x1b[1;31mrot\x1b[0m \x9b0m\x1b]0;a b\aHund", ["\x1b[1;31m", "\x1b[0m", "\x9b0m", "\x1b]0;a b\a"]),
        (r"\033[31mrot\e[0m \u001b[K \x1b]8;;a\x1b\Hund C:\e",
         [r"\033[31m", r"\e[0m", r"\u001b[K", r"\x1b]8;;a\x1b\ "[:-1]]),
        ("bei H&amp;M, M&uuml;ll &amp; {1>a b<1} b&#1;", ["H&amp;M", "&amp;", "{1>", "<1}", "&#1;"]),
        ("a &amp; b&nbsp;c &#8222;d <%= e %> {% f %}", ["&amp;", "&nbsp;", "&#8222;", "<%= e %>", "{% f %}"]),
        ("{n, plural, =0 {a} other {# {b}}} c {d, date, short} { $n -> [one] e } { NUMBER($n) }",
         ["{n, plural, =0 {a} other {# {b}}}", "{d, date, short}", "{ $n -> [one] e }", "{ NUMBER($n) }"]),
        ("{{n, plural, =0 {a b}} und =0 {a b} other {# c}", ["{n, plural, =0 {a b}}", "=0 {a b}", "other {# c}"]),
        ("{% if (" + "a and " * 30 + "b) %}A", ["{% if (" + "a and " * 30 + "b) %}"]),
        ("{% with {'%}': u} %} {# c d #} <?= $x ?>", ["{% with {'%}': u} %}", "{# c d #}", "<?= $x ?>"]),
        ("<% if (a > b) { %>A B<% } %> {{ DATE(x) }}", ["<% if (a > b) { %>", "<% } %>", "{{ DATE(x) }}"]),
        ("{{ x|f: '}}' }}, ${a ? {b: 1} : c} #{d + 1}", ["{{ x|f: '}}' }}", "${a ? {b: 1} : c}", "#{d + 1}"]),
        ("{{{e f}}} „{{ {a: {}} }}“ http://x.y/{{ z }}/t", ["{{{e f}}}", "„{{ {a: {}} }}“", "http://x.y/{{ z }}/t"]),
        ("a {{ b {{ c's }} d's {{ e \"f }} g {% h {# i <% ${ j", ["{{ c's }}", '{{ e "f }}']),
        ("Herr ____ (_____), geb. am___in ___. Ort: ....... __init__ ja..... .....so",
         ["____", "(_____)", "___", "___", "......."]),
        ("A :dog_face: (:+1:) :wave::skin-tone-2:! Um 12:30:45 :ref:`b` std::c::d :E f:",
         [":dog_face:", "(:+1:)", ":wave::skin-tone-2:"]),
        ("{a, b} @you www. http:// 100 % 3:1 Uhr:morgens C:\\n R&B; AT&T; F&uuml;r &x1; (%) one {a, b}", []),
    ],
)  # fmt: skip
def test_placeholder_finder_finds_placeholders_and_addresses(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in PlaceholderFinder().spans(text)] == expected
    assert PlaceholderFinder(builtin=False).spans(text) == []


def test_code_ends_finds_inner_code_and_stops_at_boundaries() -> None:
    text = "{{ a {{ b }} }} {{ <p> {{ '<i>' }} }}"
    assert [text[start:end] for start, end in sorted(code_ends(text, "<p>").items())] == [
        "{{ a {{ b }} }}", "{{ b }}", "{{ '<i>' }}"
    ]  # fmt: skip


def test_placeholder_finder_pattern_comes_first() -> None:
    assert PlaceholderFinder(pattern=r"\s*#\w+|{a").spans("{a} #b") == [(0, 2), (4, 6)]
    assert PlaceholderFinder(pattern="[[a]--b").spans("a") == []  # of which Python warns
    with pytest.raises(ConfigError, match="is not a regular expression"):
        PlaceholderFinder(pattern="(")


SPANS = ["{a}", "{ $a }", "&amp;", "{n, plural, other {# a}}", "{0}", "{{ b }}", "%s", "%(n)s", "%1$s", "${c}"]
SPANS += ["https://x.org/d(e)", "#d. Ein", "e.f@g.org", "\ufdd0", "____"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([*SPANS, "Hund", "Ein", "läuft", "EIN HUND", ",", ".", "(", "😀", "\n"]), max_size=14))
@pytest.mark.parametrize("split", [False, True])
def test_translate_inserts_each_placeholder_exactly_once(
    translator: Translator, by_subwords: Translator, split: bool, words: list[str]
) -> None:
    lines = " ".join(words).split("\n")
    for each in (translator, by_subwords):
        protecting = each.with_options(split_sentences=split, protect_pattern=r"#\w\. \w+", on_too_long="truncate")
        for line, found in zip(lines, protecting.translate_detailed(lines), strict=True):
            spans = [line[start:end] for start, end in protecting.pipeline.protected_spans(line)]
            assert sorted(found.source[start:end] for (start, end), _ in found.placeholders) == sorted(spans)
            assert sorted(found.text[start:end] for _, (start, end) in found.placeholders) == sorted(spans)
            assert sum(map(found.text.count, set(spans))) >= len(spans)
        page = "<p>" + "<p>".join(f"{line} <b>{{z}}</b> Hund" for line in lines)
        assert protecting.translate_html(page).count("<b>{z}</b>") == len(lines)


def test_score_and_evaluate_encode_placeholders_as_translate(translator: Translator) -> None:
    source = "Der alte Hund {name} singt im Park, siehe www.example.org."
    (found,) = translator.translate_detailed([source])
    assert "{name}" in found.text
    own, alone = score_pairs(translator, [(source, found.text), ("{name}", "%s")])
    assert own.log_prob == pytest.approx(found.log_prob, abs=1e-4)
    assert (own.tokens, alone.tokens) == (len(found.tokens) + 1, 0)
    judged = evaluate_text(translator, ParallelText("mine", [source, "{name}"], [[found.text, "{name}"]])).result
    assert judged.loss == pytest.approx(-own.log_prob / own.tokens, abs=1e-4)
    assert judged.sentences == 2
    assert judged.bleu == pytest.approx(100)
