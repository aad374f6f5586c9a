"""What may be asked, and how much of it: the bodies of requests, and how they are read.

Parameters are checked by these models, which /openapi.json describes; JSON and forms are parsed here. Where a
key is needed, a body is searched for it before anything else is read of it. Then what parsing would cost is bounded by
what can be counted in bytes, so that no call keeps other threads waiting. Knows no translators.
"""

import asyncio
import hmac
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from starlette.exceptions import HTTPException

from transformer_cli.errors import DataError

CLIENT_CLOSED = 499  # nginx's status for a client that has gone; nobody reads it
MAX_ENTRIES = 1000  # fields of a form, texts in a list, ids of a prefix, terms of a glossary
MAX_TERM_CHARS = 200  # characters
MAX_PART_HEADER = 1000  # bytes of a part of a form in which its name stands
SMALL_BODY_BYTES = 1 << 16  # bytes of a body that is read however many others are arriving, and parsed at once
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
JSON_TYPE = re.compile(r"application/(.*\+)?json")
UNREADABLE_FORM = "Invalid request: not a form that can be read; send JSON or a form"
_API_KEY_IN_JSON = re.compile(rb'"api_key"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_PERCENT_ENCODED = re.compile(rb"(?:%[\da-fA-F]{2})+")
_PART_NAME = re.compile(rb'^content-disposition:[^\r\n]*;[ \t]*name="?([^"\s;]*)"?\s*$', re.IGNORECASE | re.MULTILINE)

Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Limits:
    """What the server bounds, so that no request can take all of its memory or time."""

    body_bytes: int = 2 << 20
    """bytes of a request: more than `characters` need, however they are escaped"""
    all_bodies_bytes: int = 64 << 20
    """bytes of all bodies that are arriving or wait to be parsed; beyond them, only those up to SMALL_BODY are read"""
    body_timeout_s: float = 30.0
    """how long a client may take to send a request"""
    json_values: int = 5000
    """values in the JSON of a request, those inside others included"""
    lines: int = 1000
    """lines of one request"""
    sentences: int = 2000
    """sentences of one request, if its lines are split"""
    characters: int = 100_000
    """characters of one request, its glossary included"""
    line_tokens: int = 500
    """tokens of a line: its translation has at most twice as many and 10, also where a model has no last position"""
    hypothesis_tokens: int = 2500
    """tokens × hypotheses of a sentence: with many alternatives, it may have fewer tokens"""
    alternatives: int = 10
    """further translations of each line"""
    inspected_tokens: int = 200
    """tokens of a sentence that is looked into, whose answer grows with their square"""
    inspections: int = 32
    """answers about sentences that are being computed, or read by slow clients"""
    inspection_lines: int = 25
    """lines that looking into a sentence counts as: nothing is computed together with it, and much is returned"""
    waiting_lines: int = 5000
    """lines of all requests that wait for their translation"""
    waiting_cost: int = 2_000_000
    """what these cost, in characters × hypotheses; a request that costs more is taken where nothing waits"""
    batching_delay_s: float = 0.005
    """how long a worker waits for further requests before it translates the first one, where several clients ask"""


Text = Annotated[str, Field(min_length=1)]
LanguageCode = Annotated[str, StringConstraints(min_length=1, to_lower=True)]
Term = Annotated[str, Field(max_length=MAX_TERM_CHARS)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_ENTRIES, fail_fast=True)]


class TextBody(BaseModel):
    """What every address that computes reads, and all that `POST /detect` reads."""

    model_config = ConfigDict(str_min_length=0)  # a string whose length has a limit may hold no lone surrogate

    api_key: str | None = Field(None, description="The key, if there is one; or the header Authorization: Bearer KEY.")
    q: Text | Texts = Field(description="The text, or texts.")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class LanguagePairBody(TextBody):
    """What is asked of one direction."""

    source: LanguageCode = Field(description="A language's code, or auto for that of the text.", examples=["auto"])
    target: LanguageCode = Field(description="A language's code.", examples=["en"])
    glossary: Annotated[dict[Term, Term], Field(max_length=MAX_ENTRIES)] = Field(
        {},
        description="Words and phrases, and their translations: see docs/translate.md.",
        examples=[{"Hund": "hound"}],
    )

    @property
    def n_glossary_characters(self) -> int:
        """The characters of all terms, each of which takes time and memory while the request waits."""
        return sum(len(source) + len(translation) for source, translation in self.glossary.items())

    @property
    def n_characters(self) -> int:
        return sum(map(len, self.texts)) + self.n_glossary_characters

    @field_validator("glossary", mode="before")
    @classmethod
    def _keep_first_error(cls, value: object) -> object:
        """Leaves of a wrong glossary what shows its first error: pydantic would list those of all its entries."""
        for entry in value.items() if isinstance(value, dict) else ():
            if not all(isinstance(text, str) and len(text) <= MAX_TERM_CHARS for text in entry):
                return dict([entry])
        return value


