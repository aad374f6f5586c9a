"""What may be asked, and how much of it: the bodies of requests, and how they are read.

FastAPI checks parameters by these models and describes them in /openapi.json; JSON and forms are parsed here. Where a
key is needed, a body is searched for it before anything else is read of it. Then what parsing would cost is bounded by
what can be counted in bytes, so that no call keeps other threads waiting. Knows no translators.
"""

import asyncio
import binascii
import hmac
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from starlette.exceptions import HTTPException

from transformer_cli.errors import DataError

GONE = 499  # nginx's status for a client that has gone; nobody reads it
MOST = 1000  # fields of a form, texts in a list, ids of a prefix, terms of a glossary
LONGEST_TERM = 200  # characters
HEAD = 1000  # bytes of a part of a form in which its name stands
BARE_PERCENTS = 10_000  # percent signs of a value that encode nothing
SMALL_BODY = 1 << 16  # bytes of a body that is read however many others are arriving
FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
JSON_KIND = re.compile(r"application/(.*\+)?json")
NO_FORM = "Invalid request: not a form that can be read; send JSON or a form"
_KEY_IN_JSON = re.compile(rb'"api_key"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_KEY_IN_FORM = re.compile(rb"api_key=(?<![^&]api_key=)([^&]*)")
_KEY_IN_PARTS = re.compile(rb'name="?api_key"?\r\n(?:[\w-]{1,40}:[^\r\n]{0,200}\r\n){0,3}\r\n([^\r\n]*)')
_BARE_PERCENT = re.compile(rb"%(?![\da-fA-F]{2})")  # as in q=5% of all, which curl -d sends as it is
_NAME = re.compile(rb'content-disposition:[^\r\n]*;\s*name="?([^"\r\n;]*)', re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What the server bounds, so that no request can take all of its memory or time."""

    body: int = 2 << 20
    """bytes of a request: more than `characters` need, however they are escaped"""
    bodies: int = 64 << 20
    """bytes of all bodies that are still arriving; beyond them, only those up to SMALL_BODY are read"""
    body_seconds: float = 30.0
    """how long a client may take to send a request"""
    values: int = 5000
    """values in the JSON of a request, those inside others included"""
    lines: int = 1000
    """lines of one request"""
    sentences: int = 2000
    """sentences of one request, if its lines are split"""
    characters: int = 100_000
    """characters of one request, its glossary included"""
    tokens: int = 500
    """tokens of a line: its translation has at most twice as many and 10, also where a model has no last position"""
    hypotheses: int = 2500
    """tokens × hypotheses of a sentence: with many alternatives, it may have fewer tokens"""
    alternatives: int = 10
    """further translations of each line"""
    inspected: int = 200
    """tokens of a sentence that is looked into, whose answer grows with their square"""
    looks: int = 32
    """answers about sentences that are being computed, or read by slow clients"""
    look_lines: int = 25
    """lines that looking into a sentence counts as: nothing is computed together with it, and much is returned"""
    waiting: int = 5000
    """lines that have not been translated yet, of all requests"""
    waiting_cost: int = 2_000_000
    """what these cost, in characters × hypotheses; a request that costs more is taken where nothing waits"""
    window_seconds: float = 0.005
    """how long a worker waits for further requests before it translates the first one, where several clients ask"""


Text = Annotated[str, Field(min_length=1)]
Code = Annotated[str, StringConstraints(min_length=1, to_lower=True)]
Term = Annotated[str, Field(max_length=LONGEST_TERM)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MOST, fail_fast=True)]


def _is_term(text: object) -> bool:
    return isinstance(text, str) and len(text) <= LONGEST_TERM


class Question(BaseModel):
    """What every address that computes reads."""

    model_config = ConfigDict(str_min_length=0)  # a string whose length has a limit may hold no lone surrogate

    api_key: str | None = Field(
        None, description="The key, if the server has one; or the header Authorization: Bearer KEY."
    )


class DetectQuestion(Question):
    """`POST /detect`."""

    q: Text | Texts = Field(description="The text, or texts.")

    @property
    def n_characters(self) -> int:
        return sum(map(len, self.q)) if isinstance(self.q, list) else len(self.q)


class DirectedQuestion(Question):
    """What is asked of one direction."""

    source: Code = Field(
        description="A language's code, or auto for the one that the text seems to be in.", examples=["auto"]
    )
    target: Code = Field(description="A language's code.", examples=["en"])
    glossary: Annotated[dict[Term, Term], Field(max_length=MOST)] = Field(
        {},
        description="Words and phrases, and their translations: see docs/translate.md.",
        examples=[{"Hund": "hound"}],
    )

    @property
    def n_in_glossary(self) -> int:
        """The characters of all terms, each of which takes time and memory while the request waits."""
        return sum(len(source) + len(translation) for source, translation in self.glossary.items())

    @field_validator("glossary", mode="before")
    @classmethod
    def _only_its_first_error(cls, value: object) -> object:
        """Leaves of a wrong glossary what shows its first error: pydantic would list those of all its entries."""
        if not isinstance(value, dict):
            return value
        if len(value) > MOST:
            return dict.fromkeys(map(str, range(MOST + 1)), "")
        return next(({key: text} for key, text in value.items() if not (_is_term(key) and _is_term(text))), value)


class TranslateQuestion(DirectedQuestion, DetectQuestion):
    """`POST /translate`: each line of a text is translated by itself."""

    format: str | None = Field(None, description="text or html. Of HTML, each block is a line.")
    alternatives: int | None = Field(None, description="How many further translations of each text are wanted.")
    split: bool = Field(True, description="Whether the sentences of each line are translated one by one.")
    sentences: bool = Field(False, description="Whether the sentences, and where they stand, are wanted too.")


class SentenceQuestion(DirectedQuestion):
    """What is asked about one sentence, and perhaps the beginning of its translation."""

    q: Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")] = Field(description="A sentence on one line.")
    prefix: Annotated[list[int], Field(max_length=MOST, fail_fast=True)] = Field(
        [], description="The ids that the translation begins with; <eos> as the last one ends it there."
    )


class AttentionQuestion(SentenceQuestion):
    """What is asked about the attention in one layer."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="What attends to what.")
    layer: int | None = Field(None, description="Which layer, counted from 1. Default: the last.")
    head: int | None = Field(None, description="Which head, counted from 1. Default: all of them.")


class BoundedRoute(APIRoute):
    """An address whose body is read here, within the server's limits; FastAPI gets its parameters."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def answer_bounded(request: Request) -> Response:
            return await answer(await _parsed(request) if request.method == "POST" else request)

        return answer_bounded


class _Parsed(Request):
    """A request whose parameters are known. It does not keep its body, which may be larger, while it is answered."""

    def __init__(self, request: Request, parameters: dict[str, Any]) -> None:
        headers = [each for each in request.scope["headers"] if each[0] != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._parameters = parameters

    async def body(self) -> bytes:
        """Returns something, or FastAPI would not ask for the JSON."""
        return b"{}"

    async def json(self) -> Any:
        return self._parameters


async def _parsed(request: Request) -> Request:
    """Returns a request with its parameters. Raises DataError or HTTPException."""
    service, body, query = request.app.state.service, await _read(request), request.scope["query_string"]
    limits, content_type = service.limits, request.headers.get("content-type", FORM)
    if service.api_key is not None:
        authorization = request.headers.get("authorization", "").encode("latin-1")
        _refuse_without(service.api_key.encode(), authorization, _kind(content_type), body, query)
    try:
        if JSON_KIND.fullmatch(_kind(content_type)):
            parameters = _of_json(body, limits)
        else:
            parameters = _of_form(content_type, body, query)
            if isinstance(glossary := parameters.get("glossary"), str):
                with suppress(DataError):  # what is no JSON is no object either, which is said
                    parameters["glossary"] = _of_json(glossary.encode(), limits)
    except UnicodeDecodeError:
        raise DataError("Invalid request: not in UTF-8; encode it in UTF-8") from None
    if not isinstance(parameters, dict):
        raise DataError("Invalid JSON format")
    if (n_characters := len(json.dumps(parameters, ensure_ascii=False))) > 2 * limits.characters:  # escapes included
        refuse_beyond(n_characters, limits.characters, "characters")
    return _Parsed(request, parameters)


async def _read(request: Request) -> bytes:
    """Returns the body. Raises HTTPException if it is too long, not there in time, or too much is arriving.

    Of a body that is refused all is read and thrown away, since few clients listen while they send.
    """
    service, limits, close = request.app.state.service, request.app.state.service.limits, {"Connection": "close"}
    chunks, size, kept, is_more = list[bytes](), 0, 0, True
    refused: HTTPException | None = None

    async def read() -> None:
        nonlocal size, kept, is_more, refused
        while is_more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(GONE, "gone")
            chunk, is_more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > limits.body:
                why = f"Invalid request: its body has more than {limits.body:,} bytes; send it in parts"
                refused = HTTPException(413, why, close)
            elif size > SMALL_BODY and service.n_arriving + len(chunk) > limits.bodies:
                why = "too many bytes of requests are arriving; try again later"
                refused = refused or HTTPException(503, why, {**close, "Retry-After": "1"})
            chunks.append(chunk)
            if refused:
                chunks.clear()
            service.n_arriving += (0 if refused else size) - kept
            kept = 0 if refused else size

    try:
        await asyncio.wait_for(read(), limits.body_seconds)
    except asyncio.TimeoutError:
        why = f"Invalid request: its body did not come within {limits.body_seconds:g} seconds; send it faster"
        refused = refused or HTTPException(408, why, close)
    finally:
        service.n_arriving -= kept
    if refused:
        raise refused
    return b"".join(chunks)


def _refuse_without(api_key: bytes, authorization: bytes, kind: str, body: bytes, query: bytes) -> None:
    """Raises HTTPException if neither a header nor a parameter has the right key. Nothing else is looked at.

    One is enough: a wrong one in the header may be a proxy's.
    """
    scheme, _, token = authorization.partition(b" ")
    keys = [token.strip()] if scheme.lower() == b"bearer" else []
    if JSON_KIND.fullmatch(kind):
        for found in islice(_KEY_IN_JSON.finditer(body), MOST):
            with suppress(ValueError):
                keys.append(json.loads(found[1]).encode())
    else:
        in_body = _KEY_IN_PARTS if kind == PARTS else _KEY_IN_FORM
        for found in (*islice(in_body.finditer(body), MOST), *islice(_KEY_IN_FORM.finditer(query), MOST)):
            with suppress(DataError):
                keys += [found[1], _unquoted(found[1])]  # as it is in parts
    if not any(keys):
        raise HTTPException(400, "Please contact the server operator to get an API key")
    if not any(hmac.compare_digest(key, api_key) for key in keys):
        raise HTTPException(403, "Invalid API key")


def _of_json(body: bytes, limits: Limits) -> Any:
    r"""Returns what is said in JSON. Raises DataError if it is none, or has too many values, UnicodeDecodeError.

    Values are counted by the commas and brackets that do not stand between quotes: of {"a, \" b": [1, 2]}, {: [1, 2]}
    is left, which has three.
    """
    text, strings = body.decode("utf-8-sig"), body.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_large = strings.count(b'"') > 4 * limits.values
    outside = b"" if is_large else b"".join(strings.split(b'"')[::2])
    if is_large or sum(map(outside.count, (b",", b"[", b"{"))) > limits.values:
        raise DataError(f"Invalid request: its JSON has more than {limits.values:,} values; send fewer")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"Invalid JSON format: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):  # a number of 5,000 digits; brackets in brackets
        raise DataError("There was an error parsing the body") from None


def _of_form(content_type: str, body: bytes, query: bytes) -> dict[str, Any]:
    r"""Returns the parameters in the URL and in a form, as lists where a name is repeated.

    If both have a name, the URL's are taken, and beside JSON none of the URL, as in LibreTranslate (`request.values`).
    Browsers send their line ends as "\r\n". curl -d sends UTF-8 as it is. Raises DataError for what is no form,
    UnicodeDecodeError.
    """
    in_form, in_url = dict[str, list[str]](), dict[str, list[str]]()
    pairs = _parts(content_type, body) if _kind(content_type) == PARTS else []
    if _kind(content_type) == FORM:
        pairs = _pairs(body)
    for values_of, given in ((in_form, pairs), (in_url, _pairs(query))):
        for name, value in given:
            values_of.setdefault(name.decode(), []).append(value.decode().replace("\r\n", "\n"))
    if _kind(content_type) not in (FORM, PARTS) and not in_url:
        raise DataError(f"Invalid request: {_kind(content_type)[:50]} is not read; send JSON or a form")
    return {name: values if len(values) > 1 else values[0] for name, values in {**in_form, **in_url}.items()}


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _pairs(form: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the names and values of a form or a query. Raises DataError if it has too many, or cannot be read."""
    if form.count(b"&") >= MOST:
        raise DataError(NO_FORM)
    fields = (each.partition(b"=") for each in form.split(b"&") if each)
    return [(_unquoted(name), _unquoted(value)) for name, _, value in fields]


def _unquoted(text: bytes) -> bytes:
    """Returns what %XX and + stand for, as `unquote_plus` does, in a tenth of its time. Raises DataError."""
    text = text.replace(b"+", b" ")
    if b"%" not in text:
        return text
    text = _BARE_PERCENT.sub(b"%25", text, count=BARE_PERCENTS)
    if _BARE_PERCENT.search(text):
        raise DataError(NO_FORM)
    return binascii.a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))  # "quoted printable" writes = for %


