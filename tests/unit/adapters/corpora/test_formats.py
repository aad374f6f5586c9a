"""Every format of parallel text: its pairs, their locations, and what is refused."""

import bz2
import gzip
import json
import lzma
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from tables import read_sections, read_tables
from transformer_cli.adapters.corpora import formats
from transformer_cli.adapters.corpora.formats import pair_files, read_texts
from transformer_cli.config.schema import DataConfig, FilePair
from transformer_cli.errors import DataError
from transformer_cli.text.lines import Location

PAIRS = [("Ein Hund.", "A dog."), ("Zwei  Männer 😀", "Two men, one dog")]
TSV = "".join(f"{de}\t{en}\t0.5\n" for de, en in PAIRS)
CSV = 'id;de;en\n1;Ein Hund.;"A dog."\n2;"Zwei  Männer 😀";Two men, one dog\n'
NESTED = "".join(json.dumps({"id": 1, "translation": {"en": en, "de": de}}) + "\n" for de, en in PAIRS)
FLAT = "".join(json.dumps({"source": de, "target": en}, ensure_ascii=False) + "\n\n" for de, en in PAIRS)
SAMPLES = read_sections(Path(__file__).with_name("samples.txt"))
TMX, XLIFF, XLIFF_2, PO, HEADER = (SAMPLES[name] for name in ("TMX", "XLIFF", "XLIFF 2", "PO", "PO header"))
UNIT, SEGMENTS = (SAMPLES[f"{name} of XLIFF"] for name in ("unit", "segments"))
TABLES = read_tables(
    Path(__file__).with_name("formats.txt"), HEADER=HEADER.replace("LANG", "en"), HEADER_FR=HEADER.replace("LANG", "fr")
)
Read = Callable[..., list[tuple[str, str, str]]]


def settings(**more: Any) -> DataConfig:
    given = {"corpus": "files", "source": "de", "target": "en", "files": {"train": "x", "valid": "y"}}
    return DataConfig.model_validate({**given, **more})


def places(path: Path, left_out: list[tuple[str, str]] | None = None, **more: Any) -> Iterator[tuple[str, str, str]]:
    def leave_out(rule: str, source: str, target: str, place: Location) -> None:
        if left_out is not None:
            left_out.append((rule, str(place)))

    for source, target, place in read_texts([path], settings(**more), leave_out):
        yield source, target, str(place).removeprefix(f"{path}: ")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """read(content, name, **settings): the (source, target, location) triples of a file with this content."""

    def of_content(content: str | bytes, name: str = "text", **more: Any) -> list[tuple[str, str, str]]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(places(path, **more))

    return of_content


PACKS = (bytes, gzip.compress, bz2.compress, lzma.compress)
CONTENTS = (
    *(TSV, CSV, NESTED, FLAT, TMX.replace("ENC", "UTF-8"), XLIFF.replace("UNITS", SEGMENTS), PO),
    XLIFF_2.replace("SEGMENTS", SAMPLES["segments of XLIFF 2"]),
)
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
INSERTED = [b"&l9;", f"<!DOCTYPE tmx [{LAUGHS}]>".encode(), b"<hi>" * 5_000, b"<!--", b"</tu>", b"a" * 500_000]
INSERTED += [b'"', b'"\n' * 999, b"\t" * 100_000, b"[" * 100_000, b"\\ud83d", b"\r", b"\0", b"\xff\xfe", "😀".encode()]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("content", CONTENTS)
def test_read_texts_any_format_and_compression_gives_the_pairs(read: Read, content: str, pack: Any) -> None:
    assert [pair for *pair, _ in read(pack(content.encode()))] == [list(pair) for pair in PAIRS]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("content", [TSV, CSV, NESTED, FLAT])
def test_read_texts_utf_16_of_any_format_gives_the_pairs(read: Read, content: str, encoding: str) -> None:
    text = content.replace("\n", "\r\n").encode(encoding)
    assert [pair for *pair, _ in read(text)] == [list(pair) for pair in PAIRS]
    said = r"incomplete or damaged UTF-16 text \(truncated data\); copy it again, or .* \(\d pairs? "
    with pytest.raises(DataError, match=said):
        read(text[:-1])


