"""Finds the messages in JSON of translations: i18next, ARB, FormatJS, Chrome's messages. Knows no files."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span
from transformer_cli.text.lines import has_letter

MAX_DEPTH = 100  # of nested arrays and objects
TOO_DEEP = f"more than {MAX_DEPTH} nested arrays and objects; it does not look like translations"
MAX_KEY_CHARS = 200  # longer ones are cut
LOCALE = "@@locale"  # of ARB: the language of the file
IDENTIFIER, NOTE, SETTING = "identifiers and addresses", "notes for translators", "settings of a program"

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|NaN|Infinity')
_WITH_NOTES = {  # of FormatJS, Chrome and Transifex: the key of the message → those beside it; empty: any
    "defaultMessage": "",
    "message": "message description placeholders hash",
    "string": "string context developer_comment character_limit",
}
_SETTINGS = "devDependencies compilerOptions lockfileVersion manifest_version start_url openapi"
_IDENTIFIER = re.compile(  # ./a, #fff, mailto:a, image/png; a.png; a_b, 2024-01-01; read-only; camelCase
    r"(?:\.{0,2}/|[#@.~$]|[a-z]+:|(?:application|audio|image|text|video)/)[!-~]+|[!-z]+\.[a-z\d]{1,5}"
    r"|(?=[^\d_]*[\d_])[+-z]+|[a-z]+(?:-[a-z]+)+|[a-z]+(?:[A-Z][a-z]*)+"
)


class JsonString(NamedTuple):
    """A string of JSON that is a value."""

    key: str
    """the keys to it, such as menu.file.0"""
    value: str
    span: Span
    """with its quotation marks"""
    why: str
    """why it is not translated; "" if it is a message"""


def load_json(text: str) -> Any:
    """Returns the value of JSON. Raises DataError, also for what only JSON5 allows."""
    try:
        return json.loads(text, parse_int=str)
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + 20].partition("\n")[0]
        where = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{where}: not JSON: {error.msg} ({found!r}); comments and JSON5 are not read") from None
    except RecursionError:
        raise DataError(TOO_DEEP) from None


def json_strings(text: str) -> Iterator[JsonString]:
    """Yield the strings of JSON that are values. Raises DataError for other text; see `load_json`."""
    loaded = load_json(text)
    wanted = _message_key(loaded)
    is_setting = isinstance(loaded, dict) and any(name in loaded for name in _SETTINGS.split())
    around, previous = list[str | int](), ""  # the key or number in each open object or array; the token before
    for token in _TOKEN.finditer(text):
        sign = token[0][0]
        if sign in "[{":
            around.append("" if sign == "{" else 0)
            if len(around) > MAX_DEPTH:
                raise DataError(TOO_DEEP)
        elif sign in "NI":
            number = text.count("\n", 0, token.start()) + 1
            raise DataError(f"line {number}: {token[0]} is not JSON; write null, or a number")
        elif sign in "]}":
            around.pop()
        elif sign == "," and isinstance(around[-1], int):
            around[-1] += 1
        elif sign == '"' and around and isinstance(around[-1], str) and previous != ":":
            around[-1] = json.loads(token[0])[:MAX_KEY_CHARS]
        elif sign == '"':
            value = json.loads(token[0])
            is_note = any(isinstance(key, str) and key.startswith(("@", "$", "//")) for key in around)
            is_note = is_note or bool(wanted and around[1:] != [wanted])
            is_identifier = has_letter(value) and _IDENTIFIER.fullmatch(value)
            why = SETTING if is_setting else NOTE if is_note else IDENTIFIER if is_identifier else ""
            yield JsonString(".".join(map(str, around)), value, token.span(), why)
        previous = sign


def _message_key(loaded: Any) -> str:
    """Returns the key of the messages if each has an object with notes for translators; else ""."""
    entries = [*loaded.values()] if isinstance(loaded, dict) else loaded if isinstance(loaded, list) else []
    entries = [each for each in entries if not isinstance(each, str)]  # such as "@@locale" and "$schema"
    for key, others in _WITH_NOTES.items() if entries else ():
        if all(isinstance(each, dict) and isinstance(each.get(key), str) for each in entries) and (
            not others or {*others.split()}.issuperset(key for each in entries for key in each)
        ):
            return key
    return ""
