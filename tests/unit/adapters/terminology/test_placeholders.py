"""Placeholders and addresses are found, and copied into translations unchanged."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables import read_tables
from transformer_cli import Translator
from transformer_cli.adapters.terminology.placeholders import PlaceholderFinder
from transformer_cli.adapters.terminology.template_code import code_ends
from transformer_cli.errors import ConfigError
from transformer_cli.scoring.evaluate import ParallelText, evaluate_text, score_pairs

TABLES = read_tables(Path(__file__).with_name("placeholders.txt"))
LEFT = ("  - [ ] 12) a - b * c", "- [ ] 12)")
CODES = ("\x1b[1;31mrot\x1b[0m \x9b0m\x1b]0;a b\aHund", "\x1b[1;31m ¦ \x1b[0m ¦ \x9b0m ¦ \x1b]0;a b\a")


@pytest.mark.parametrize(("text", "expected"), [*TABLES["placeholders"], LEFT, CODES])
def test_placeholder_finder_finds_placeholders_and_addresses(text: str, expected: str) -> None:
    assert " ¦ ".join(text[start:end] for start, end in PlaceholderFinder().spans(text)) == expected
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