@pytest.mark.parametrize(("table", "pairs"), TABLES["quotes"])
def test_read_texts_table_keeps_quotes_and_joins_lines_of_a_cell(read: Read, table: str, pairs: str) -> None:
    name, _, content = table.partition(": ")
    found = read(content.encode("utf-16" if name == "excel" else "utf-8"), name)
    assert " ¦ ".join(f"{place}: {source or '∅'} → {target or '∅'}" for source, target, place in found) == pairs


@pytest.mark.parametrize(("row", "column"), TABLES["columns"])
def test_read_texts_columns_without_text_are_refused(read: Read, row: str, column: str) -> None:
    rows = "".join(f"{row}\n".replace("{n}", str(n)) for n in range(9))
    if not column:
        assert len(read(rows)) == 9
        return
    with pytest.raises(DataError, match=f"are read, but column {column} holds addresses, .*; name two columns of text"):
        read(rows)


@pytest.mark.parametrize(("languages", "taken"), TABLES["regions and scripts"])
def test_read_texts_other_region_or_script_is_left_out(read: Read, languages: str, taken: str) -> None:
    target, _, codes = languages.partition(" of ")
    content = json.dumps({"de": "a", **{code: code for code in codes.split()}}) + "\n"
    if taken:
        assert read(content, target=target) == [("a", taken, "line 1")]
    else:
        with pytest.raises(DataError, match=f"no keys de and {target}, or source and target; it has de, {codes[:5]}"):
            read(content, target=target)


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        *(("utf-16", "utf-16"), ("utf-16", "utf-16-le"), ("utf-16", "utf-16-be"), ("utf-8", "utf-8-sig")),
        *(("utf-16", "utf-8-sig"), ("latin-1", "utf-8-sig"), ("ISO-8859-1", "utf-16"), ("Unicode", "utf-8")),
    ],  # a byte order mark overrides the declaration
)
def test_read_texts_tmx_any_encoding_reads_pairs_counts_others(tmp_path: Path, declared: str, encoding: str) -> None:
    path, left_out = tmp_path / "memory.xml", list[tuple[str, str]]()
    path.write_bytes(TMX.replace("ENC", declared).encode(encoding))
    found = list(places(path, left_out))
    assert found == [(*PAIRS[0], "unit 1"), (*PAIRS[1], "unit 3")]
    assert left_out == [(formats.OTHER_LANGUAGES, f"{path}: unit 2")]


@pytest.mark.parametrize("char", ["&#x1F;", "&#31;", "&#xFFFF;", "&#x0D800;" * 3_000, "\x0b", "\x00", "\uffff" * 9_000])
def test_read_texts_xml_with_forbidden_character_leaves_out_its_unit(tmp_path: Path, char: str) -> None:
    path = tmp_path / "a"  # many characters: across the parts of the file that are parsed at a time
    for content in (TMX.replace("ENC", "UTF-8").replace(">Hund<", f">Hund{char}<"), XLIFF.replace("UNITS", SEGMENTS)):
        left_out = list[tuple[str, str]]()
        path.write_text(content.replace("Ein <g", f"Ein{char} <g"), encoding="utf-8")
        assert [pair for *pair, _ in places(path, left_out)] == [list(PAIRS[1])]
        assert left_out[0] == (formats.DAMAGED, f"{path}: unit 1")


def test_read_texts_tmx_with_style_sheet_and_entities_is_read(read: Read) -> None:
    content = TMX.replace("ENC", "UTF-16").replace("?>\n", "?>\n<?xml-stylesheet href='a.xsl'?>\n", 1)
    content = content.replace('"tmx14.dtd"', '"tmx14.dtd" [<!ENTITY quot2 "&#34;"><!ENTITY hund "Hund">]')
    content = content.replace(">Hund<", ">&hund;<").replace("A dog.", "A &quot2;dog.")
    assert read(content)[0] == ("Ein Hund.", 'A "dog.', "unit 1")


def test_read_texts_xliff_codes_of_phrase_are_left_out(read: Read) -> None:
    unit = UNIT.format("", "").replace("Ein", "{b&gt;Ein&lt;b}")
    unit = unit.replace("A dog", "{b&gt;{i&gt;A&lt;i} dog&lt;b} {1} {x&gt;")
    assert [pair[:2] for pair in read(XLIFF.replace("UNITS", unit))] == [("Ein Hund.", "A dog {1} {x>.")]


