"""What may be asked, and how much of it: the bodies of requests, and how they are read.

FastAPI reads JSON into these models and describes them in /openapi.json. LibreTranslate's clients send forms too, which
become JSON here. Everything is bounded before or while it is parsed. Knows no translators.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from transformer_cli.errors import DataError

GONE = 499  # nginx's status for a client that has gone; nobody reads it
MOST = 1000  # fields of a form, texts in a list, ids of a prefix, terms of a glossary
FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
JSON_KIND = re.compile(r"application/(.*\+)?json")


@dataclass(frozen=True)
class Limits:
    """What the server bounds, so that no request can take all of its memory or time."""

    body: int = 2 << 20
    """bytes of a request: more than `characters` need, however they are escaped"""
    body_seconds: float = 30.0
    """how long a client may take to send a request"""
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
Term = Annotated[str, Field(max_length=200)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MOST)]


class Question(BaseModel):
    """What every address that computes reads."""

    model_config = ConfigDict(str_min_length=0)  # a string whose length has a limit may hold no lone surrogate

    api_key: str | None = Field(
        None, description="The key, if the server has one; or the header Authorization: Bearer KEY."
    )


class DetectQuestion(Question):
    """`POST /detect`."""

    q: Text | Texts = Field(description="The text, or texts.")


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
    def _of_a_form(cls, value: object) -> object:
        """A form has no objects, so its field is JSON."""
        with suppress(ValueError, RecursionError):  # what is no JSON is no object either, which is said
            return json.loads(value) if isinstance(value, str) else value
        return value


class TranslateQuestion(DirectedQuestion, DetectQuestion):
    """`POST /translate`: each line of a text is translated by itself."""

    format: str | None = Field(None, description="text or html. Of HTML, each block is a line.")
    alternatives: int | None = Field(None, description="How many further translations of each text are wanted.")
    split: bool = Field(True, description="Whether the sentences of each line are translated one by one.")
    sentences: bool = Field(False, description="Whether the sentences, and where they stand, are wanted too.")


class SentenceQuestion(DirectedQuestion):
    """What is asked about one sentence, and perhaps the beginning of its translation."""

    q: Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")] = Field(description="A sentence on one line.")
    prefix: Annotated[list[int], Field(max_length=MOST)] = Field(
        [], description="The ids that the translation begins with; <eos> as the last one ends it there."
    )


class AttentionQuestion(SentenceQuestion):
    """What is asked about the attention in one layer."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="What attends to what.")
    layer: int | None = Field(None, description="Which layer, counted from 1. Default: the last.")
    head: int | None = Field(None, description="Which head, counted from 1. Default: all of them.")


class BoundedRoute(APIRoute):
    """An address whose body is read within the server's limits; FastAPI gets it as JSON, whatever it was."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def answer_bounded(request: Request) -> Response:
            if request.method != "POST":
                return await answer(request)
            request, body = await _read(request)
            kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
            try:
                body.decode()
                if not JSON_KIND.fullmatch(kind):
                    request = _as_json(request, await _values(request, kind, body))
            except UnicodeDecodeError:
                raise DataError("Invalid request: not in UTF-8; encode it in UTF-8") from None
            except (ValueError, HTTPException):
                raise DataError("Invalid request: not a form that can be read; send JSON or a form") from None
            return await answer(request)

        return answer_bounded


async def _read(request: Request) -> tuple[Request, bytes]:
    """Returns the body, and a request that remembers it. Raises HTTPException if it is too long, or not there in time.

    Of a body that is too long all is read and thrown away, since few clients listen while they send.
    """
    limits: Limits = request.app.state.service.limits
    size = 0

    async def receive() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        return message if size <= limits.body else {**message, "body": b""}

    bounded = Request(request.scope, receive)
    try:
        body = await asyncio.wait_for(bounded.body(), limits.body_seconds)
    except ClientDisconnect:
        raise HTTPException(GONE, "gone") from None
    except asyncio.TimeoutError:
        if size <= limits.body:
            why = f"Invalid request: its body did not come within {limits.body_seconds:g} seconds; send it faster"
            raise HTTPException(408, why, {"Connection": "close"}) from None
    if size > limits.body:
        why = f"Invalid request: its body has more than {limits.body:,} bytes; send it in parts"
        raise HTTPException(413, why, {"Connection": "close"})
    return bounded, body


def _as_json(request: Request, fields: dict[str, str | list[str]]) -> Request:
    """Returns a request with these fields as its body, whose client is that of another, which has been read."""
    headers = [each for each in request.scope["headers"] if each[0] != b"content-type"]
    headers.append((b"content-type", b"application/json"))
    unread = [json.dumps(fields).encode()]

    async def receive() -> Any:
        return {"type": "http.request", "body": unread.pop()} if unread else await request.receive()

    return Request({**request.scope, "headers": headers}, receive)


async def _values(request: Request, kind: str, body: bytes) -> dict[str, str | list[str]]:
    r"""Returns the parameters in the URL and in a form, as lists where a name is repeated.

    If both have a name, the URL's are taken, and beside JSON none of the URL, as in LibreTranslate (`request.values`).
    Browsers send their line ends as "\r\n". The standard library parses what is on one line: curl -d sends UTF-8 as it
    is, and Starlette would take it for Latin-1. Raises ValueError or HTTPException for what is no form.
    """
    found: dict[str, list[Any]] = {}
    content_type = request.headers.get("content-type", "").lower()
    if kind == PARTS and "charset" in content_type and "utf-8" not in content_type:
        raise ValueError("some charsets take minutes to decode")
    if kind == PARTS:
        form = await request.form(max_files=0, max_fields=MOST, max_part_size=len(body))
        found = {name: form.getlist(name) for name in form}
    for text in (body if kind == FORM else b"", request.scope["query_string"]):
        found |= parse_qs(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST)
    if kind not in (FORM, PARTS) and not found:
        raise DataError(f"Invalid request: {kind[:50]} is not read; send JSON or a form")
    texts = {name: [value.replace("\r\n", "\n") for value in values] for name, values in found.items()}
    return {name: values[0] if len(values) == 1 else values for name, values in texts.items()}


def refuse_beyond(size: int, limit: int, unit: str) -> None:
    """Raises DataError in LibreTranslate's words, which counts only characters, if there is more than may be."""
    if size > limit:
        what = "" if unit == "characters" else f" of {unit}; send it in parts"
        raise DataError(f"Invalid request: request ({size}) exceeds text limit ({limit}){what}")


def words_for(wrong: RequestValidationError) -> str:
    """Returns the first thing that is wrong with a body, in LibreTranslate's words."""
    first = min(wrong.errors(), key=lambda each: each["type"] != "too_long")  # of a union, the telling one
    if first["type"] == "json_invalid":
        return f"Invalid JSON format: {first['ctx']['error']} at character {first['loc'][-1]}"
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
