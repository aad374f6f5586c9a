"""A request's body → what it asks for: JSON or a form, as LibreTranslate's clients send them.

Everything is bounded before or while it is parsed. Knows no translators. What is wrong is an HTTPException, in
LibreTranslate's words where it has some.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.formparsers import MultiPartException, MultiPartParser

GONE = 499  # nginx's status for a client that has gone; nobody reads it
MOST_FIELDS = 1000  # of a form
MOST_TEXTS = 1000  # in a list
MOST_IDS = 1000  # of a prefix
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True)
class Limits:
    """What the server bounds, so that no request can take all of its memory or time."""

    body: int = 2 << 20
    """bytes of a request: more than `characters` need, however they are escaped"""
    body_seconds: float = 30.0
    """how long a client may take to send a request"""
    lines: int = 1000
    """lines of one request"""
    characters: int = 100_000
    """characters of one request"""
    unspaced: int = 500
    """characters without a space between them, for runs of words"""
    tokens: int = 500
    """tokens of a line: its translation has at most twice as many and 10, also where a model has no last position"""
    alternatives: int = 10
    """further translations of each line"""
    inspected: int = 200
    """tokens of a sentence that is looked into, whose answer grows with their square"""
    numbers: int = 500_000
    """numbers in one answer about a sentence that is looked into"""
    looks: int = 32
    """answers about sentences that are being computed, or read by slow clients"""
    look_lines: int = 25
    """lines that looking into a sentence counts as: nothing is computed together with it, and much is returned"""
    waiting: int = 5000
    """lines that wait to be translated, of all requests"""
    window_seconds: float = 0.005
    """how long an idle server waits for further requests before it translates the first one"""


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _split_if_text(value: Any) -> Any:
    """A form writes ids with spaces between them."""
    return value.split(" ", MOST_IDS + 1) if isinstance(value, str) and value else value or []


Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MOST_TEXTS)]
Number = Annotated[int | None, BeforeValidator(_none_if_empty)]


class Question(BaseModel):
    """What every address that computes reads."""

    wanted: ClassVar[dict[str, str]] = {
        "q": "text or a list of texts",
        "alternatives": "a number",
        "layer": "a number",
        "head": "a number",
        "prefix": "a list of numbers",
        "kind": "encoder, decoder or cross",
    }
    api_key: str | None = Field(
        None, description="The key, if the server has one; or the header Authorization: Bearer KEY."
    )


class DetectQuestion(Question):
    """`POST /detect`."""

    q: Text | Texts


class DirectedQuestion(Question):
    """What is asked of one direction."""

    source: Text = Field(
        description="A language's code, or auto where only one language is translated into target.", examples=["auto"]
    )
    target: Text = Field(description="A language's code.", examples=["en"])


class TranslateQuestion(DirectedQuestion):
    """`POST /translate`."""

    q: Text | Texts = Field(description="The text, or texts. Each line is translated by itself.")
    format: str | None = Field(None, description="text, or left out.")
    alternatives: Number = Field(None, description="How many further translations of each text are wanted.")


class SentenceQuestion(DirectedQuestion):
    """What is asked about one sentence, and perhaps the beginning of its translation."""

    wanted: ClassVar[dict[str, str]] = {**Question.wanted, "q": "one sentence on one line"}
    q: Annotated[str, Field(min_length=1, pattern="^[^\n]*$")] = Field(description="A sentence on one line.")
    prefix: Annotated[list[int], Field(max_length=MOST_IDS), BeforeValidator(_split_if_text)] = Field(
        [], description="The ids that the translation begins with; <eos> as the last one ends it there."
    )


class AttentionQuestion(SentenceQuestion):
    """What is asked about the attention in one layer."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="What attends to what.")
    layer: Number = Field(None, description="Which layer, counted from 1. Default: the last.")
    head: Number = Field(None, description="Which head, counted from 1. Default: all of them.")


Asked = TypeVar("Asked", bound=Question)


