"""What /openapi.json says of requests and answers, in OpenAPI's words."""

from typing import Any

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
COMMON = {
    "source": {**TEXT, "description": "A language's code, or auto where only one language is translated into target."},
    "target": {**TEXT, "description": "A language's code."},
    "api_key": {**TEXT, "description": "The key, if the server has one; or the header Authorization: Bearer KEY."},
}
ERROR = {"type": "object", "properties": {"error": TEXT}}
DETECTED = {"type": "object", "properties": {"confidence": {"type": "number"}, "language": TEXT}}

ERRORS = {
    400: "What is asked is wrong, or there is no key.",
    403: "The key is wrong.",
    408: "The body did not come in time.",
    413: "The body is too long.",
    503: "Too much is waiting; try again after the seconds of Retry-After.",
}
HEALTH = {"type": "object", "properties": {"status": TEXT}}
LANGUAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"code": TEXT, "name": TEXT, "targets": {"type": "array", "items": TEXT}},
    },
}


def got(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the description of an address that answers GET."""
    return {"responses": {"200": _content("The answer.", answer)}}


def posted(required: dict[str, Any], optional: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the description of an address to which parameters are posted, as JSON or as a form."""
    properties = {**required, **COMMON, **optional}
    asked = {"type": "object", "properties": properties, "required": [*required, "source", "target"]}
    errors = {str(status): _content(why, ERROR) for status, why in ERRORS.items()}
    return {
        "requestBody": {"required": True, "content": {kind: {"schema": asked} for kind in (JSON, *FORMS)}},
        "responses": {"200": _content("The answer.", answer), **errors},
    }


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}


TRANSLATE = posted(
    {"q": {**TEXTS, "description": "The text, or texts. Each line is translated by itself."}},
    {
        "format": {**TEXT, "enum": ["text"]},
        "alternatives": {**NUMBER, "description": "How many further translations of each text are wanted."},
    },
    {
        "type": "object",
        "properties": {
            "translatedText": TEXTS,
            "detectedLanguage": {"oneOf": [DETECTED, {"type": "array", "items": DETECTED}]},
            "alternatives": {"type": "array", "items": TEXTS},
        },
    },
)
SENTENCE = {"q": {**TEXT, "description": "A sentence."}}
PREFIX = {
    "prefix": {
        "type": "array",
        "items": NUMBER,
        "description": "The ids of the tokens with which the translation begins; <eos> as the last one ends it there.",
    }
}
LAYER = {"layer": {**NUMBER, "description": "Which layer, counted from 1. Default: the last."}}
KINDS = ["encoder", "decoder", "cross"]
INSPECT = posted(
    SENTENCE,
    {
        "kind": {**TEXT, "enum": KINDS, "description": "Default: all."},
        **LAYER,
        "head": {**NUMBER, "description": "Which head, counted from 1. Default: all."},
    },
    {"type": "object", "description": "What tfm inspect --json prints."},
)
STEPS = posted(
    SENTENCE,
    PREFIX,
    {"type": "object", "description": "The translation, and the ten likeliest candidates at each of its steps."},
)
ATTENTION = posted(
    {**SENTENCE, "kind": {**TEXT, "enum": KINDS}},
    {
        **PREFIX,
        **LAYER,
        "head": {**NUMBER, "description": "Which head, counted from 1. Default: the mean of all."},
    },
    {"type": "object", "description": "The weights, a row for each target token and a column for each source token."},
)
VECTORS = posted(
    SENTENCE,
    PREFIX,
    {"type": "object", "description": "The source vectors before and after the encoder, in the plane."},
)