def test_read_texts_table_rows_that_nobody_confirmed_are_left_out(tmp_path: Path) -> None:
    path, left_out = tmp_path / "report.tsv", list[tuple[str, str]]()
    rows = ["a.po\tline 1\t'=a\t''-A\t\t\tyes", "a.po\tline 2\tb\tB\t\t\t", "a.po\tline 3\tc\tC"]
    rows += ["a\tx\td\tD\t\t\t Nein "]
    heading = "file\tplace\tsource\ttarget\tcheck\treplaced\tConfirmed"
    path.write_text("\n".join([heading, *rows]), encoding="utf-8")
    assert list(places(path, left_out)) == [("=a", "'-A", "line 2")]
    expected = [(formats.HEADING, 1), *((formats.UNCONFIRMED, number) for number in (3, 4, 5))]
    assert left_out == [(reason, f"{path}: line {number}") for reason, number in expected]


@pytest.mark.parametrize(
    ("heading", "is_turned"),
    [
        *(("text\ttranslation", False), ("Traduction\tPhrase", True), ("Deutsch\tÜbersetzung", False)),
        *(("sentence1\tsentence2", False), ("text\tText", None), ("Satz\tsentence", None)),
        ("Hund\ttranslation", None),
    ],
)
def test_read_texts_unusual_heading_is_left_out_and_said(heading: str, is_turned: bool | None, tmp_path: Path) -> None:
    path, left_out = tmp_path / "a.tsv", list[tuple[str, str]]()
    path.write_text(f"{heading}\nein Hund\ta dog\n", encoding="utf-8")
    first, pair = tuple(heading.split("\t")), ("ein Hund", "a dog")
    expected = [first, pair] if is_turned is None else [pair[::-1] if is_turned else pair]
    assert [found[:2] for found in places(path, left_out)] == expected
    assert left_out == [(formats.HEADING, f"{path}: line 1")] * (is_turned is not None)


def test_read_texts_first_row_whose_cells_occur_again_is_a_pair(read: Read) -> None:
    assert [pair[:2] for pair in read("Text\tTranslation\nText\ttext\n")] == [("Text", "Translation"), ("Text", "text")]


@pytest.mark.parametrize(("row", "reason"), TABLES["cells"])
def test_read_texts_cells_of_spreadsheets_without_text_are_left_out(row: str, reason: str, tmp_path: Path) -> None:
    path, left_out = tmp_path / "a.tsv", list[tuple[str, str]]()
    path.write_text(f"a\tb\n{row}\n", encoding="utf-8")
    assert len(list(places(path, left_out))) == (1 if reason else 2)
    assert left_out == ([(reason, f"{path}: line 2")] if reason else [])
    sides = [tmp_path / f"c.{language}" for language in ("de", "en")]
    for side, cell in zip(sides, row.split("\t"), strict=True):
        side.write_text(f"{cell}\n", encoding="utf-8")
    found = read_texts([FilePair(source=sides[0], target=sides[1])], settings())
    assert bool(list(found)) == (reason != formats.SPREADSHEET_ERROR)


CONFIRMATIONS = [(" conf='Draft'", "Translated"), ("", "ApprovedSignOff")]
CONFIRMATIONS += [(" conf='RejectedTranslation'", "Translated")]
SECOND_OF_TWO = "Zwei  Männer 😀 → Two men, one dog ¦ not confirmed"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        *TABLES["unfinished"],
        *(
            (SEGMENTS.replace("<alt", f"<sdl:seg id='1'{found}/><sdl:seg id='2' conf='{last}'/><alt"), SECOND_OF_TWO)
            for found, last in CONFIRMATIONS
        ),
    ],
)
def test_read_texts_unfinished_translations_are_counted(tmp_path: Path, content: str, expected: str) -> None:
    path, left_out = tmp_path / "a", list[tuple[str, str]]()
    text = (XLIFF_2 if "<segment" in content else XLIFF).replace("UNITS", content).replace("SEGMENTS", content)
    path.write_text(text if content.lstrip().startswith("<") else content.replace("LANG", "en"), encoding="utf-8")
    found = [f"{source} → {target}" for source, target, _ in places(path, left_out)]
    assert " ¦ ".join([*found, *(reason for reason, _ in left_out)]) == expected


