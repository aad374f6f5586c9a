"""The bodies of requests: their models, their limits, and how they are received and parsed. Knows no translators.

Pydantic models check the parameters; /openapi.json describes them. A server with a key checks it before
anything else is parsed. `Limits` then bounds the cost of parsing, so that no request blocks other threads.
"""

import asyncio
import hmac
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from starlette.exceptions import HTTPException

from transformer_cli.errors import DataError

CLIENT_CLOSED = 499  # nginx's status for a client that has disconnected
MAX_ENTRIES = 1000  # fields of a form, texts in a list, ids of a prefix, terms of a glossary
MAX_TERM_CHARS = 200
MAX_PART_HEADER = 1000  # bytes of a multipart form's part that are searched for its name
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
JSON_TYPE = re.compile(r"application/(.*\+)?json")
UNREADABLE_FORM = "Invalid request: not a valid form; send JSON or a form"
_API_KEY_IN_JSON = re.compile(rb'"api_key"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_PERCENT_ENCODED = re.compile(rb"(?:%[\da-fA-F]{2})+")
_PART_NAME = re.compile(  # and the file's name, if it is one; .NET writes Größe.txt well in filename* alone
    rb'^content-disposition:[^\r\n]*?;[ \t]*name="?([^"\s;]*)"?(?:;[ \t]*filename=(?:"([^"\r\n]*)"?|([^;\r\n]*)))?'
    rb"(?:;[ \t]*filename\*=utf-8''([^\s;]*))?[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)

Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Limits:
    """Limits that keep any request from taking all memory or time."""

    body_bytes: int = 2 << 20
    """bytes of one body: enough for `characters`, however they are escaped"""
    file_bytes: int = 2 << 20
    """bytes of a document"""
    all_bodies_bytes: int = 64 << 20
    """bytes of all bodies that are arriving or not parsed yet; beyond it, only small ones are read"""
    small_body_bytes: int = 1 << 16
    """bytes of a small body, which is always read, and parsed at once"""
    body_timeout_s: float = 30.0
    """how long a client may take to send a body"""
    json_values: int = 5000
    """values in a JSON body, including nested ones"""
    lines: int = 1000
    """lines of one request"""
    sentences: int = 2000
    """sentences of one request, if its lines are split"""
    characters: int = 100_000
    """characters of one request, its glossary included"""
    line_tokens: int = 500
    """tokens of a line; its translation has at most 2 × as many + 10, even if the model has no limit"""
    alternatives: int = 10
    """further translations of each line"""
    inspected_tokens: int = 200
    """tokens of an inspected sentence; the answer's size grows with their square"""
    inspections: int = 32
    """inspections that are computed, or whose answers are being sent"""
    inspection_lines: int = 25
    """lines that an inspection counts as, since it is computed alone and returns much"""
    waiting_lines: int = 5000
    """lines of all requests that wait for their translation"""
    waiting_cost: int = 2_000_000
    """cost of these lines, in characters × hypotheses; a request that costs more is accepted if the queue is empty"""
    requests: int = 900
    """requests at a time"""
    batch_lines: int = 128
    """lines of a batch: about as many as Translator decodes at once"""
    batch_cost: int = 1 << 12
    """cost of a batch: at most 0.2 s of a small model"""
    short_job_cost: int = 1 << 12
    """jobs that cost at most this are computed first, in order of arrival"""
    long_job_delay_s: float = 0.25
    """from the end of a long job's batch until the next one comes before short jobs"""
    batching_delay_s: float = 0.005
    """how long a worker waits for further requests to fill a batch, if several clients send requests"""


Text = Annotated[str, Field(min_length=1)]
LanguageCode = Annotated[str, StringConstraints(min_length=1, to_lower=True)]
Term = Annotated[str, Field(max_length=MAX_TERM_CHARS)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_ENTRIES, fail_fast=True)]


class TextBody(BaseModel):
    """The body of `POST /detect`, and what all bodies have."""

    model_config = ConfigDict(str_min_length=0)  # with a length limit, pydantic refuses lone surrogates

    api_key: str | None = Field(None, description="The key, if one is needed; or send Authorization: Bearer KEY.")
    q: Text | Texts = Field(description="The text, or texts.")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class LanguagePairBody(TextBody):
    """A body that names the source and target languages."""

    source: LanguageCode = Field(description="A language's code, or auto to detect it.", examples=["auto"])
    target: LanguageCode = Field(description="A language's code.", examples=["en"])
    glossary: Annotated[dict[Term, Term], Field(max_length=MAX_ENTRIES)] = Field(
        {},
        description="Words and phrases, and their translations: see docs/translate.md.",
        examples=[{"Hund": "hound"}],
    )

    @property
    def n_glossary_characters(self) -> int:
        """The characters of all terms."""
        return sum(len(source) + len(translation) for source, translation in self.glossary.items())

    @property
    def n_characters(self) -> int:
        return sum(map(len, self.texts)) + self.n_glossary_characters


class TranslateBody(LanguagePairBody):
    """The body of `POST /translate`. Each line of a text is translated by itself."""

    format: str | None = Field(None, description="text or html. In HTML, each block is a line.")
    alternatives: int | None = Field(None, description="How many further translations of each text to return.")
    split: bool = Field(True, description="Translate the sentences of each line one by one.")
    sentences: bool = Field(False, description="Return the sentences and their positions, too.")


class FileBody(LanguagePairBody):
    """The body of `POST /translate_file`: a form with a file."""

    q: str = Field("", description="Not used.")
    file: Annotated[tuple[str, bytes], WithJsonSchema({"type": "string", "format": "binary"})]


class InspectBody(LanguagePairBody):
    """The body of an inspection: one sentence, and perhaps the beginning of its translation."""

    q: Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")] = Field(description="A sentence on one line.")
    prefix: Annotated[list[int], Field(max_length=MAX_ENTRIES, fail_fast=True)] = Field(
        [], description="Ids that the translation begins with; if the last is <eos>, it ends there."
    )


class AttentionBody(InspectBody):
    """The body of `POST /inspect/attention`."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="Encoder or decoder self-attention, or cross.")
    layer: int | None = Field(None, description="A layer, counted from 1. Default: the last.")
    head: int | None = Field(None, description="A head, counted from 1. Default: the mean of all heads.")


Body = TypeVar("Body", bound=TextBody)


async def read_body(request: Request, model: type[Body]) -> Body:
    """Receive and parse a request's body, within the server's limits. Raises DataError or HTTPException."""
    service, body, takes_file = request.app.state.service, bytearray(), "file" in model.model_fields
    limits: Limits = service.limits
    try:
        await _receive(request, body, limits.file_bytes + limits.small_body_bytes if takes_file else limits.body_bytes)
        if len(body) <= limits.small_body_bytes:
            parameters = _parse_body(request, bytes(body))
        else:
            async with service.parsing_lock:
                parameters = await asyncio.to_thread(_parse_body, request, bytes(body))
    finally:
        service.n_body_bytes -= len(body)
    if not takes_file and any(isinstance(each, tuple) for each in parameters.values()):
        raise DataError(UNREADABLE_FORM)
    return model.model_validate(parameters)


def body_schema(model: type[TextBody], media_type: str = "application/json") -> dict[str, Any]:
    """Returns the description of a body for /openapi.json."""
    return {"requestBody": {"required": True, "content": {media_type: {"schema": model.model_json_schema()}}}}


async def _receive(request: Request, body: bytearray, max_bytes: int) -> None:
    """Receive the body. Raises HTTPException if it is too long or too slow, or too many bytes are arriving.

    A refused body is read to its end and discarded, since few clients read an answer while they are sending.
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
        if size > max_bytes:
            why = f"Invalid request: its body has more than {max_bytes:,} bytes; send it in parts"
            refused = HTTPException(413, why, close)
        elif size > limits.small_body_bytes and service.n_body_bytes + len(chunk) > limits.all_bodies_bytes:
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
    """Check the key, then return the parameters, and files as tuples of name and content.

    Raises DataError or HTTPException.
    """
    service, content_type = request.app.state.service, request.headers.get("content-type", FORM)
    media_type = content_type.partition(";")[0].strip().lower()
    is_json = JSON_TYPE.fullmatch(media_type) is not None
    in_url = [] if is_json else _form_fields(request.scope["query_string"])
    files: dict[str, tuple[str, bytes]] = {}
    if media_type == MULTIPART:
        in_body = _multipart_fields(content_type, body, files)
    else:
        in_body = _form_fields(body if media_type == FORM else b"")
    if service.api_key is not None:
        _check_api_key(service.api_key.encode(), request.headers.get("authorization", ""), body, in_body + in_url)
    try:
        if is_json:
            parameters = _parse_json(body, service.limits)
        elif media_type in (FORM, MULTIPART) or in_url:
            parameters = _form_parameters(in_body, in_url)
        else:
            raise DataError(f"Invalid request: {media_type[:50]} is not supported; send JSON or a form")
        if not is_json and isinstance(glossary := parameters.get("glossary"), str):
            with suppress(DataError):  # the model then refuses the str
                parameters["glossary"] = _parse_json(glossary.encode(), service.limits)
    except UnicodeDecodeError:
        raise DataError("Invalid request: not in UTF-8; encode it in UTF-8") from None
    if not isinstance(parameters, dict):
        raise DataError("Invalid JSON format")
    for name, value in parameters.items():
        if isinstance(value, list | dict):  # before pydantic checks the items
            refuse_over_limit(len(value), MAX_ENTRIES, "characters" if name == "q" else f"entries in {name}")
    return {**parameters, **files}


def _check_api_key(api_key: bytes, authorization: str, body: bytes, fields: Fields) -> None:
    """Raises HTTPException unless the header or a parameter has the right key; the header's may be for a proxy."""
    scheme, _, token = authorization.partition(" ")
    keys = [token.strip().encode("latin-1")] if scheme.lower() == "bearer" else []
    for found in islice(_API_KEY_IN_JSON.finditer(body), MAX_ENTRIES):
        with suppress(ValueError):
            keys.append(json.loads(found[1]).encode())
    for name, value in fields:
        if name == b"api_key":
            keys.append(_percent_decode(value[: 3 * len(api_key) + 1]))  # a longer one is wrong anyway
    if not any(keys):
        raise HTTPException(400, "Please contact the server operator to get an API key")
    if not any(hmac.compare_digest(key, api_key) for key in keys):
        raise HTTPException(403, "Invalid API key")


def _parse_json(body: bytes, limits: Limits) -> Any:
    r"""Returns the value of JSON. Raises DataError if it is invalid or has too many values, or UnicodeDecodeError.

    Counts values by the commas and brackets outside of strings: {"a, \" b": [1, 2]} without its strings is {: [1, 2]},
    which has three. Strings after the first 4 × `json_values` quotes are counted, too; no allowed JSON has so many.
    """
    text, strings = body.decode("utf-8-sig"), body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(strings.split(b'"', 4 * limits.json_values)[::2])
    if sum(map(outside.count, (b",", b"[", b"{"))) > limits.json_values:
        raise DataError(f"Invalid request: its JSON has more than {limits.json_values:,} values; send fewer")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"Invalid JSON format: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):  # a number of 5,000 digits; deeply nested brackets
        raise DataError("There was an error parsing the body") from None


def _form_parameters(in_body: Fields, in_url: Fields) -> dict[str, Any]:
    r"""Returns the parameters of the URL and a form; a name that is repeated has a list. Raises UnicodeDecodeError.

    The URL's values replace the form's, as in LibreTranslate (`request.values`). "\r\n", which browsers send, becomes
    "\n".
    """
    found: dict[str, Any] = {}
    for fields in (in_body, in_url):
        values_of: dict[str, list[str]] = {}
        for name, value in fields:
            text = _percent_decode(value).decode().replace("\r\n", "\n")
            values_of.setdefault(_percent_decode(name).decode(), []).append(text)
        found |= {name: values if len(values) > 1 else values[0] for name, values in values_of.items()}
    return found


def _percent_decode(text: bytes) -> bytes:
    """Decode %XX and +. Other percent signs stay, as in q=5% of all, which curl -d sends unescaped."""
    text = text.replace(b"+", b" ")
    return _PERCENT_ENCODED.sub(lambda run: bytes.fromhex(run[0].replace(b"%", b" ").decode()), text)


def _form_fields(form: bytes) -> Fields:
    """Returns the names and values of a form or query, still encoded. Raises DataError if there are too many."""
    if form.count(b"&") >= MAX_ENTRIES:
        raise DataError(UNREADABLE_FORM)
    return [(name, value) for name, _, value in (each.partition(b"=") for each in form.split(b"&") if each)]


def _multipart_fields(content_type: str, body: bytes, files: dict[str, tuple[str, bytes]]) -> Fields:
    """Returns a multipart form's fields (RFC 7578), encoded as in `_form_fields`. Adds its files. Raises DataError."""
    boundary = re.search(r'boundary="?([^";]+)', content_type, re.IGNORECASE)
    line = b"\r\n--" + (boundary[1].strip() if boundary else "").encode("latin-1")
    form, end, _ = (b"\r\n" + body).partition(line + b"--")
    _, *parts = form.split(line, MAX_ENTRIES + 1)
    found = Fields()
    for part in parts:
        head, _, value = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(head[:MAX_PART_HEADER])
        if name and name.lastindex != 1:
            files[name[1].decode(errors="replace")] = unquote(name[name.lastindex or 0]), value
        elif name:
            found.append((name[1], value.replace(b"%", b"%25").replace(b"+", b"%2B")))
    if not (boundary and end) or len(parts) > min(MAX_ENTRIES, len(found) + len(files)):
        raise DataError(UNREADABLE_FORM)
    return found


def refuse_over_limit(size: int, limit: int, unit: str) -> None:
    """Raises DataError if `size` exceeds `limit`, in the words that LibreTranslate uses for characters."""
    if size > limit:
        what = "" if unit == "characters" else f" of {unit}; send it in parts"
        raise DataError(f"Invalid request: request ({size}) exceeds text limit ({limit}){what}")


def validation_message(wrong: ValidationError) -> str:
    """Returns the first error of a body, in LibreTranslate's words."""
    first, *_ = wrong.errors()
    name, *inside = first["loc"]  # for a union: "q", "constrained-str", and the index in a list
    if first["type"] in ("int_parsing", "int_type") and not inside:
        return f"Invalid request: {name} parameter is not a number"
    if first["type"] == "missing" or (first["input"] in (None, "", []) and not isinstance(first["loc"][-1], int)):
        return f"Invalid request: missing {name} parameter"
    return f"Invalid request: {name} parameter: {first['msg'].partition(', unable')[0]}"
