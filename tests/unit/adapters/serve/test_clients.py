"""Requests of programs that use LibreTranslate's API, as in their sources, and the answers that they expect.

Mastodon: app/lib/translation_service/libre_translate.rb. Discourse: its translator's provider/libre_translate.rb.
deep-translator 1.11.4: deep_translator/libre.py. jefs42/libretranslate, for PHP: src/LibreTranslate.php.

The last tests let programs ask by their own code, where they are installed: `pip install deep-translator`, and
`npm install --no-save libretranslate translate` in the checkout.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest

from served import JSON, Running
from transformer_cli import Translator

DOG, CAT = "Der kleine Hund läuft im Park.", "Die alte Frau singt zu Hause."
TOOT = (
    f'<p><span class="h-card" translate="no"><a href="https://a.example/@b" class="u-url mention">@<span>b</span></a>'
    f'</span> {DOG}<br />{CAT}</p><p><b>{DOG}</b> <span translate="no">:hund:</span></p>'
)


@pytest.fixture(scope="module")
def english(translator: Translator) -> str:
    """The toot in English."""
    return translator.translate_html(TOOT)


def test_mastodon_toot_keeps_its_markup(translator: Translator, english: str) -> None:
    dog, cat = translator.translate([DOG, CAT])
    assert english == TOOT.replace(DOG, dog).replace(CAT, cat)


@pytest.mark.parametrize("source", ["de", "auto"])
def test_mastodon_requests_are_answered(served: Running, translator: Translator, english: str, source: str) -> None:
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


def test_discourse_requests_are_answered(served: Running, english: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    asked = urlencode({"q": "Hund läuft", "api_key": ""}).encode()
    assert served.ask("/detect", asked, **form).body[0]["language"] == "de"
    codes = [each["code"] for each in served.ask("/languages").body]
    assert {"de", "en"} <= set(codes)
    asked = urlencode({"q": TOOT, "source": "de", "target": "en", "format": "html", "api_key": ""}).encode()
    answer = served.ask("/translate", asked, **form)
    assert (answer.status, answer.body) == (200, {"translatedText": english})


def test_deep_translator_requests_are_answered(served: Running, translator: Translator) -> None:
    asked = urlencode({"q": f"{DOG}\n{CAT}", "source": "de", "target": "en", "format": "text", "api_key": "any"})
    answer = served.ask(f"/translate?{asked}", b"", Content_Type="")
    assert answer.body == {"translatedText": "\n".join(translator.translate([DOG, CAT]))}


def test_php_client_gets_the_detected_language(served: Running) -> None:
    empty_form = {"Content-Type": "multipart/form-data; boundary=------------------------b"}
    asked = urlencode({"q": DOG, "api_key": ""})
    answer = served.ask(f"/detect?{asked}", b"--------------------------b--\r\n", **empty_form)
    assert answer.body[0]["language"] == "de"


@pytest.mark.parametrize("path", ["/translate", "/detect", "/inspect/steps", "/inspect/vectors"])
def test_url_parameters_are_read_like_a_form(served: Running, path: str) -> None:
    asked = {"q": DOG, "source": "de", "target": "en", "kind": "cross"}
    for name in asked:
        in_form = {key: value for key, value in asked.items() if key != name}
        answer = served.post_form(f"{path}?{urlencode({name: asked[name]})}", **in_form)
        assert (answer.status, answer.body) == (200, served.post(path, **asked).body)


def test_url_parameters_precede_a_form_and_json_precedes_them(served: Running, translator: Translator) -> None:
    asked = {"q": DOG, "source": "de", "target": "en"}
    english = {"translatedText": translator.translate([DOG])[0]}
    assert served.post_form(f"/translate?{urlencode({'q': DOG})}", **{**asked, "q": CAT}).body == english
    assert served.post(f"/translate?{urlencode({'q': CAT, 'target': 'zz'})}", **asked).body == english
    missing = {"error": "Invalid request: missing q parameter"}
    assert served.post(f"/translate?{urlencode(asked)}", source="de", target="en").body == missing
    assert served.ask("/translate?source=de&target=en", b"").body == missing


def test_url_parameters_not_in_utf_8_return_400(served: Running) -> None:
    answer = served.ask("/detect?q=%ff", b"")
    assert (answer.status, answer.body) == (400, {"error": "Invalid request: not in UTF-8; encode it in UTF-8"})


def test_translate_html_has_the_same_limits(served: Running) -> None:
    def error(q: str | list[str]) -> str:
        answer = served.post("/translate", q=q, source="de", target="en", format="html")
        assert answer.status == 400
        return answer.body["error"]

    for q in ("<p>Hund" * 1001, "<a>a " * 19_800, "<br title='a'>" * 7_000, ["<p>Hund" * 600] * 20):  # it stops there
        assert re.search(r"\(100[12]\) exceeds text limit \(1000\) of lines", error(q))
    assert "(2001) exceeds text limit (2000) of sentences" in error("Der Hund singt. " * 2001)
    assert error("<b>" * 40_000).endswith("request (120000) exceeds text limit (100000)")
    assert error(f"<p>Hund<p>{'Hund' * 1001}").startswith("line 2: more than 4,000 characters")


def test_translate_html_returns_alternatives_and_sentences(served: Running) -> None:
    asked = {"q": f"<p><b>{DOG}</b>{CAT}</p>", "source": "de", "target": "en", "format": "html"}
    answer = served.post("/translate", **asked, alternatives=2, sentences=True).body
    for text in (answer["translatedText"], *answer["alternatives"]):
        assert text.startswith("<p><b>")
        assert text.endswith("</p>")
        assert text.count("</b> ") == 1
    assert len(answer["alternatives"]) == 2
    assert [each["source"] for each in answer["sentences"]] == [DOG, CAT]


def test_deep_translator_package_works(served: Running, translator: Translator) -> None:
    library = pytest.importorskip("deep_translator")
    client = library.LibreTranslator(source="de", target="en", api_key="any", custom_url=f"{served.url}/")
    dog, cat = translator.translate([DOG, CAT])
    assert client.translate(f"{DOG}\n{CAT}") == f"{dog}\n{cat}"
    assert client.translate_batch([DOG, CAT]) == [dog, cat]


NPM = """
import { Translate } from "translate";
import libretranslate from "libretranslate";
const [url, q] = process.argv.slice(-2);
const asked = { source: "de", target: "en", apiurl: url };
const into = (to) => Translate({ engine: "libre", url: `${url}/translate`, from: "de", to });
const found = [
    await into("en")(q),
    await libretranslate.translate({ ...asked, query: q }),
    await libretranslate.translate({ ...asked, query: q, source: "auto" }),
    await libretranslate.translate({ ...asked, query: `<p><b>${q}</b></p>`, format: "html" }),
    await into("fr")(q).catch((error) => error.message),
];
console.log(JSON.stringify(found));
"""


def test_npm_client_packages_work(served: Running, translator: Translator) -> None:
    checkout, node = Path(__file__).parents[4], shutil.which("node")
    are_there = all((checkout / "node_modules" / name).is_dir() for name in ("translate", "libretranslate"))
    if not (node and are_there):
        pytest.skip("node and `npm install --no-save translate libretranslate` are needed")
    program = [node, "--input-type=module", "--eval", NPM, "--", served.url, DOG]
    done = subprocess.run(program, capture_output=True, text=True, cwd=checkout, check=True)
    (dog,) = translator.translate([DOG])
    html = translator.translate_html(f"<p><b>{DOG}</b></p>")
    assert json.loads(done.stdout) == [dog, dog, dog, html, "fr is not supported"]
