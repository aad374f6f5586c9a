"""Messages of JSON get a translation; keys, notes and everything between them stay byte for byte."""

from pathlib import Path

import pytest

from tables import read_tables
from transformer_cli.adapters.documents.json_text import parse_json
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError

TABLES = read_tables(Path(__file__).with_name("json.txt"))


def in_capitals(content: bytes) -> bytes:
    opened = parse_json(content, ("de", "en"), TranslationSettings())
    return opened.render([(block.text.upper(), []) for block in opened.blocks])


@pytest.mark.parametrize(("source", "expected"), TABLES["messages"])
def test_json_messages_get_a_translation(source: str, expected: str) -> None:
    assert in_capitals(source.encode()).decode() == expected
    assert in_capitals(source.encode("utf-16")) == expected.encode("utf-16")


@pytest.mark.parametrize(
    ("source", "said"), [*TABLES["refused"], ("[" * 101 + "]" * 101, "more than 100 nested"), ("[" * 10_000, "more")]
)
def test_json_other_text_is_refused(source: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        in_capitals(source.encode())
    assert str(error.value).startswith(said)
