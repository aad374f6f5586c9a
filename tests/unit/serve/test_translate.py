"""`POST /translate` and `GET /languages`, as LibreTranslate's clients use them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from libretranslatepy import LibreTranslateAPI

from served import Running, running
from transformer_cli.runs.run import Run
from transformer_cli.serve.questions import Limits
from transformer_cli.translator import Translator

LINES = ["Der kleine Hund läuft im Park.", "", "Die alte Frau singt zu Hause."]


@pytest.fixture(scope="module")
def expected(translator: Translator) -> list[str]:
    return translator.translate(LINES)


def test_the_client_from_the_registry_works_unchanged(served: Running, expected: list[str]) -> None:
    client = LibreTranslateAPI(served.url)
    assert client.translate(LINES[0], "de", "en") == expected[0]
    assert client.translate("\n".join(LINES), "de", "en") == "\n".join(expected)
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


@pytest.mark.parametrize("by", ["post", "post_form"])
def test_a_text_is_answered_by_a_text_and_a_list_by_a_list(served: Running, expected: list[str], by: str) -> None:
    post = getattr(served, by)
    text = "\n".join(LINES)
    assert post("/translate", q=text, source="de", target="en").body == {"translatedText": "\n".join(expected)}
    assert post("/translate", q=[text, LINES[0]], source="de", target="en").body == {
        "translatedText": ["\n".join(expected), expected[0]]
    }


def test_forms_in_parts_and_addresses_are_read_too(served: Running, expected: list[str]) -> None:
    fields = {"q": LINES[0], "source": "de"}
    body = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    answer = served.ask(
        "/translate?target=en", f"{body}--b--\r\n".encode(), Content_Type="multipart/form-data; boundary=b"
    )
    assert answer.body == {"translatedText": expected[0]}


def test_line_ends_of_browsers_are_line_ends(served: Running, expected: list[str]) -> None:
    answer = served.post_form("/translate", q="\r\n".join(LINES), source="de", target="en", format="text")
    assert answer.body == {"translatedText": "\n".join(expected)}


def test_the_only_source_language_need_not_be_named(served: Running, expected: list[str]) -> None:
    detected = {"confidence": 100.0, "language": "de"}
    assert served.post("/translate", q=LINES[0], source="auto", target="en").body == {
        "translatedText": expected[0],
        "detectedLanguage": detected,
    }
    answer = served.post("/translate", q=LINES, source="auto", target="en")
    assert answer.body == {"translatedText": expected, "detectedLanguage": [detected] * 3}


def test_alternatives_are_those_of_a_beam_that_holds_them(served: Running) -> None:
    answer = served.post("/translate", q=LINES[:2], source="de", target="en", alternatives=3).body
    of_first, of_blank = answer["alternatives"]
    assert len({answer["translatedText"][0], *of_first}) == 4
    assert (answer["translatedText"][1], of_blank) == ("", [])
    text = served.post("/translate", q=LINES[0], source="de", target="en", alternatives=3).body
    assert text == {"translatedText": answer["translatedText"][0], "alternatives": of_first}


def test_the_only_source_language_is_detected(served: Running, single: Translator, tiny: Run) -> None:
    answer = [{"confidence": 100.0, "language": "de"}]
    assert served.post_form("/detect", q="Hund").body == served.post("/detect", q=["Hund"]).body == answer
    assert LibreTranslateAPI(served.url).detect("Hund") == answer
    config = tiny.config.model_copy(update={"data": tiny.config.data.model_copy(update={"source": "fr"})})
    french = Translator(replace(tiny, config=config), torch.device("cpu"), batches_at_a_time=1)
    with running(single, french) as both:
        refused = both.post("/detect", q="Hund")
    assert (refused.status, refused.body) == (
        400,
        {"error": "languages are not detected, and de and fr are translated here; name the source"},
    )


def test_a_server_has_a_longest_line_of_its_own(single: Translator) -> None:
    with running(single, limits=Limits(tokens=3)) as small:
        answer = small.post("/translate", q=["Hund", "Der Hund singt."], source="de", target="en")
    assert (answer.status, answer.body) == (
        400,
        {"error": "line 2: 4 tokens, but this server takes at most 3; split the sentence"},
    )


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 7}, "Invalid request: q parameter is not text or a list of texts"),
        ({"q": ["a", None]}, "Invalid request: q parameter is not text or a list of texts"),
        ({"q": "a\ud800"}, "Invalid request: q parameter is not text or a list of texts"),
        ({"q": ["a"] * 1001}, "Invalid request: q parameter exceeds limit (1000) of entries; send fewer"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": ["en"]}, "Invalid request: target parameter is not text"),
        ({"source": "fr"}, "fr is not supported; this server translates de→en"),
        ({"target": "auto"}, "auto is not supported; this server translates de→en"),
        (
            {"source": "en", "target": "de"},
            "German (de) is not available as a target language from English (en); this server translates de→en",
        ),
        ({"format": "html"}, "html format is not supported; send plain text, and format text"),
        ({"alternatives": "some"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 11}, "Invalid request: alternatives parameter (11) exceeds limit (10); ask for fewer"),
        (
            {"q": "Hund\n" * 1000},
            "Invalid request: request (1001) exceeds text limit (1000) of lines; send it in parts",
        ),
        (
            {"q": ["Hund " * 100] * 201},
            "Invalid request: request (100500) exceeds text limit (100000) of characters; send it in parts",
        ),
        ({"q": "Hund\n" + "x " * 2001}, "line 2: more than 4,000 characters; split the sentence"),
        ({"q": ["a", "Hund\n" + "(" * 501]}, "line 3: more than 500 characters without a space; split the sentence"),
        (
            {"q": ["Hund", "Hund " * 20]},
            "line 2: 20 tokens, but the model takes at most 14 (its 16 positions minus <sos> and <eos>); "
            "split the sentence",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(served: Running, changed: dict[str, Any], error: str) -> None:
    parameters = {"q": LINES[0], "source": "de", "target": "en", **changed}
    answer = served.post("/translate", **{name: value for name, value in parameters.items() if value is not None})
    assert (answer.status, answer.body) == (400, {"error": error})


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (
            b"{",
            "application/json",
            "Invalid JSON format: Expecting property name enclosed in double quotes at character 1",
        ),
        (b"", "application/json", "Invalid JSON format: not an object with keys such as q, source and target"),
        (b"[1]", "application/json", "Invalid JSON format: not an object with keys such as q, source and target"),
        (b'{"q": "\xff"}', "application/json", "Invalid request: its body is not UTF-8; encode it in UTF-8"),
        (b"q=%ff", "application/x-www-form-urlencoded", "Invalid request: its body is not UTF-8; encode it in UTF-8"),
        (b"junk", "multipart/form-data", "Invalid request: not a form that can be read; send JSON or a form"),
        (
            b'--b\r\nContent-Disposition: form-data; name="q"; filename="f"\r\n\r\nHund\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
            "Invalid request: not a form that can be read; send JSON or a form",
        ),
        (b"[" * 100_000, "application/json", "There was an error parsing the body"),
        (
            b'{"q": ' + b"9" * 5000 + b"}",
            "application/json",
            "There was an error parsing the body",
        ),
        (b"q=Hund&source=de&target=en", "text/plain", "Invalid request: text/plain is not read; send JSON or a form"),
        (
            b"&".join([b"a=1"] * 41_000),
            "application/x-www-form-urlencoded",
            "Invalid request: not a form that can be read; send JSON or a form",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nHund\r\n' * 1001 + b"--b--\r\n",
            "multipart/form-data; boundary=b",
            "Invalid request: not a form that can be read; send JSON or a form",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nHund\r\n--b--\r\n',
            "multipart/form-data; boundary=b; charset=punycode",
            "Invalid request: not a form that can be read; send JSON or a form",
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(served: Running, body: bytes, kind: str, error: str) -> None:
    answer = served.ask("/translate", body, Content_Type=kind)
    assert (answer.status, answer.body) == (400, {"error": error})


@pytest.mark.parametrize("q", ["\0", "Hund\0Hund", "\ufeff", "\u2028", "😀" * 5, "x" * 500, "()" * 7])
def test_any_text_has_a_translation(served: Running, translator: Translator, q: str) -> None:
    answer = served.post("/translate", q=q, source="de", target="en")
    assert answer.body == {"translatedText": translator.translate([q])[0]}


def test_a_sentence_to_be_looked_into_is_bounded_like_a_request(served: Running) -> None:
    answer = served.post("/inspect/steps", q="x " * 50_001, source="de", target="en")
    assert (answer.status, answer.body["error"]) == (
        400,
        "Invalid request: request (100002) exceeds text limit (100000) of characters; send it in parts",
    )
