"""Glossaries: what is found in a text, what stands for it, and which entries are refused."""

import json
import re
from pathlib import Path

import pytest

from tables import read_sections, read_tables
from transformer_cli import Translator
from transformer_cli.adapters.terminology import glossary as module
from transformer_cli.adapters.terminology.glossary import Glossary, Term, replace_linked_words, term_spans
from transformer_cli.api import read_glossary
from transformer_cli.config.schema import DataConfig
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span

TABLES = read_tables(Path(__file__).with_name("terms.txt"))


@pytest.mark.parametrize(("text", "expected"), TABLES["found"])
def test_glossary_finds_whole_words_and_inflected_forms(text: str, expected: str) -> None:
    entries = {"Hund*": "dog", "New York": "", "New York City": "NYC", "roter": "red", "C++": "", "北京": "Peking"}
    assert " ¦ ".join(text[slice(*each.span)] for each in Glossary(entries).find(text)) == expected


@pytest.mark.parametrize(("entry_and_text", "found"), TABLES["spellings"])
def test_glossary_finds_words_as_capitals_and_swiss_text_spell_them(entry_and_text: str, found: str) -> None:
    entry, _, text = entry_and_text.partition(": ")
    assert " ¦ ".join(text[slice(*each.span)] for each in Glossary({entry: "x"}).find(text)) == found
    in_capitals = Glossary({entry: "x"}).find(f"einer {entry.removesuffix('*')}".upper().lower(), any_case=True)
    assert len(in_capitals) == 1


def test_glossary_with_base_prefers_long_then_own_entries() -> None:
    base = Glossary({"Hund": "dog", "alter Hund": "old dog", "Katze": "cat"})
    found = Glossary({"Hund": "hound", "Katze frisst": "cat eats"}, base).find("Hund, alter Hund, Katze frisst Katze")
    assert [each.translations for each in found] == [("hound",), ("old dog",), ("cat eats",), ("cat",)]


def test_glossary_translations_are_alternatives_or_the_source() -> None:
    found = Glossary({"Hund*": "dog|hound", "Paris*": ""}).find("Hunde, Parises")
    assert [each.translations for each in found] == [("dog", "hound"), ("Parises",)]


