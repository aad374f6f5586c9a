"""What programs that speak LibreTranslate's API send, as their own sources write it, is answered as they read it.

Mastodon: app/lib/translation_service/libre_translate.rb. Discourse: its translator's provider/libre_translate.rb.
"""

import json
from urllib.parse import urlencode

import pytest

from served import JSON, Running
from transformer_cli.translator import Translator

DOG, CAT = "Der kleine Hund läuft im Park.", "Die alte Frau singt zu Hause."
TOOT = (
    f'<p><span class="h-card" translate="no"><a href="https://a.example/@b" class="u-url mention">@<span>b</span></a>'
    f'</span> {DOG}<br />{CAT}</p><p><b>{DOG}</b> <span translate="no">:hund:</span></p>'
)


@pytest.fixture(scope="module")
def english(translator: Translator) -> str:
    """The toot in English."""
    return translator.translate_html(TOOT)


def test_a_toot_comes_back_with_its_markup(translator: Translator, english: str) -> None:
    dog, cat = translator.translate([DOG, CAT])
    assert english == TOOT.replace(DOG, dog).replace(CAT, cat)


@pytest.mark.parametrize("source", ["de", "auto"])
def test_mastodon_is_answered(served: Running, translator: Translator, english: str, source: str) -> None:
    asked = {"q": [TOOT, CAT, ""], "source": source, "target": "en", "format": "html", "api_key": None}
    answer = served.ask("/translate", json.dumps(asked).encode(), **JSON)
    assert answer.status == 200
    assert answer.body["translatedText"] == [english, *translator.translate([CAT]), ""]
    if source == "auto":
        assert [each["language"] for each in answer.body["detectedLanguage"]] == ["de"] * 3
    else:
        assert "detectedLanguage" not in answer.body
    languages = {each["code"]: each["targets"] for each in served.ask("/languages", None, **JSON).body}
    assert languages == {"de": ["en"], "en": []}


def test_discourse_is_answered(served: Running, english: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    asked = urlencode({"q": "Hund läuft", "api_key": ""}).encode()
    assert served.ask("/detect", asked, **form).body[0]["language"] == "de"
    codes = [each["code"] for each in served.ask("/languages").body]
    assert {"de", "en"} <= set(codes)
    asked = urlencode({"q": TOOT, "source": "de", "target": "en", "format": "html", "api_key": ""}).encode()
    answer = served.ask("/translate", asked, **form)
    assert (answer.status, answer.body) == (200, {"translatedText": english})


def test_the_limits_hold_for_html(served: Running) -> None:
    def error(q: str) -> str:
        answer = served.post("/translate", q=q, source="de", target="en", format="html")
        assert answer.status == 400
        return answer.body["error"]

    assert "(1001) exceeds text limit (1000) of lines" in error("<p>Hund" * 1001)
    assert "(2001) exceeds text limit (2000) of sentences" in error("Der Hund singt. " * 2001)
    assert "exceeds text limit (100000) of characters" in error("<b>" * 40_000)
    assert error(f"<p>Hund<p>{'Hund' * 1001}").startswith("line 2: more than 4,000 characters")


def test_further_translations_and_sentences_of_html(served: Running) -> None:
    asked = {"q": f"<p><b>{DOG}</b> {CAT}</p>", "source": "de", "target": "en", "format": "html"}
    answer = served.post("/translate", **asked, alternatives=2, sentences=True).body
    for text in (answer["translatedText"], *answer["alternatives"]):
        assert text.startswith("<p><b>")
        assert text.endswith("</p>")
        assert text.count("</b> ") == 1
    assert len(answer["alternatives"]) == 2
    assert [each["source"] for each in answer["sentences"]] == [DOG, CAT]