class TranslateBody(LanguagePairBody):
    """`POST /translate`: each line of a text is translated by itself."""

    format: str | None = Field(None, description="text or html. Of HTML, each block is a line.")
    alternatives: int | None = Field(None, description="How many further translations of each text are wanted.")
    split: bool = Field(True, description="Whether the sentences of each line are translated one by one.")
    sentences: bool = Field(False, description="Whether the sentences, and where they stand, are wanted too.")


class InspectBody(LanguagePairBody):
    """What is asked about one sentence, and perhaps the beginning of its translation."""

    q: Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")] = Field(description="A sentence on one line.")
    prefix: Annotated[list[int], Field(max_length=MAX_ENTRIES, fail_fast=True)] = Field(
        [], description="The ids that the translation begins with; <eos> as the last one ends it there."
    )


class AttentionBody(InspectBody):
    """What is asked about the attention in one layer."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="What attends to what.")
    layer: int | None = Field(None, description="Which layer, counted from 1. Default: the last.")
    head: int | None = Field(None, description="Which head, counted from 1. Default: all of them.")


def parsed_as(model: type[TextBody]) -> Any:
    """Returns what FastAPI gets a parameter by: what the body of a request says, read within the server's limits."""

    async def read(request: Request) -> TextBody:
        return model.model_validate(await _parse_request(request))

    return Depends(read)