@pytest.mark.parametrize(
    ("languages", "is_turned"), [("en de", True), ("- en", False), ("- de", True), ("de -", False), ("- -", True)]
)
def test_read_texts_xliff_and_po_in_reverse_direction_are_read(read: Read, languages: str, is_turned: bool) -> None:
    named = [code.removesuffix("-") for code in languages.split()]
    header = HEADER.replace("LANG", named[1]).replace('"Lang', f'"X-Source-Language: {named[0]}\\n"\n"Lang')
    file = XLIFF.replace("de-DE", named[0]).replace("en-US", named[1]).replace("UNITS", UNIT.format("", ""))
    for content in (header + 'domain "x"\nmsgid "Ein Hund."\nmsgstr "A dog."\n', file):
        assert [pair[:2] for pair in read(content)] == [PAIRS[0][::-1] if is_turned else PAIRS[0]]


def test_read_texts_po_uses_its_encoding_and_both_plural_forms(read: Read) -> None:
    header = HEADER.replace("LANG", "en").replace("UTF-8", "ISO-8859-1")
    content = header + 'msgid "\\8 Mann"\nmsgid_plural "M\xe4nner"\nmsgstr[0] "man"\nmsgstr[1] "men"\n'
    expected = [("8 Mann", "man", "line 6"), ("Männer", "men", "line 6")]
    assert read(content.encode("latin-1")) == read(content.encode("utf-16")) == expected
    for encoding in ("base64", "idna"):
        with pytest.raises(DataError, match=rf"text: {encoding} is not a text encoding; convert the file to UTF-8"):
            read(content.replace("ISO-8859-1", encoding))


def test_read_texts_xliff_with_internal_file_is_read(read: Read) -> None:
    inside = f"<internal-file form='base64'>{'QUJD' * 1_200_000}</internal-file>"
    content = XLIFF.replace("<note>", f"<skl>{inside}</skl><note>").replace("UNITS", UNIT.format("", ""))
    assert read(content) == [(*PAIRS[0], "unit 1")]


@pytest.mark.parametrize(("content", "more"), TABLES["named columns"])
def test_read_texts_columns_named_by_heading_or_option(read: Read, content: str, more: str) -> None:
    expected = [("b", "c" if "c" in content else "b")]
    assert [(source, target) for source, target, _ in read(content, **json.loads(more))] == expected


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        *((content.encode(), "a", said) for content, said in TABLES["broken"]),
        (b"PK\x03\x04" + b"\0" * 30 + b"xl/workbook.xml", "a.tmx", "an Excel workbook (XLSX); save it as"),
        (b"PK\x03\x04" + b"\0" * 30 + b"word/document.xml", "a.tsv", "a Word document (DOCX); export"),
        (b"PK\x03\x04" + b"\0" * 30, "a", "a ZIP archive; unpack it"),
        (b"%PDF-1.7", "a", "a PDF; save it as"),
        (b"ARROW1\0\0", "a", "a Parquet or Arrow file; write it as JSON lines"),
        (b"\xff\xff\xff\xff\x98\x02\0\0\x10\0\0\0", "a", "a Parquet or Arrow file; write it as JSON lines"),
        (b"\xde\x12\x04\x95\0\0\0\0", "a", "a compiled message catalogue (MO); take its PO file"),
        (b"SQLite format 3\0", "a", "a database (SQLite), such as an SDLTM; export"),
        (b"a\tb\nc\td\xff\n", "a", "line 2: byte 4 of the line is 0xff, which is not UTF-8"),
        (b"a\tb\n" + b"c" * 1_100_000, "a", "line 2 has more than 1,048,576 bytes"),
        (b'{"de": ' + b"[" * 100_000, "a", "line 1: not JSON: "),
        (TMX.replace("ENC", "klingon").encode(), "a", "not XML: unknown encoding: klingon; correct it, or convert"),
        (TMX.replace("ENC", "UTF-8").replace("A dog.", "A &dog;").encode(), "a", "not XML: undefined entity &dog;: li"),
        (b"<tmx>" + b"<a>" * 1_000, "a", "a unit of more than 4,194,304 bytes, or more than 100 nested elements"),
        (b"<tmx><tu>" + b"<a>" * 100 + b"</a>" * 100, "a", "a unit of more than 4,194,304 bytes, or"),
        (b"<tmx><!--" + b" " * (5 << 20), "a", "a unit of more than 4,194,304 bytes, or"),
        (gzip.compress(TSV.encode() * 50, mtime=0)[:-9], "a", "incomplete or damaged gzip file (Compressed file ended"),
        (b"not gzip", "a.tsv.gz", "incomplete or damaged gzip file (Not a gzipped file"),
    ],
)
def test_read_texts_broken_file_raises_a_one_line_error(read: Read, content: bytes, name: str, said: str) -> None:
    with pytest.raises(DataError) as told:
        read(content, name)
    assert str(told.value).split(": ", 1)[1].startswith(said)
    assert "\n" not in str(told.value)