EXPORTED = read_sections(Path(__file__).with_name("glossaries.txt"))
SKIPPED = "forbidden or deprecated terms (2), entries without one of the languages"
OTHER_FORMAT = ", which is not read as a glossary; export it as TBX or TSV"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *TABLES["exported"],
        ("# nothing yet\n\n", "{}"),
        ("# Tiere\n#\nEnglish\tGerman\ndog\tHund\n#x\n", '{"Hund": "dog"}'),
        (EXPORTED["TBX"], f'{{"Hund*": "hound|forbidden", "Köter": "hound|forbidden"}} ¦ {SKIPPED} (1)'),
        (EXPORTED["memoQ"], f'{{"Hunde": "hound", "Köter": "hound", "Tiger": "tiger"}} ¦ {SKIPPED} (2)'),
    ],
)
def test_read_glossary_of_exported_files_reports_skipped_rows(
    text: str, expected: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "terms.csv"
    path.write_text(text, encoding="utf-8")
    glossary, _, skipped = expected.partition(" ¦ ")
    assert read_glossary(path, DataConfig()) == json.loads(glossary)
    assert caplog.messages == [f"{path}: skipped: {skipped}"] * bool(skipped)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((f"Katze\tcat\n{line}\n", "") for line in ("Hund dog", "\tdog", "Hund\tdog|", "*\tdog", f"{'a ' * 51}\tb")),
        ("French\tEnglish\nchat\tcat\n", "line 1 looks like a heading (French, English), but lacks de or en; "),
        ("<martif><p></martif>", ""),
        ("<tmx version='1.4'>", f"a translation memory (TMX){OTHER_FORMAT}"),
        ("<?xml version='1.0' encoding='UTF-16'?><mtf><conceptGrp/></mtf>", f"XML{OTHER_FORMAT}"),
        ("<mtf><conceptGrp/></mtf>", f"XML{OTHER_FORMAT}"),
    ],
)
def test_read_glossary_wrong_file_raises_data_error(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-16" if "UTF-16" in text else "utf-8")
    with pytest.raises(DataError, match=f"^{path}: {re.escape(said)}"):
        read_glossary(path, DataConfig())


def test_read_glossary_many_translations_take_linear_time(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("".join(f"Hund\tdog{n}\n" for n in range(30_000)) * 2, encoding="utf-8")
    assert read_glossary(table, DataConfig())["Hund"].count("|") == 29_999


def test_read_glossary_warns_of_an_ambiguous_sign(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("Hu*nd\tdog\nC*\tC\n" + "".join(f"a*{n}\tb\n" for n in range(2000)), encoding="utf-8")
    assert len(read_glossary(path, DataConfig())) == 2002
    shown = "line 1: 'Hu*nd', line 3: 'a*0', line 4: 'a*1', …"
    assert caplog.messages == [f"{path}: a * that is not at the end is taken literally in 2,001 entries ({shown})"]


@pytest.mark.parametrize(
    ("text", "term", "linked", "expected"),
    [
        ("a dog here", Term((4, 8), ("Rex",)), [(0, 1), (2, 5)], ("a Rex here", 0, False)),
        ("a dog here", Term((4, 8), ("Rex",)), [], ("a dog here", 1, False)),
        ("a dog out of it", Term((4, 8), ("Rex",)), [(0, 1), (2, 5), (10, 12)], ("a Rex out of it", 0, True)),
        ("a big dog", Term((4, 8), ("Rex",)), [(0, 1), (6, 9)], ("a big Rex", 0, True)),
        ("in New York.", Term((0, 8), ("NY",), 2), [(3, 6), (7, 12)], ("in NY.", 0, False)),
        ("of Ltd.", Term((4, 8), ("Inc.",)), [(3, 6)], ("of Inc.", 0, False)),  # and no second mark
    ],
)
def test_replace_linked_words_takes_the_last_words_of_the_longest_run(
    text: str, term: Term, linked: list[Span], expected: tuple[str, int, bool]
) -> None:
    found, missing, is_spread = replace_linked_words(text, [term], [(term.span, each) for each in linked])
    assert (found, len(missing), is_spread) == expected


def test_term_spans_are_whole_words() -> None:
    assert term_spans([Term((0, 1), ("dog",)), Term((2, 3), ("dog",))], "hotdog Dog.") == [(7, 10), None]


@pytest.mark.parametrize(("text", "expected"), TABLES["sentence starts"])
def test_capitalise_sentence_starts_only_there(text: str, expected: str) -> None:
    assert module.capitalise_sentence_starts(text, [*[Term((0, 1), ("dog",))] * 3, Term((0, 1), ("iPod",))]) == expected


def test_term_linked_to_the_prefix_is_left_out(translator: Translator) -> None:
    with_term = translator.with_options(glossary={"Hund": "Zorblaxonit"})
    (plain,) = translator.translate_detailed(["Ein Hund läuft."])
    (one,) = with_term.with_options(prefix=plain.text.split()[0]).translate_detailed([plain.source])
    assert one.text.count("Zorblaxonit") == 1
    (other,) = with_term.with_options(prefix=plain.text).translate_detailed([plain.source])
    assert (other.text.startswith(plain.text), other.terms) == (True, [((4, 8), None)])


@pytest.mark.parametrize(
    ("glossary", "text", "is_searched_for"),
    [
        ({"Ein": "small"}, "the small dog runs at the beach.", True),
        ({"Hund": "cat"}, "the young cat runs at the beach.", False),  # else "the young dog runs cat runs at the …"
        ({"Hund": ""}, "the young Hund runs at the beach.", False),
        ({"Hund": "dog", "läuft": "sleeps|runs"}, "the young dog runs at the beach.", False),  # which has them
    ],
)
def test_term_is_constrained_if_likely_else_replaces_words(
    translator: Translator, glossary: dict[str, str], text: str, is_searched_for: bool
) -> None:
    source = "Ein Hund läuft am Strand."
    both = (translator, translator.with_options(glossary=glossary))
    (plain,), (found,) = (each.translate_detailed([source]) for each in both)
    assert (found.text, found.ids != plain.ids) == (text, is_searched_for)


def test_term_at_sentence_start_has_capital_and_span(translator: Translator) -> None:
    with_term = translator.with_options(glossary={"Hund": "never", "am Park": "x y"})
    lines = ["Hund läuft.", "ein Hund läuft.", "Ein hund und ein Hu\u00adnd am\u00a0Park."]
    upper, lower, other = with_term.translate_detailed(lines)
    assert ("Never" in upper.text, "Never" in lower.text) == (upper.text.startswith("Never"), False)
    assert [other.source[slice(*source)] for source, _ in other.terms] == ["hund", "Hu\u00adnd", "am\u00a0Park"]


@pytest.mark.parametrize("sample", [False, True])
def test_terms_are_written_by_words_subwords_and_samples(
    translator: Translator, by_subwords: Translator, sample: bool
) -> None:
    glossary = {f"w{n} x": "never" for n in range(10_000)} | {"Hund*": "Zorblax", "Strand": "Kwööl Bay", "ein": "a|one"}
    lines = ["Ein Hund läuft am Strand.", "HUNDE UND {x} AM STRAND", "", "Hund Hund", "1 {Hund}"]
    for each in (translator, by_subwords):
        found = each.with_options(glossary=glossary, sample=sample).translate_detailed(lines)
        for line, one in zip(lines, found, strict=True):
            assert all(place for _, place in one.terms)
            assert one.text.lower().count("zorblax") == (line.lower().count("hund") if "1" not in line else 0)
        assert [lines[0][slice(*span)] for span, _ in found[0].terms] == ["Ein", "Hund", "Strand"]
        assert [each.text for each in found[2:3]] == [""]
        plain = each.with_options(glossary={"Elefant": "elephant"}, sample=sample).translate(lines)
        assert plain == each.with_options(sample=sample).translate(lines)


@pytest.mark.parametrize(("term_and_text", "written"), TABLES["case"])
def test_respell_terms_restores_the_case_of_the_glossary(term_and_text: str, written: str) -> None:
    translation, _, text = term_and_text.partition(": ")
    terms = [Term((0, 1), (translation,), 1)]
    assert module.respell_terms(text, terms, term_spans(terms, text)) == written
