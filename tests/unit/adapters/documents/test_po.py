"""Messages of a catalogue without a translation get one; everything else stays byte for byte."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
from tables import read_tables
from transformer_cli.adapters.corpora import po
from transformer_cli.adapters.corpora.formats import UNCONFIRMED, read_texts
from transformer_cli.adapters.corpora.po import FUZZY_FLAG, MACHINE_COMMENT
from transformer_cli.adapters.documents.po import parse_po
from transformer_cli.config.schema import DataConfig, TranslationSettings
from transformer_cli.errors import DataError

HEADER = 'msgid ""\nmsgstr ""\n"Language: en\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'

MARK = f"{MACHINE_COMMENT}\n"
TABLES = read_tables(Path(__file__).with_name("po.txt"))


def translated(text: str, encoding: str = "utf-8") -> str:
    opened = parse_po(text.encode(encoding), ("de", "en"))
    return opened.render([turned(block) for block in opened.blocks]).decode(encoding).replace(MARK, "")


@pytest.mark.parametrize(("message", "expected"), TABLES["untranslated messages"])
def test_po_untranslated_messages_get_a_translation(message: str, expected: str) -> None:
    assert translated(HEADER + message) == HEADER + expected
    obsolete = '\n\n#, c-format\n#~ msgid "x"\n'
    assert translated(f"{HEADER}{message.rstrip()}{obsolete}") == f"{HEADER}{expected.rstrip()}{obsolete}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [*TABLES["tags"], (r"  -q, -x   rot hund\n           da", r"  -q, -x   DA HUND\n           ROT")],
)
def test_po_tags_stay_with_their_words(source: str, expected: str) -> None:
    opened = parse_po(f'{HEADER}msgid "{source}"\nmsgstr ""\n'.encode(), ("de", "en"))
    found = opened.render([backwards(block) for block in opened.blocks]).decode().replace(MARK, "")
    header, found = (each.replace('msgstr ""\n"', 'msgstr "').replace('\\n"\n"', "\\n") for each in (HEADER, found))
    assert found == f'{header}msgid "{source}"\nmsgstr "{expected}"\n'


@pytest.mark.parametrize(("rule", "forms"), TABLES["plural forms"])
def test_po_plural_forms_are_translated_where_their_meaning_is_known(rule: str, forms: str) -> None:
    expected = forms.replace("∅", "").split(" ¦ ")
    header = HEADER.replace("\n\n", f'\n"Plural-Forms: {rule}"\n\n')
    message = '#, c-format\nmsgid "ein "\n"hund"\nmsgid_plural "hunde\\n"\n'
    both = ([""] * len(expected), expected)
    empty, filled = ("".join(f'msgstr[{n}] "{form}"\n' for n, form in enumerate(forms)) for forms in both)
    for space in ("", "\r\n", "\n\n"):  # after each form
        found = translated(header + message + empty.replace("msg", f"{space}msg").rstrip())
        assert found == header + message + filled.replace("msg", f"{space}msg").rstrip()
    is_translated = any(expected)
    opened = parse_po(f"{header}{message}{empty}".encode(), ("de", "en"))
    assert +opened.kept == ({} if is_translated else {"plural forms": 1})
    assert MARK.encode() in opened.render([("A", [])] * len(opened.blocks)) or not is_translated


@pytest.mark.parametrize("mark", [MACHINE_COMMENT, FUZZY_FLAG])
def test_po_translated_message_is_marked_and_not_training_text(mark: str, tmp_path: Path) -> None:
    files = {"train": "x", "valid": "y"}
    data = DataConfig.model_validate({"corpus": "files", "source": "en", "target": "de", "files": files})
    old, path, left_out = f'{HEADER.replace("en", "de", 1)}msgid "b"\nmsgstr "B"\n\n', tmp_path / "a.po", list[str]()
    content = f'{old}#: a.c\nmsgctxt "x"\nmsgid "a"\nmsgstr ""\n'.encode()
    opened = parse_po(content, ("en", "de"), TranslationSettings(fuzzy=mark == FUZZY_FLAG))
    path.write_bytes(opened.render([("A", [])]))
    assert path.read_text(encoding="utf-8") == f'{old}#: a.c\n{mark}\nmsgctxt "x"\nmsgid "a"\nmsgstr "A"\n'
    assert [pair[:2] for pair in read_texts([path], data, lambda why, *_: left_out.append(why))] == [("b", "B")]
    assert left_out == ["fuzzy" if mark == FUZZY_FLAG else UNCONFIRMED]


def test_po_mark_stands_before_the_previous_msgid() -> None:
    """`msgfmt` allows no comment between that and the message."""
    before, after = "#: a.c:1\n#, c-format\n", '#| msgid "hunde"\nmsgid "hund"\nmsgstr ""\n'
    written = parse_po((before + after).encode(), ("de", "en")).render([("dog", [])]).decode()
    assert written == before + MARK + after.replace('""', '"dog"')


@pytest.mark.parametrize(("message", "becomes"), TABLES["own translations"])
def test_po_renews_only_its_own_translations(message: str, becomes: str) -> None:
    header = HEADER.replace("\n\n", '\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n')
    expected = message.replace('""\n"do"\n"g"', '"dog"').replace("dog", "HUND") if becomes == "renewed" else message
    opened = parse_po((header + message).encode(), ("de", "en"), TranslationSettings(renew=True))
    assert [block.place.replaced for block in opened.blocks] == ["dog"] * expected.count("HUND")
    assert opened.render([turned(block) for block in opened.blocks]).decode() == header + expected
    assert translated(header + message) == header + message.replace(MARK, "")


@pytest.mark.parametrize(("flag_and_source", "expected"), TABLES["placeholders"])
def test_po_placeholders_in_another_order_suit_the_format(flag_and_source: str, expected: str) -> None:
    flag, _, source = flag_and_source.partition(": ")
    message = f'{HEADER}#, {flag}\nmsgid "{source}"\nmsgstr ""\n'
    opened = parse_po(message.encode(), ("de", "en"))
    found = opened.render([backwards(block) for block in opened.blocks]).decode()
    assert found.replace('"\n"', "").endswith(f'msgstr "{expected}"\n')
    of_user = parse_po(f"# \U000f0000\n{message}".encode(), ("de", "en"))
    assert "%s" in parse_po(message.encode(), ("de", "en"), TranslationSettings(protect=False)).blocks[0].text
    assert "%s" in of_user.blocks[0].text


def test_po_line_end_in_a_sentence_stays_in_proportion() -> None:
    opened = parse_po(b'msgid "ein kleiner\\nhund singt"\nmsgstr ""\n', ("de", "en"))
    assert [block.text for block in opened.blocks] == ["ein kleiner hund singt"]
    found = opened.render([("a very small dog is singing", [])]).decode()
    assert found.endswith('msgstr ""\n"a very small\\n"\n"dog is singing"\n')
    opened = parse_po(b'msgid "ein <b>kleiner</b>\\n <i>hund</i>"\nmsgstr ""\n', ("de", "en"))
    assert [block.text for block in opened.blocks] == ["ein kleiner hund"]


@pytest.mark.parametrize(("message", "reason"), TABLES["kept"])
def test_po_existing_translations_are_kept_and_counted(message: str, reason: str) -> None:
    assert translated(HEADER + message) == HEADER + message
    assert +parse_po((HEADER + message).encode(), ("de", "en")).kept == {reason: 1}


def test_po_messages_without_a_letter_are_copied_and_counted() -> None:
    opened = parse_po(f'{HEADER}msgid "12"\nmsgstr ""\n'.encode(), ("de", "en"))
    assert opened.render([]).decode() == f'{HEADER}{MARK}msgid "12"\nmsgstr "12"\n'
    assert +opened.kept == {"without a letter": 1}


def test_po_keeps_its_declared_encoding() -> None:
    text = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "Ärger"\nmsgstr '
    assert translated(text + '""\n', "latin-1") == text + '"äRGER"\n'
    opened = parse_po(f'{text}""\n'.encode("latin-1"), ("de", "pl"))
    with pytest.raises(DataError, match="'ł' cannot be written in iso8859-1; save the document in UTF-8"):
        opened.render([("złość", [])])


@pytest.mark.parametrize(
    "encoding", ["base64", "hex", "rot13", "zlib", "bz2", "uu", "quopri", "undefined", "punycode", "idna", "utf_32",
                 "unicode_escape"],
)  # fmt: skip
def test_po_codec_that_is_not_for_text_is_refused(encoding: str) -> None:
    with pytest.raises(DataError, match=r"is not a text encoding|is not UTF-32"):
        parse_po((HEADER.replace("UTF-8", encoding) + 'msgid "a"\nmsgstr ""\n').encode(), ("de", "en"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"msgid", "line 1: not a line of a message catalogue"),
        (b'msgid "a"\nmsgstr "b', "line 2: not a line of a message catalogue"),
        (b'"a"\n', "line 1: a string that belongs to no message"),
        (b'msgid "\xff"\n', "byte 8 is not UTF-8"),
        (b'msgid ""\n' + b'"%s"\n' % (b"a" * 100) * 17, "line 18: a message of more than 1,700 characters"),
    ],
)
def test_po_malformed_catalogue_is_refused(content: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(po, "MAX_MESSAGE_CHARS", 1700)
    with pytest.raises(DataError, match=said):
        parse_po(content, ("de", "en"))


PARTS = ["# x\n", "\n", 'msgid "ein"\n', '"hund "\n', 'msgid_plural "b"\n', 'msgstr ""\n', 'msgstr[0] ""\n']
PARTS += ["#, fuzzy\n", 'msgstr "x"\n', '"\\n"\n', 'msgctxt ""\n']


@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join))
def test_po_any_catalogue_keeps_all_its_lines(text: str) -> None:
    try:
        found = translated(text)
    except DataError:
        return
    kept = [line for line in text.split("\n") if not line.startswith("msgstr")]
    lines = iter(found.split("\n"))
    assert all(any(line == other for other in lines) for line in kept if not line.startswith('"'))