def _parts(content_type: str, body: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the names and values of a form in parts (RFC 7578). Raises DataError if it is none, or has a file."""
    boundary = re.search(r"boundary=(\"[^\"]+\"|[^\s;]+)", content_type, re.IGNORECASE)
    if not boundary or re.search(r"charset=(?!\"?utf-?8\b)", content_type, re.IGNORECASE):
        raise DataError(NO_FORM)
    line = b"\r\n--" + boundary[1].strip('"').encode("latin-1")
    _, *parts = (b"\r\n" + body).split(line, MOST + 2)
    found = list[tuple[bytes, bytes]]()
    for part in parts[: MOST + 1]:
        if part.startswith(b"--"):
            return found
        head, _, value = part.partition(b"\r\n\r\n")
        name = _NAME.search(head[:HEAD])
        if not name or b"filename" in head[:HEAD].lower():
            break
        found.append((name[1], value))
    raise DataError(NO_FORM)


def refuse_beyond(size: int, limit: int, unit: str) -> None:
    """Raises DataError in LibreTranslate's words, which counts only characters, if there is more than may be."""
    if size > limit:
        what = "" if unit == "characters" else f" of {unit}; send it in parts"
        raise DataError(f"Invalid request: request ({size}) exceeds text limit ({limit}){what}")


def words_for(wrong: RequestValidationError) -> str:
    """Returns the first thing that is wrong with a body, in LibreTranslate's words."""
    first = min(wrong.errors(), key=lambda each: each["type"] != "too_long")  # of a union, the telling one
    _, *inside = first["loc"]  # q, or of a union ("q", "constrained-str"), and the index in a list
    if not inside:
        return "Invalid JSON format"
    name = str(inside[0])
    if first["type"] == "too_long":
        size, limit = first["ctx"]["actual_length"], first["ctx"]["max_length"]
        if name == "q":
            return f"Invalid request: request ({size}) exceeds text limit ({limit})"
        return f"Invalid request: {name} parameter exceeds limit ({limit}) of entries; send fewer"
    if first["type"] in ("int_parsing", "int_type") and len(inside) == 1:
        return f"Invalid request: {name} parameter is not a number"
    if first["type"] == "missing" or (first["input"] in (None, "", []) and not isinstance(inside[-1], int)):
        return f"Invalid request: missing {name} parameter"
    return f"Invalid request: {name} parameter: {first['msg'].partition(', unable')[0]}"