def body_schema(model: type[TextBody]) -> dict[str, Any]:
    """Returns how /openapi.json describes such a body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}


async def _parse_request(request: Request) -> dict[str, Any]:
    """Returns the parameters of a request, which does not keep its body. Raises DataError or HTTPException."""
    service, body = request.app.state.service, bytearray()
    try:
        await _receive(request, body)
        if len(body) <= SMALL_BODY_BYTES:
            return _parse_body(request, bytes(body))
        async with service.parsing_lock:
            return await asyncio.to_thread(_parse_body, request, bytes(body))
    finally:
        service.n_body_bytes -= len(body)


async def _receive(request: Request, body: bytearray) -> None:
    """Read the body. Raises HTTPException if it is too long, not there in time, or too much is arriving.

    Of a body that is refused all is read and thrown away, since few clients listen while they send.
    """
    service, limits, close = request.app.state.service, request.app.state.service.limits, {"Connection": "close"}
    refused: HTTPException | None = None
    is_more, deadline = True, monotonic() + limits.body_timeout_s
    while is_more:
        try:
            message = await asyncio.wait_for(request.receive(), deadline - monotonic())
        except asyncio.TimeoutError:
            why = f"Invalid request: its body did not come within {limits.body_timeout_s:g} seconds; send it faster"
            raise refused or HTTPException(408, why, close) from None
        if message["type"] == "http.disconnect":
            raise HTTPException(CLIENT_CLOSED, "gone")
        chunk, is_more = message.get("body", b""), message.get("more_body", False)
        size = len(body) + len(chunk)
        if size > limits.body_bytes:
            why = f"Invalid request: its body has more than {limits.body_bytes:,} bytes; send it in parts"
            refused = HTTPException(413, why, close)
        elif size > SMALL_BODY_BYTES and service.n_body_bytes + len(chunk) > limits.all_bodies_bytes:
            why = "too many bytes of requests are arriving; try again later"
            refused = refused or HTTPException(503, why, {**close, "Retry-After": "1"})
        if refused:
            service.n_body_bytes -= len(body)
            body.clear()
        else:
            service.n_body_bytes += len(chunk)
            body.extend(chunk)
    if refused:
        raise refused


def _parse_body(request: Request, body: bytes) -> dict[str, Any]:
    """Returns what is asked, if the key is right. Raises DataError or HTTPException."""
    service, content_type = request.app.state.service, request.headers.get("content-type", FORM)
    media_type = content_type.partition(";")[0].strip().lower()
    is_json = JSON_TYPE.fullmatch(media_type) is not None
    in_url = [] if is_json else _form_fields(request.scope["query_string"])
    in_body = (
        _multipart_fields(content_type, body)
        if media_type == MULTIPART
        else _form_fields(body if media_type == FORM else b"")
    )
    if service.api_key is not None:
        _check_api_key(service.api_key.encode(), request.headers.get("authorization", ""), body, in_body + in_url)
    try:
        if is_json:
            parameters = _parse_json(body, service.limits)
        elif media_type in (FORM, MULTIPART) or in_url:
            parameters = _form_parameters(in_body, in_url)
        else:
            raise DataError(f"Invalid request: {media_type[:50]} is not read; send JSON or a form")
        if not is_json and isinstance(glossary := parameters.get("glossary"), str):
            with suppress(DataError):  # what is no JSON is no object either, which is said
                parameters["glossary"] = _parse_json(glossary.encode(), service.limits)
    except UnicodeDecodeError:
        raise DataError("Invalid request: not in UTF-8; encode it in UTF-8") from None
    if not isinstance(parameters, dict):
        raise DataError("Invalid JSON format")
    for name, value in parameters.items():
        if isinstance(value, list | dict):  # whose items are looked at later
            refuse_over_limit(len(value), MAX_ENTRIES, "characters" if name == "q" else f"entries in {name}")
    return parameters


def _check_api_key(api_key: bytes, authorization: str, body: bytes, fields: Fields) -> None:
    """Raises HTTPException if neither a header nor a parameter has the right key. Nothing else is looked at.

    One is enough: a wrong one in the header may be a proxy's.
    """
    scheme, _, token = authorization.partition(" ")
    keys = [token.strip().encode("latin-1")] if scheme.lower() == "bearer" else []
    for found in islice(_API_KEY_IN_JSON.finditer(body), MAX_ENTRIES):
        with suppress(ValueError):
            keys.append(json.loads(found[1]).encode())
    for name, value in fields:
        if name == b"api_key":
            keys.append(_percent_decoded(value[: 3 * len(api_key) + 1]))  # what is longer is wrong anyway
    if not any(keys):
        raise HTTPException(400, "Please contact the server operator to get an API key")
    if not any(hmac.compare_digest(key, api_key) for key in keys):
        raise HTTPException(403, "Invalid API key")


def _parse_json(body: bytes, limits: Limits) -> Any:
    r"""Returns what is said in JSON. Raises DataError if it is none, or has too many values, UnicodeDecodeError.

    Values are counted by the commas and brackets that do not stand between quotes: of {"a, \" b": [1, 2]}, {: [1, 2]}
    is left, which has three. Where there are more quotes than so many values have, the rest is counted as it is.
    """
    text, strings = body.decode("utf-8-sig"), body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(strings.split(b'"', 4 * limits.json_values)[::2])
    if sum(map(outside.count, (b",", b"[", b"{"))) > limits.json_values:
        raise DataError(f"Invalid request: its JSON has more than {limits.json_values:,} values; send fewer")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"Invalid JSON format: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):  # a number of 5,000 digits; brackets in brackets
        raise DataError("There was an error parsing the body") from None


def _form_parameters(in_body: Fields, in_url: Fields) -> dict[str, Any]:
    r"""Returns the parameters in the URL and in a form, as lists where a name is repeated.

    If both have a name, the URL's are taken, and beside JSON none of the URL, as in LibreTranslate (`request.values`).
    Browsers send their line ends as "\r\n". Raises UnicodeDecodeError.
    """
    found: dict[str, Any] = {}
    for fields in (in_body, in_url):
        values_of: dict[str, list[str]] = {}
        for name, value in fields:
            text = _percent_decoded(value).decode().replace("\r\n", "\n")
            values_of.setdefault(_percent_decoded(name).decode(), []).append(text)
        found |= {name: values if len(values) > 1 else values[0] for name, values in values_of.items()}
    return found


def _percent_decoded(text: bytes) -> bytes:
    """Returns what %XX and + stand for. Other percent signs stay, as in q=5% of all, which curl -d sends as it is."""
    return _PERCENT_ENCODED.sub(
        lambda run: bytes.fromhex(run[0].replace(b"%", b" ").decode()), text.replace(b"+", b" ")
    )


def _form_fields(form: bytes) -> Fields:
    """Returns the names and values of a form or a query as they are written. Raises DataError if it has too many."""
    if form.count(b"&") >= MAX_ENTRIES:
        raise DataError(UNREADABLE_FORM)
    return [(name, value) for name, _, value in (each.partition(b"=") for each in form.split(b"&") if each)]


def _multipart_fields(content_type: str, body: bytes) -> Fields:
    """Returns those of a form in parts (RFC 7578), as the other kind writes them. Raises DataError; for files, too."""
    boundary = re.search(r'boundary="?([^";]+)', content_type, re.IGNORECASE)
    line = b"\r\n--" + (boundary[1].strip() if boundary else "").encode("latin-1")
    form, end, _ = (b"\r\n" + body).partition(line + b"--")
    _, *parts = form.split(line, MAX_ENTRIES + 1)
    found = Fields()
    for part in parts:
        head, _, value = part.partition(b"\r\n\r\n")
        if name := _PART_NAME.search(head[:MAX_PART_HEADER]):
            found.append((name[1], value.replace(b"%", b"%25").replace(b"+", b"%2B")))
    if not (boundary and end) or len(parts) > min(MAX_ENTRIES, len(found)):
        raise DataError(UNREADABLE_FORM)
    return found


def refuse_over_limit(size: int, limit: int, unit: str) -> None:
    """Raises DataError in LibreTranslate's words, which counts only characters, if there is more than may be."""
    if size > limit:
        what = "" if unit == "characters" else f" of {unit}; send it in parts"
        raise DataError(f"Invalid request: request ({size}) exceeds text limit ({limit}){what}")


def validation_message(wrong: ValidationError) -> str:
    """Returns the first thing that is wrong with a body, in LibreTranslate's words."""
    first, *_ = wrong.errors()
    name, *inside = first["loc"]  # of a union "q", "constrained-str", and the index in a list
    if first["type"] in ("int_parsing", "int_type") and not inside:
        return f"Invalid request: {name} parameter is not a number"
    if first["type"] == "missing" or (first["input"] in (None, "", []) and not isinstance(first["loc"][-1], int)):
        return f"Invalid request: missing {name} parameter"
    return f"Invalid request: {name} parameter: {first['msg'].partition(', unable')[0]}"