@seed(0)
@hypothesis.settings(max_examples=100, database=None, phases=[hypothesis.Phase.generate])
@given(
    st.sampled_from(CONTENTS),
    st.sampled_from(PACKS),
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(INSERTED) | st.binary(min_size=1, max_size=4) | st.none()),
        min_size=1,
        max_size=3,
    ),
)
def test_read_texts_damaged_file_gives_pairs_or_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    content: str,
    pack: Callable[[bytes], bytes],
    damages: list[tuple[float, bytes | None]],
) -> None:
    damaged, path = pack(content.encode()), tmp_path_factory.getbasetemp() / "damaged"
    for share, inserted in damages:  # None: cut there
        place = int(share * len(damaged))
        damaged = damaged[:place] + (b"" if inserted is None else inserted + damaged[place + 2 :])
    path.write_bytes(damaged)
    said = ""
    tracemalloc.start()
    try:
        list(places(path))
    except DataError as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (peak < 64e6, "\n" in said) == (True, False)


@pytest.mark.parametrize(
    ("codec", "text", "command"),
    [
        *((codec, "größer, à côté. 犬\tnaïf\n", "iconv") for codec in ("UTF-7", "UTF-32", "UTF-32LE", "UTF-32BE")),
        *((codec, "1 Собака\tdog\n", "iconv") for codec in ("UTF-16LE", "UTF-16BE")),
        ("ISO-2022-JP", "犬が\tdog\n", "iconv"),
        ("ISO-2022-KR", "개\tdog\n", "iconv"),
        ("HZ", "dog\t中文\n", "uconv"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_read_texts_encoding_that_passes_for_utf_8_is_refused(
    read: Read, codec: str, text: str, command: str, pack: Any
) -> None:
    said = rf"text: text in {codec}; .* `{command} -f {codec} -t UTF-8`$"
    with pytest.raises(DataError, match=said):
        read(pack(text.encode(codec)))


@pytest.mark.parametrize(
    "text",
    ["a+b, C++", "me+you+them+1234567", "~{x}", "\x1b[31mA", "+4912345678 +49-123 +abcdefgh", 3 * " Vor+Nachname hier"],
)
def test_read_texts_plain_text_with_signs_of_encodings_is_read(read: Read, text: str) -> None:
    assert read(f"{text}\tb\n", columns=["1", "2"]) == [(text, "b", "line 1")]


@pytest.mark.parametrize(
    ("row", "pair"),
    [
        *(("c\td\te", None), ('"c\td"\te', ("c\td", "e")), ('c\t"d ""x""\te"', ("c", 'd "x"\te'))),
        *(('"c\t"d\te', None), ("c\td\t\t", ("c", "d")), ('"c"\td', ('"c"', "d"))),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("heading", ["", "de\ten\n"])
def test_read_texts_tsv_row_with_more_cells_is_left_out(
    tmp_path: Path, row: str, pair: tuple[str, str] | None, is_first: bool, heading: str
) -> None:
    path, left_out = tmp_path / "a.tsv", list[tuple[str, str]]()
    rows = [row, "a\tb", "a\tb"] if is_first else ["a\tb", row]
    path.write_text(heading + "\n".join(rows), encoding="utf-8")
    expected = [("a", "b")] * (len(rows) - 1)
    expected[0 if is_first else 1 : 0 if is_first else 1] = [pair] if pair else []
    assert [found[:2] for found in places(path, left_out)] == expected
    number = 1 + (not is_first) + bool(heading)
    headings = [(formats.HEADING, f"{path}: line 1")] * bool(heading)
    assert left_out == [*headings, *([("more cells than other rows", f"{path}: line {number}")] * (pair is None))]


def test_read_texts_tsv_heading_names_a_column_that_rows_lack(read: Read) -> None:
    assert [pair[:2] for pair in read("de\ten\tnote\na\tb\na\tb\na\tb\tc\n")] == [("a", "b")] * 3


def test_read_texts_expanding_entities_are_refused(read: Read) -> None:
    unit = '<tu><tuv lang="de"><seg>&l11;</seg></tuv></tu>'
    bomb = f'<!DOCTYPE tmx [<!ENTITY l0 "ha">{LAUGHS}]><tmx><body>{unit}</body></tmx>'
    with pytest.raises(DataError, match=r"text: declares an entity other than a short text; delete"):
        read(bomb)


def test_read_texts_tmx_frees_the_units_already_read(tmp_path: Path) -> None:
    path = tmp_path / "large.tmx"
    sides = f'<tuv lang="de"><seg>{"a" * 99}</seg></tuv><tuv lang="en"><seg>b</seg></tuv>'
    unit = f"<tu><note>{'n' * 500}</note>{sides}</tu>"
    path.write_text(f"<tmx><body>{unit * 5_000}{'<x/>' * 50_000}</body></tmx>", encoding="utf-8")
    tracemalloc.start()
    try:
        assert sum(1 for _ in places(path)) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # bytes; the file has 3.8 million
    finally:
        tracemalloc.stop()


def test_read_texts_tmx_elements_without_codes_give_their_text(read: Read) -> None:
    content = TMX.replace("ENC", "UTF-8").replace("A dog.", "A <b>big <g id='1'>d<ut>{/i}</ut>og</g></b><x/>.")
    assert read(content)[0][1] == "A big dog."
    broken = content.replace("A <b>", "A<ph>&lt;br/></ph>b<ph/> w<bpt>x</bpt>w<b>")
    assert read(broken)[0][1].startswith("A b ww")


@pytest.mark.parametrize("content", [TMX.replace("ENC", "UTF-8"), XLIFF, PO])
def test_read_texts_two_sided_file_given_as_one_side_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"^{path}: .*, which has both sides; name it alone"):
        list(read_texts([FilePair(source=path, target=path)], settings(), lambda *_: None))


def test_pair_files_matches_languages_in_any_order() -> None:
    names = "b.de-DE.txt a.en.xz c.tmx x/a.EN a.de.gz x/a.de b.en.txt en.txt de.txt c_en.txt.gz c_de.txt.gz"
    assert pair_files([Path(name) for name in names.split()], settings()) == [
        FilePair(source=Path("b.de-DE.txt"), target=Path("b.en.txt")),
        FilePair(source=Path("a.de.gz"), target=Path("a.en.xz")),
        Path("c.tmx"),
        FilePair(source=Path("x/a.de"), target=Path("x/a.EN")),
        FilePair(source=Path("de.txt"), target=Path("en.txt")),
        FilePair(source=Path("c_de.txt.gz"), target=Path("c_en.txt.gz")),
    ]


@pytest.mark.parametrize(
    "names",
    [
        *("a.src.gz a.tgt.gz", "source.txt target.txt", "newstest.src newstest-ref"),
        *("a.de other.txt", "other.txt a.en"),
        *("a.de.tok a.en.tok", "de.x en.x", "deu_Latn.dev eng_Latn.dev", "a.deu a.eng", "de-DE.test en-US.test"),
        *("corpus.de.txt corpus_v2.en.txt", "a.de-en.de a.de-en.en", "deutsch.txt english.txt"),
        *("x-ref.de x-src.en", "tgt.de src.en"),  # a language counts before a role
        "one.txt other.txt",  # otherwise the first is the source
    ],
)
def test_pair_files_two_files_are_matched_by_language_or_role(names: str, tmp_path: Path) -> None:
    source, target = (tmp_path / name for name in names.split())
    for path in (source, target):
        path.write_text("a\n", encoding="utf-8")
    given = [source, target] if source.name == "one.txt" else [target, source]
    assert pair_files(given, settings()) == [FilePair(source=source, target=target)]


@pytest.mark.parametrize(("names", "start"), [(("de.json", "en.json"), "{"), (("a.json", "b.json"), "{\n  ")])
def test_read_texts_two_json_files_with_the_same_keys_are_pairs(
    names: tuple[str, str], start: str, tmp_path: Path
) -> None:
    paths, left_out = [tmp_path / name for name in names], list[tuple[str, ...]]()
    paths[0].write_text(f'{start}"a": {{"b": "Hund"}}, "id": "x_y", "c": "Ka\\ntze"}}', encoding="utf-8")
    paths[1].write_text(f'{start}"d": "x", "id": "x_y", "a": {{"b": "dog"}}}}', encoding="utf-8")
    texts = pair_files(paths, settings())
    found = list(read_texts(texts, settings(), lambda *each: left_out.append(each[:3])))
    assert found == [("Hund", "dog", Location(paths[0], paths[1], 1, "message"))]
    assert left_out == [("not translated", "Ka\ntze", "")]
    mixed = [FilePair(source=paths[0], target=Path(__file__))]
    for each, said in ((paths[:1], "which is only one side"), (mixed, "only one of")):
        with pytest.raises(DataError, match=said):
            list(read_texts(each, settings()))


@pytest.mark.parametrize("names", [["a_de.tsv", "a_en.tsv"], ["corpus.de-en.txt"]])
def test_pair_files_tables_named_like_sides_stay_single(names: list[str], tmp_path: Path) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_text(TSV, encoding="utf-8")
    assert pair_files(paths, settings()) == paths


@pytest.mark.parametrize(("names", "said"), TABLES["no pairs"])
def test_pair_files_missing_side_or_repeated_file_is_refused(names: str, said: str, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in names.split()]
    for path in paths:
        path.write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match=said):
        pair_files(paths, settings())


@pytest.mark.parametrize(
    "key",
    ["edit.save.title{}", "EDIT_SAVE_{}", "editSaveTitle{}", "page.section{}.m_0", "a-b/c[{}]", "menu-file-open{}"],
)
def test_read_texts_keys_in_place_of_text_are_refused_unless_allowed(read: Read, key: str, tmp_path: Path) -> None:
    keys = [key.format(number) for number in range(20)]
    units = "".join(f"<trans-unit id='1'><source>{each}</source><target>A dog.</target></trans-unit>" for each in keys)
    for content, name in (
        (HEADER.replace("LANG", "en") + "".join(f'msgid "{each}"\nmsgstr "A dog."\n\n' for each in keys), "a.po"),
        (XLIFF.replace("UNITS", units), "a.xlf"),
        ("".join(json.dumps({"source": each, "target": "A dog."}) + "\n" for each in keys), "a.jsonl"),
        ("de\ten\n" + "".join(f"{each}\tA dog.\n" for each in keys), "a.tsv"),
    ):
        with pytest.raises(DataError, match=rf"{name}: most of the source side are keys \(such as .*\), not text; "):
            read(content, name)
        assert len(read(content, name, allow_keys=True)) == 20
    texts = (tmp_path / "a.de", tmp_path / "a.en")
    texts[0].write_text("A dog.\n" * 20, encoding="utf-8")
    texts[1].write_text("".join(f"{each}\n" for each in keys), encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.en: most of the target side are keys"):
        list(read_texts([FilePair(source=texts[0], target=texts[1])], settings()))


@pytest.mark.parametrize("word", ["Hund", "OK", "E-Mail", "z.B.", "12:30", "Größen-Wahn", "U.S.", "3.5"])
def test_read_texts_words_are_no_keys(read: Read, word: str) -> None:
    assert len(read("de\ten\n" + f"{word}\tdog\n" * 20)) == 20