async def read(request: Request, model: type[Asked], limits: Limits) -> Asked:
    """Returns what a request asks for. Raises HTTPException.

    A form's fields are text, or lists of it where a name is repeated; what it does not have is looked for in the
    address.
    """
    body = await _read_body(request, limits)
    content_type = request.headers.get("content-type", FORMS[0])
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return model.model_validate_json(body)
        if kind in FORMS:
            return model.model_validate(await _fields(request, content_type, body))
    except ValidationError as error:
        raise HTTPException(400, _words(error, model)) from None
    except UnicodeDecodeError:
        raise HTTPException(400, "Invalid request: the form is not UTF-8; encode it in UTF-8") from None
    except (ValueError, FormParserError, MultiPartException):
        raise HTTPException(400, "Invalid request: not a form that can be read; send JSON or a form") from None
    raise HTTPException(400, f"Invalid request: {kind[:50]} is not read; send JSON or a form")


def form_of(model: type[Question]) -> dict[str, Any]:
    """Returns what OpenAPI says of a request with this body, for the routes: FastAPI would read only one kind of it."""
    kinds = ("application/json", *FORMS)
    return {
        "requestBody": {"required": True, "content": {kind: {"schema": model.model_json_schema()} for kind in kinds}}
    }


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Raises HTTPException if it is too long, or does not come in time.

    Of a body that is too long all is read and thrown away, since few clients listen while they send; but one that asks
    before it sends (Expect: 100-continue, as curl does) gets its answer at once.
    """
    why = f"Invalid request: its body has more than {limits.body:,} bytes; send it in parts"
    too_long = HTTPException(413, why, {"Connection": "close"})
    said = request.headers.get("content-length", "0")
    if request.headers.get("expect", "").lower() == "100-continue" and said.isdecimal() and int(said) > limits.body:
        raise too_long
    body = bytearray()

    async def collect() -> None:
        is_last = False
        while not is_last:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(GONE, "gone")
            body.extend(message.get("body", b"")[: limits.body + 1 - len(body)])
            is_last = not message.get("more_body", False)

    try:
        await asyncio.wait_for(collect(), limits.body_seconds)
    except asyncio.TimeoutError:
        if len(body) <= limits.body:
            why = f"Invalid request: its body did not come within {limits.body_seconds:g} seconds; send it faster"
            raise HTTPException(408, why, {"Connection": "close"}) from None
    if len(body) > limits.body:
        raise too_long
    return bytes(body)


async def _fields(request: Request, content_type: str, body: bytes) -> dict[str, str | list[str]]:
    r"""Returns a form's fields by name; browsers send their line ends as "\r\n". Raises ValueError for what is no form.

    A form in one line is parsed here: curl -d sends UTF-8 as it is, and Starlette would take it for Latin-1.
    """
    text = body.decode()
    pairs = _pairs(request.url.query)
    named = {name for name, _ in pairs}
    if content_type.lower().lstrip().startswith(FORMS[1]):
        if "charset" in content_type.lower() and "utf-8" not in content_type.lower():
            raise ValueError("some charsets take minutes to decode")
        parser = MultiPartParser(
            request.headers, _once(body), max_files=0, max_fields=MOST_FIELDS, max_part_size=len(body)
        )
        in_body = [(name, value) for name, value in (await parser.parse()).multi_items() if isinstance(value, str)]
    else:
        in_body = _pairs(text)
    named &= {name for name, _ in in_body}
    found: dict[str, list[str]] = {}
    for name, value in [*(pair for pair in pairs if pair[0] not in named), *in_body]:
        found.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _pairs(encoded: str) -> list[tuple[str, str]]:
    return parse_qsl(encoded, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _words(error: ValidationError, model: type[Question]) -> str:
    """Returns the first thing that is wrong, in LibreTranslate's words."""
    first = min(
        error.errors(include_url=False), key=lambda each: each["type"] != "too_long"
    )  # of a union, the telling one
    kind = first["type"]
    if not first["loc"]:
        if kind == "json_invalid":
            return f"Invalid JSON format: {first['msg'].removeprefix('Invalid JSON: ')}"
        return "Invalid JSON format: not an object with keys such as q, source and target"
    name = str(first["loc"][0])
    if kind == "too_long":
        return f"Invalid request: {name} parameter exceeds limit ({first['ctx']['max_length']}) of entries; send fewer"
    if kind == "missing" or (first["input"] in (None, "", []) and not isinstance(first["loc"][-1], int)):
        return f"Invalid request: missing {name} parameter"
    return f"Invalid request: {name} parameter is not {model.wanted.get(name, 'text')}"
