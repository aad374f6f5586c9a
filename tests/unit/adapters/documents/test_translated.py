"""Documents are translated block by block, like plain text."""

import pytest

from transformer_cli import Translator
from transformer_cli.errors import DataError


def test_translate_html_translates_text_and_keeps_markup(translator: Translator) -> None:
    dog, cat = "Der alte Hund singt im Park.", "Die junge Katze schläft zu Hause."
    one, other = translator.with_options(split_sentences=True).translate_detailed([f"{dog} {cat}", "Hund"])
    html = f"<!-- x -->\n<p title=Hund>{dog} <b>{cat}</b> <br></p>\n<pre>Hund</pre>"
    assert one.sentences is not None
    first, second = (each.text for each in one.sentences)
    expected = f'<!-- x -->\n<p title="{other.text}">{first} <b>{second}</b> <br></p>\n<pre>Hund</pre>'
    assert translator.translate_html(html) == expected
    assert translator.translate_html("") == ""
    assert translator.translate_html("<p>Der alte Hund\nsingt im Park.") == f"<p>{first}"
    long = translator.translate_html(f"<p>{dog} <b>{f'{dog} ' * 200}</b>{dog}")  # more than 4,000 characters
    assert long == f"<p>{first} <b>{f'{first} ' * 200}</b>{first}"
    endless = translator.translate_html(f"<p>{'Hund ' * 1000}")  # cut at a space after 800 words
    hounds = translator.with_options(split_sentences=True).translate(["Hund " * 799 + "Hund", "Hund " * 199 + "Hund"])
    assert endless == f"<p>{' '.join(hounds)} "
    terms = translator.with_terms({"Hund": "Waldi"}).translate_html("<p>Der alte <b>Hund</b> singt im Park.")
    assert "<b>Waldi</b>" in terms
    with pytest.raises(DataError, match="blocks of text, one per line: line 2: more than 4,000 characters"):
        translator.translate_html(f"<p>{dog}<p>{'Hund' * 1001}")


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
