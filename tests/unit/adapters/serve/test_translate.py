"""`POST /translate` and `GET /languages`, as LibreTranslate's clients use them."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

import pytest
from libretranslatepy import LibreTranslateAPI

from served import Running, running
from tables import read_table
from transformer_cli import Translator
from transformer_cli.adapters.serve import request_bodies
from transformer_cli.adapters.serve.request_bodies import FORM, Limits
from transformer_cli.runs.run import Run

LINES = ["Der kleine Hund läuft im Park.", "", "Die alte Frau singt zu Hause."]


@pytest.fixture(scope="module")
def expected(translator: Translator) -> list[str]:
    return translator.translate(LINES)


def test_libretranslatepy_works(served: Running, expected: list[str]) -> None:
    client = LibreTranslateAPI(served.url)
    assert client.translate(LINES[0], "de", "en") == expected[0]
    assert client.translate("\n".join(LINES), "de", "en") == "\n".join(expected)
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"], "inspectable": ["en"]},
        {"code": "en", "name": "English", "targets": [], "inspectable": []},
    ]


@pytest.mark.parametrize("by", ["post", "post_form"])
def test_translate_text_returns_text_and_list_returns_list(served: Running, expected: list[str], by: str) -> None:
    post = getattr(served, by)
    text = ("\r\n" if by == "post_form" else "\n").join(LINES)  # browsers end lines of a form so
    english = "\n".join(expected)
    for q, answer in ((text, english), ([text, LINES[0]], [english, expected[0]])):
        assert post("/translate", q=q, source="de", target="en", format="text").body == {"translatedText": answer}


def test_translate_keeps_list_numbers(served: Running, expected: list[str]) -> None:
    one, _, other = expected
    q = f"1. {LINES[0]}\n\n2. {LINES[2]}"
    answer = served.post("/translate", q=q, source="de", target="en", sentences=True).body
    assert answer["translatedText"] == f"1. {one}\n\n2. {other}"
    assert [(each["start"], each["source"]) for each in answer["sentences"]] == [(3, LINES[0]), (3, LINES[2])]
    page = f"<p><b>IV.</b> {LINES[0]}<p>V. {LINES[2]}"
    html = served.post("/translate", q=page, source="de", target="en", format="html")
    assert html.body == {"translatedText": f"<p><b>IV.</b> {one}<p>V. {other}"}


def test_translate_multipart_form_is_read(served: Running, expected: list[str]) -> None:
    fields = {"q": LINES[0], "source": "de", "target": "en"}
    body = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    answer = served.ask("/translate", f"{body}--b--\r\n".encode(), Content_Type="multipart/form-data; boundary=b")
    assert answer.body == {"translatedText": expected[0]}


def test_translate_auto_with_one_source_language(served: Running, expected: list[str]) -> None:
    detected = {"confidence": 100.0, "language": "de"}
    answer = served.post("/translate", q=LINES[0], source="auto", target="en")
    assert answer.body == {"translatedText": expected[0], "detectedLanguage": detected}
    answer = served.post("/translate", q=LINES, source="auto", target="en")
    assert answer.body == {"translatedText": expected, "detectedLanguage": [detected] * 3}


def test_translate_alternatives_come_from_a_beam_of_that_size(served: Running) -> None:
    answer = served.post("/translate", q=LINES[:2], source="de", target="en", alternatives=3).body
    of_first, of_blank = answer["alternatives"]
    assert len({answer["translatedText"][0], *of_first}) == 4
    assert (answer["translatedText"][1], of_blank) == ("", [])
    text = served.post("/translate", q=LINES[0], source="de", target="en", alternatives=3).body
    assert text == {"translatedText": answer["translatedText"][0], "alternatives": of_first}


def test_detect_only_source_language_is_certain(served: Running) -> None:
    answer = [{"confidence": 100.0, "language": "de"}]
    assert served.post_form("/detect", q="A dog.").body == served.post("/detect", q=["Hund"]).body == answer
    assert LibreTranslateAPI(served.url).detect("Hund") == answer
    refused = served.post("/detect", q="a" * 100_001)
    assert refused.body == {"error": "Invalid request: request (100001) exceeds text limit (100000)"}


def test_detect_chooses_among_the_source_languages(translator: Translator, tiny: Run) -> None:
    def reads(language: str) -> Translator:
        config = tiny.config.model_copy(update={"data": tiny.config.data.model_copy(update={"source": language})})
        return Translator(replace(tiny, config=config), "cpu")

    with running(translator, reads("fr"), reads("hsb")) as several:  # py3langid does not know Upper Sorbian
        for text, language in (("Ein Mann liest ein Buch.", "de"), ("Un homme est en train de lire un livre.", "fr")):
            found = several.post("/detect", q=text).body
            assert [each["language"] for each in found][::2] == [language, "hsb"]
            assert found[0]["confidence"] > 90
            assert found[2]["confidence"] == 0
            assert sum(each["confidence"] for each in found) == pytest.approx(100, abs=0.2)
            answer = several.post("/translate", q=[text, "Hund"], source="auto", target="en").body
            assert [each["language"] for each in answer["detectedLanguage"]] == [language] * 2
            looked = several.post("/inspect/steps", q=text, source="auto", target="en")
            assert looked.status == 200
        assert several.post("/detect", q="\0").status == 200  # which no language is known by
        assert several.post("/translate", q="Hund", source="hsb", target="en").status == 200


def test_translate_sentence_beyond_the_token_limit_is_cut(translator: Translator) -> None:
    with running(translator, limits=Limits(line_tokens=3)) as small:
        refused = small.post("/translate", q=["Hund", "Der Hund singt."], source="de", target="en", split=False)
        cut = small.post("/translate", q="Der Hund, der singt. Hund.", source="de", target="en", sentences=True).body
    error = "line 2: 4 tokens, but this server takes at most 3; split the sentence"
    assert (refused.status, refused.body) == (400, {"error": error})
    assert [each["source"] for each in cut["sentences"]] == ["Der Hund, der singt.", "Hund."]
    assert cut["translatedText"] == " ".join(translator.translate(["Der Hund,", "der singt.", "Hund."]))


def test_translate_samples_of_a_cut_sentences_parts_differ(translator: Translator) -> None:
    sampling = translator.with_options(sample=True, temperature=50.0, seed=3)
    with running(sampling, limits=Limits(line_tokens=3)) as small:
        q = "Das Kind, der Hund. Der Hund."  # what the comma cuts off is read as the next sentence is
        first, second = small.post("/translate", q=q, source="de", target="en", sentences=True).body["sentences"]
    assert (first["source"], second["source"]) == ("Das Kind, der Hund.", "Der Hund.")
    assert not first["translation"].lower().endswith(second["translation"].lower())


MANY = dict.fromkeys(range(1001), "")
TOO_MANY = "request (1001) exceeds text limit (1000) of entries in {}; send it in parts"
LARGE_GLOSSARY = {f"{n:03}{'a' * 197}": "b" * 200 for n in range(250)}
WRONG = read_table(Path(__file__).with_name("wrong_requests.txt"))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        *((json.loads(changed), error) for changed, error in WRONG),
        ({"q": ["a"] * 1001}, "request (1001) exceeds text limit (1000)"),
        ({"q": "Hund\n" * 1000}, "request (1001) exceeds text limit (1000) of lines; send it in parts"),
        ({"q": ["Hund " * 100] * 201}, "request (100500) exceeds text limit (100000)"),
        ({"glossary": LARGE_GLOSSARY}, "request (100030) exceeds text limit (100000)"),
        ({"q": "Hund\n" + "x " * 2001}, "line 2: more than 4,000 characters; insert a line break"),
        ({"q": ["Hund. " * 600] * 4}, "request (2400) exceeds text limit (2000) of sentences; send it in parts"),
        ({"glossary": {"Hund": "a" * 201}}, "glossary parameter: String should have at most 200 characters"),
        ({"glossary": MANY}, TOO_MANY.format("glossary")),
        ({"path": "/steps", "prefix": [4] * 1001}, TOO_MANY.format("prefix")),
        ({"path": "/steps", "prefix": [4] * 500_000}, "its JSON has more than 5,000 values; send fewer"),
        ({"path": "/steps", "q": "x " * 50_001}, "request (100002) exceeds text limit (100000)"),
    ],
)
def test_translate_wrong_parameters_return_400(served: Running, changed: dict[str, Any], error: str) -> None:
    """path: what comes after /inspect."""
    parameters = {"q": LINES[0], "source": "de", "target": "en", "kind": "cross", **changed}
    path = f"/inspect{parameters.pop('path')}" if "path" in parameters else "/translate"
    answer = served.post(path, **{name: value for name, value in parameters.items() if value is not None})
    assert (answer.status, answer.body["error"].removeprefix("Invalid request: ")) == (400, error)


@pytest.mark.parametrize(("source", "target"), [("DE", "EN"), ("de-DE", "en-US"), ("De_at", "en"), ("AUTO", "eN")])
def test_translate_language_codes_may_differ_in_case_and_region(
    served: Running, expected: list[str], source: str, target: str
) -> None:
    answer = served.post_form("/translate", q=LINES[0], source=source, target=target)
    assert answer.body["translatedText"] == expected[0]


def test_translate_form_has_its_glossary_as_json(served: Running) -> None:
    asked = {"q": "Der Hund läuft.", "source": "de", "target": "en"}
    glossary = {"Hund": "Zyx"}
    in_json = served.post("/translate", **asked, glossary=glossary).body
    assert served.post_form("/translate", **asked, glossary=json.dumps(glossary)).body == in_json
    assert "Zyx" in in_json["translatedText"]
    for wrong in ("Hund", "[1]", "[" * 10_000, '{"a": 1}'):
        answer = served.post_form("/translate", **asked, glossary=wrong)
        assert (answer.status, answer.body["error"].partition(": ")[2][:18]) == (400, "glossary parameter")


IN_PARTS = b'--b\r\nContent-Disposition: form-data; name="q"%s\r\n\r\nHund\r\n'
NOT_A_FORM = "Invalid request: not a valid form; send JSON or a form"
MANY_VALUES = "Invalid request: its JSON has more than 5,000 values; send fewer"
TOO_MUCH = "Invalid request: request (%d) exceeds text limit (100000)"
NO_SOURCE = "Invalid request: missing source parameter"
NOT_UTF_8 = "Invalid request: not in UTF-8; encode it in UTF-8"


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"[1", "application/json", "Invalid JSON format: Expecting ',' delimiter at character 2"),
        (b"", "application/json", "Invalid JSON format: Expecting value at character 0"),
        (b"[]", "application/json", "Invalid JSON format"),
        (b'{"q": "\xff"}', "application/json", NOT_UTF_8),
        (b"q=%ff", "application/x-www-form-urlencoded", NOT_UTF_8),
        (b"junk", "multipart/form-data", NOT_A_FORM),
        (IN_PARTS % b'; filename="f"' + b"--b--\r\n", "multipart/form-data; boundary=b", NOT_A_FORM),
        (b"[" * 4900, "application/json", "There was an error parsing the body"),
        (b"[" * 100_000, "application/json", MANY_VALUES),
        (b'{"q": [' + b"[]," * 600_000 + b"[]]}", "application/json", MANY_VALUES),
        (b"{" + b",".join(b'"%d":""' % n for n in range(160_000)) + b"}", "application/json", MANY_VALUES),
        (b'{"\\\\":"' + b'\\",' * 100 + b'","q":[' + b'"\\\\",' * 5000 + b'""]}', "application/json", MANY_VALUES),
        (b'{"source":"de","target":"en","q":"' + b"a" * 2_000_000 + b'"}', "application/json", TOO_MUCH % 2_000_000),
        (b"source=de&target=en&q=" + b"%41" * 690_000, "application/x-www-form-urlencoded", TOO_MUCH % 690_000),
        (b"source=de&target=en&q=" + b"%" * 690_000, "application/x-www-form-urlencoded", TOO_MUCH % 690_000),
        (b'{"q": ' + b"9" * 5000 + b"}", "application/json", "There was an error parsing the body"),
        (b"q=Hund", "text/plain", "Invalid request: text/plain is not supported; send JSON or a form"),
        (b"&".join([b"a=1"] * 41_000), "application/x-www-form-urlencoded", NOT_A_FORM),
        (IN_PARTS % b"" * 1001 + b"--b--\r\n", "multipart/form-data; boundary=b", NOT_A_FORM),
        (IN_PARTS % b"" + b"--b--\r\n", "multipart/form-data; boundary=b; charset=punycode", NO_SOURCE),
    ],
)
def test_translate_unreadable_body_returns_400(served: Running, body: bytes, kind: str, error: str) -> None:
    answer = served.ask("/translate", body, Content_Type=kind)
    assert (answer.status, answer.body) == (400, {"error": error})


@pytest.mark.parametrize("q", ["\0", "\u2028", "()" * 7])
def test_translate_any_text_equals_the_translator(served: Running, translator: Translator, q: str) -> None:
    answer = served.post("/translate", q=q, source="de", target="en")
    assert answer.body == {"translatedText": translator.with_options(split_sentences=True).translate([q])[0]}


@pytest.mark.parametrize("by", ["post", "post_form"])
def test_translate_keeps_white_space_between_sentences(
    served: Running, translator: Translator, expected: list[str], by: str
) -> None:
    post = getattr(served, by)
    dog, _, woman = LINES
    text = f"  {dog}  {woman}\n\n{woman} "
    answer = post("/translate", q=text, source="de", target="en", sentences="true").body
    assert answer["translatedText"] == f"  {expected[0]}  {expected[2]}\n\n{expected[2]} "
    lines = text.split("\n")
    assert [lines[each["line"]][each["start"] : each["end"]] for each in answer["sentences"]] == [dog, woman, woman]
    assert [each["source"] for each in answer["sentences"]] == [dog, woman, woman]
    assert [each["translation"] for each in answer["sentences"]] == [expected[0], expected[2], expected[2]]
    for split in ("true", "false"):
        body = served.post("/translate", q=f"{dog}\r\n\r\n{woman}\r\n", source="de", target="en", split=split).body
        assert body["translatedText"] == f"{expected[0]}\r\n\r\n{expected[2]}\r\n"
    whole = post("/translate", q=f"{dog} Hund.", source="de", target="en", split="false").body
    assert whole == {"translatedText": translator.translate([f"{dog} Hund."])[0]}


@pytest.mark.parametrize("source", ["de", "auto"])
def test_translate_html_sets_the_lang_attribute(served: Running, source: str) -> None:
    page = '<html lang="de-DE" xml:lang="de"><p lang=fr>Der Hund läuft.</p></html>'
    answer = served.post("/translate", q=page, source=source, target="en", format="html").body["translatedText"]
    assert answer.startswith('<html lang="en" xml:lang="en"><p lang=fr>')


def test_translate_glossary_terms_are_in_the_translation(served: Running, expected: list[str]) -> None:
    q = f"{LINES[0]} Im Hundepark singen 1.234 Hunde."
    asked = {"q": q, "source": "de", "target": "en", "glossary": {"Hund*": "Zorblax"}}
    answer = served.post("/translate", **asked, sentences=True).body
    first, second = answer["sentences"]
    for each, word in ((first, "Hund"), (second, "Hunde")):
        ((start, end), (begin, stop)) = ((each["terms"][0][side]) for side in ("source", "translation"))
        assert (start, each["source"][start:end]) == (each["source"].rindex(word), word)
        assert each["translation"][begin:stop] == "Zorblax"
    assert (first["missing_numbers"], second["missing_numbers"]) == ([], [[20, 25]])
    assert "a number is missing" in second["check"]
    page = served.post("/translate", **{**asked, "q": "<p>Der <b>Hund</b> läuft.</p>"}, format="html").body
    assert page["translatedText"].count("Zorblax") == 1
    looked = served.post("/inspect/steps", **{**asked, "q": LINES[0]}).body
    assert "Zorblax" in looked["translation"]
    ended = served.post("/inspect/steps", **{**asked, "q": LINES[0], "glossary": {"Hund": "dog"}}, prefix=[4, 3]).body
    assert [each["written"]["id"] for each in ended["steps"]] == [4, 3]
    assert served.post("/translate", q=LINES[0], source="de", target="en").body == {"translatedText": expected[0]}
    assert "glossary: " in served.post("/translate", **{**asked, "glossary": {" ": "x"}}).body["error"]


def test_translate_alternatives_of_a_paragraph_join_sentences(served: Running) -> None:
    def ask(q: str | list[str]) -> Any:
        return served.post("/translate", q=q, source="de", target="en", alternatives=2).body["alternatives"]

    assert ask(f"{LINES[0]} {LINES[2]}") == [" ".join(pair) for pair in zip(*ask([LINES[0], LINES[2]]), strict=True)]


def test_translate_samples_equal_those_of_the_command(tiny: Run) -> None:
    sampling = Translator(tiny, "cpu").with_options(sample=True, temperature=3.0)
    text = ["Hund.", "Der Hund singt. Der Hund singt."]
    with running(sampling) as server:
        answer = server.post("/translate", q=text, source="de", target="en").body
    assert answer["translatedText"] == sampling.with_options(split_sentences=True).translate(text)


def test_json_with_too_many_values_is_not_parsed(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    loads = json.loads

    def noted(text: str) -> Any:
        parsed.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", noted)
    for glossary in ("[" + "[]," * 5000 + "[]]", '{"Hund": "dog"}'):
        for body, kind in (
            (f'{{"q": "Hund", "source": "de", "target": "en", "glossary": {glossary}}}', "application/json"),
            (urlencode({"q": "Hund", "source": "de", "target": "en", "glossary": glossary}), FORM),
        ):
            status = served.ask("/translate", body.encode(), Content_Type=kind).status
            assert (status, max(parsed, default=0) < 1000) == (400 if "[" in glossary else 200, True)


def test_json_commas_and_brackets_in_strings_are_no_values(served: Running) -> None:
    q = "Hund [,{" * 300 + '\\ " \\" [,{'
    for ascii_only in (True, False):
        body = json.dumps({"q": [q] * 20, "ä": 1}, ensure_ascii=ascii_only).encode()
        assert served.ask("/detect", body, Content_Type="application/json").status == 200


@pytest.mark.parametrize(
    ("n", "value", "error"),
    [
        (900, 1, "Invalid request: glossary parameter: Input should be a valid string"),
        (900, "a" * 201, "Invalid request: glossary parameter: String should have at most 200 characters"),
        (4900, 1, "Invalid request: request (4900) exceeds text limit (1000) of entries in glossary; send it in parts"),
    ],
)
def test_glossary_with_many_wrong_entries_has_one_error(served: Running, n: int, value: object, error: str) -> None:
    """Its size comes before its entries."""
    glossary = {str(number): value for number in range(n)}
    answer = served.post("/translate", q="Hund", source="de", target="en", glossary=glossary)
    assert (answer.status, answer.body) == (400, {"error": error})


def test_percent_decoding_equals_urllib() -> None:
    chance = random.Random(0)
    for _ in range(2000):
        text = bytes(chance.choices(b"%%%=+ab4F\r\n \t_.\x00\xff", k=chance.randint(0, 12)))
        assert request_bodies._percent_decode(text) == unquote_to_bytes(text.replace(b"+", b" "))


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; name="q"',
        "content-disposition: form-data; name=q",
        'Content-Disposition: form-data; name="q"\r\nContent-Type: text/plain; charset=utf-8',  # aiohttp
        'Content-Type: text/plain\r\nContent-Disposition: form-data; name="q"',
        'Content-Disposition: form-data; name="q"\r\nContent-Length: 4',  # Guzzle
    ],
)
@pytest.mark.parametrize("boundary", ["b", "----WebKitFormBoundary7MA4", "'a b'"])
def test_multipart_forms_of_several_clients_are_read(served: Running, head: str, boundary: str) -> None:
    others = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{code}\r\n'
        for name, code in (("source", "de"), ("target", "en"))
    )
    body = f"preamble\r\n{others}--{boundary}\r\n{head}\r\n\r\nHund\r\n--{boundary}--\r\n"
    kind = f'multipart/form-data; boundary="{boundary}"'
    asked = served.post("/translate", q="Hund", source="de", target="en")
    assert served.ask("/translate", body.encode(), Content_Type=kind).body == asked.body
