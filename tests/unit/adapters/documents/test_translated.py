"""Documents are translated block by block, like plain text."""

from pathlib import Path

import pytest

from tables import read_table
from transformer_cli import Translator
from transformer_cli.adapters.documents.parsed_file import MOSTLY_OTHER
from transformer_cli.errors import DataError


def test_translate_html_translates_text_and_keeps_markup(translator: Translator) -> None:
    dog, cat = "Der alte Hund singt im Park.", "Die junge Katze schläft zu Hause."
    one, other = translator.with_options(split_sentences=True).translate_detailed([f"{dog} {cat}", "Hund"])
    html = f"<!-- x -->\n<p title=Hund>{dog} <b>{cat}</b> <br></p>\n<pre>Hund</pre>"
    assert one.sentences is not None
    first, second = (each.text for each in one.sentences)
    expected = f'<!-- x -->\n<p title="{other.text}">{first} <b>{second}</b> <br></p>\n<pre>Hund</pre>'
    assert translator.translate_html(html) == expected
    assert translator.translate_html(f"<p><b>{dog}</b>{cat}") == f"<p><b>{first}</b> {second}"
    assert translator.translate_html("") == ""
    assert translator.translate_html("<p>Der alte Hund\nsingt im Park.") == f"<p>{first}"
    long = translator.translate_html(f"<p>{dog} <b>{f'{dog} ' * 200}</b>{dog}")  # more than 4,000 characters
    assert long == f"<p>{first} <b>{f'{first} ' * 200}</b>{first}"
    endless = translator.translate_html(f"<p>{'Hund ' * 1000}")  # cut at a space after 800 words
    hounds = translator.with_options(split_sentences=True).translate(["Hund " * 799 + "Hund", "Hund " * 199 + "Hund"])
    assert endless == f"<p>{' '.join(hounds)} "
    terms = translator.with_terms({"Hund": "Waldi"}).translate_html("<p>Der alte <b>Hund</b> singt im Park.")
    assert "<b>Waldi</b>" in terms
    with pytest.raises(DataError, match="line 3: more than 4,000 characters"):
        translator.translate_html(f"<p>{dog}<p>\n\n{'Hund' * 1001}")


def test_translate_html_too_long_blocks_are_counted_in_a_warning(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    html = f"<p>Hund <b>{'Hund' * 2500}</b></p>"
    (hund,) = translator.translate(["Hund"])
    blank, copy = (translator.with_options(on_too_long=each).translate_html(html) for each in ("blank", "copy"))
    assert blank == f"<p>{hund.replace('park', '<b>park</b>')} </p>"
    assert copy == html.replace("Hund", hund, 1)
    assert caplog.messages == ["1 of 1 blocks of text were too long"] * 2


def test_translate_html_styled_letters_keep_their_elements(translator: Translator) -> None:
    plain = "<p>Der <b>alte</b> Hund <i>singt</i> im Park."
    styled = plain.replace("alte", "𝐚𝐥𝐭𝐞").replace("singt", "ｓｉｎｇｔ")
    assert translator.translate_html(styled) == translator.translate_html(plain)


XLIFF = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file source-language="de" '
    'target-language="en"><body>{}</body></file></xliff>'
)
UNIT = '<trans-unit id="7" maxwidth="12" size-unit="{}"><source>Hund.&lt;br>Katze.</source></trans-unit>'
SEGMENTED = '<trans-unit id="8"><source/><seg-source><mrk mtype="seg" mid="2">Hund</mrk></seg-source></trans-unit>'
SRT = "1\n00:00:01,000 --> 00:00:02,000\nHund.\n\n2\n00:00:03,000 --> 00:00:04,000\nKatze\n"


@pytest.mark.parametrize(
    ("file_format", "content", "places", "checks"),
    [
        ("text", "Hund 7\n\n Katze", ["line 1", "line 3"], [["a number is missing"], []]),
        ("html", "<p\n>\n Hund</p>\n<p title=Katze>\n<b>Hund", ["line 3", "line 4", "line 5"], [[], [], []]),
        ("po", 'msgid "Hund"\nmsgstr ""\n\n# x\nmsgid "Hund"\nmsgstr ""\n', ["line 1", "line 5"], [[], []]),
        ("po", 'msgid "%s. %d Hund"\nmsgstr ""\n', ["line 1"], [[]]),
        ("srt", SRT, ["cue 00:00:01,000", "cue 00:00:03,000"], [[], []]),
        ("xliff", XLIFF.format(UNIT.format("char")), ["unit 7"] * 2, [["more characters than maxwidth"]] * 2),
        ("xliff", XLIFF.format(UNIT.format("pixel") + SEGMENTED), ["unit 7"] * 2 + ["unit 8, segment 2"], [[], [], []]),
    ],
)
def test_translate_file_names_places_and_what_to_check(
    translator: Translator, file_format: str, content: str, places: list[str], checks: list[list[str]]
) -> None:
    texts = translator.translate_file(content.encode(), file_format).texts
    assert [each.place.unit + each.place.part for each in texts] == places
    found = [[what for what in each.to_check if what != "too long"] for each in texts]  # the model knows sentences only
    assert found == checks
    one_word = [each.text for each in translator.translate_detailed([each.source for each in texts])]
    assert [each.target for each in texts] == one_word


def test_translate_html_of_mostly_another_language_warns(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    for html, n_warnings in (
        ("<p>Der alte Hund singt. <i lang=it>ciao</i>", 0),
        ("<p lang=it>Der alte Hund singt.", 1),
    ):
        found = translator.translate_file(html.encode(), "html")
        assert found.content.decode() == translator.translate_html(html) != html
        assert [*found.warnings] == caplog.messages[:1] == [MOSTLY_OTHER.format("de")] * n_warnings
        assert found.counts == {"translated": 1} | ({} if n_warnings else {"in another language": 1})


@pytest.mark.parametrize(("document", "marked"), read_table(Path(__file__).with_name("marked_languages.txt")))
def test_translate_file_of_other_languages_is_refused_unless_one_insists(
    translator: Translator, document: str, marked: str
) -> None:
    file_format, _, content = document.partition(": ")
    warnings = [f"is marked as {marked}, but the run translates de → en"] * bool(marked)
    insists = translator.with_options(any_language=True)
    assert insists.translate_file(content.encode(), file_format).warnings == warnings
    if marked and file_format != "html":
        with pytest.raises(DataError, match=f"{warnings[0]}; use another run"):
            translator.translate_file(content.encode(), file_format)
    else:
        assert translator.translate_file(content.encode(), file_format).warnings == warnings


def test_translate_subtitles_keeps_an_unknown_speaker(translator: Translator) -> None:
    (dog,) = translator.translate(["Der alte Hund singt im Park."])
    times = "00:00:01,000 --> 00:00:02,000\n"
    found = translator.translate_file(f"{times}PETER: Der alte Hund singt im Park.\n".encode(), "srt")
    assert found.content.decode() == f"{times}PETER: {dog}\n"
