"""A request's body → what it asks for: JSON or a form, as LibreTranslate's clients send them. Bounds what is read."""

import asyncio
import io
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError

from transformer_cli.serve.limits import Limits
from transformer_cli.system.reading import parse_json

MOST_FIELDS = 2000  # of a form
GONE = 499  # nginx's status for a client that has gone; nobody reads it


async def read_parameters(request: Request, limits: Limits) -> dict[str, Any]:
    """Returns the parameters of a request by name; a form's are text, or lists of it where a name is repeated.

    What a form does not have is looked for in the address. Raises HTTPException.
    """
    body = await _read_body(request, limits)
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    try:
        is_multipart = kind == "multipart/form-data"
        fields = _multipart(request.headers["content-type"], body) if is_multipart else _pairs(body)
        in_address = _pairs(request.url.query.encode())
    except UnicodeDecodeError:
        raise HTTPException(400, "Invalid request: the form is not UTF-8; encode it in UTF-8") from None
    except (ValueError, FormParserError, RecursionError):
        raise HTTPException(400, "Invalid request: not a form that can be read; send JSON or a form") from None
    return {**_by_name(in_address), **_by_name(fields)}


def text_of(parameters: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Returns a parameter that is one text. default: its value where it is left out. Raises HTTPException."""
    value = parameters.get(name)
    if value is None or value == "":
        if default is None:
            raise HTTPException(400, f"Invalid request: missing {name} parameter")
        return default
    if not isinstance(value, str):
        raise HTTPException(400, f"Invalid request: {name} parameter is not text")
    return _refuse_halves(value, name)


def texts_of(parameters: Mapping[str, Any], limits: Limits) -> tuple[list[str], bool]:
    """Returns the texts under q, and whether it is a list. Raises HTTPException, also if they are too long together."""
    q = parameters.get("q")
    if not q and not isinstance(q, (int, float)):
        raise HTTPException(400, "Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "Invalid request: q parameter is not text or a list of texts")
    for text in texts:
        _refuse_halves(text, "q")
    n_lines = sum(text.count("\n") + 1 for text in texts)
    n_characters = sum(map(len, texts))
    for size, limit, unit in ((n_lines, limits.lines, "lines"), (n_characters, limits.characters, "characters")):
        if size > limit:
            what = f"Invalid request: request ({size}) exceeds text limit ({limit})"
            raise HTTPException(400, f"{what} of {unit}; send it in parts")
    return texts, isinstance(q, list)


def number_of(parameters: Mapping[str, Any], name: str) -> int | None:
    """Returns a parameter that is a whole number, or None if it is left out. Raises HTTPException."""
    value = parameters.get(name)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and len(value) < 10:
            return int(value)
        if type(value) is int:
            return value
    except ValueError:
        pass
    raise HTTPException(400, f"Invalid request: {name} parameter is not a number")


def numbers_of(parameters: Mapping[str, Any], name: str) -> list[int]:
    """Returns a parameter that is a list of whole numbers, in a form separated by spaces; [] if it is left out.

    Raises HTTPException.
    """
    value = parameters.get(name)
    if isinstance(value, str):
        value = value.split(" ") if value else []
    found = [number_of({name: each}, name) for each in value] if isinstance(value, list) else []
    if (value is not None and not isinstance(value, list)) or None in found:
        raise HTTPException(400, f"Invalid request: {name} parameter is not a list of numbers")
    return [number for number in found if number is not None]


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Raises HTTPException if it is too long, or does not come in time.

    Of a body that is too long all is read and thrown away, since few clients listen while they send; but one that asks
    before it sends (Expect: 100-continue, as curl does) gets its answer at once.
    """
    said = request.headers.get("content-length", "0")
    if request.headers.get("expect", "").lower() == "100-continue" and said.isdecimal() and int(said) > limits.body:
        raise _too_long(limits)
    body = bytearray()
    try:
        await asyncio.wait_for(_collect(request, body, limits.body + 1), limits.body_seconds)
    except asyncio.TimeoutError:
        if len(body) > limits.body:
            raise _too_long(limits) from None
        why = f"Invalid request: its body did not come within {limits.body_seconds:g} seconds; send it faster"
        raise HTTPException(408, why, {"Connection": "close"}) from None
    if len(body) > limits.body:
        raise _too_long(limits)
    return bytes(body)


async def _collect(request: Request, body: bytearray, most: int) -> None:
    """Read a body to its end, and keep its first bytes."""
    is_last = False
    while not is_last:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(GONE)
        body += message.get("body", b"")[: most - len(body)]
        is_last = not message.get("more_body", False)


def _too_long(limits: Limits) -> HTTPException:
    why = f"Invalid request: its body has more than {limits.body:,} bytes; send it in parts"
    return HTTPException(413, why, {"Connection": "close"})


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = parse_json(body.decode())
    except UnicodeDecodeError:
        raise HTTPException(400, "Invalid JSON format: not UTF-8; encode it in UTF-8") from None
    except ValueError as error:
        why = str(error).removeprefix("not JSON that tfm has written: ")
        if "integer string conversion" in why:  # Python's words speak of its own settings
            why = "a number has too many digits"
        raise HTTPException(400, f"Invalid JSON format: {why}") from None
    if not isinstance(value, dict):
        raise HTTPException(400, "Invalid JSON format: not an object with keys such as q, source and target")
    return value


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    return parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)


def _multipart(content_type: str, body: bytes) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []

    def add(field: Any) -> None:
        fields.append((field.field_name.decode(), (field.value or b"").decode()))

    def refuse(_: Any) -> None:
        raise ValueError("a file")

    parse_form({"Content-Type": content_type.encode("latin-1")}, io.BytesIO(body), add, refuse)
    if len(fields) > MOST_FIELDS:
        raise ValueError("too many fields")
    return fields


def _by_name(fields: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    r"""Returns a form's fields; browsers send their line ends as "\r\n"."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _refuse_halves(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"character {error.start + 1} of the {name} parameter"
        raise HTTPException(400, f"Invalid request: {where} is half of a surrogate pair; send the whole") from None
    return text
