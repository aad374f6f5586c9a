"""The text of Markdown gets a translation; its structure and all other bytes stay."""

from pathlib import Path

import pytest

from oracles.translators import backwards
from tables import read_tables
from transformer_cli.adapters.documents.parsers import PARSERS
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError

TABLES = read_tables(Path(__file__).with_name("markdown.txt"))
FORMATS = {"md": "markdown", "mdx": "mdx", "ipynb": "notebook"}


@pytest.mark.parametrize(
    ("form", "source", "expected"), [(form, *row) for form, title in FORMATS.items() for row in TABLES[title]]
)
def test_markdown_text_gets_a_translation(form: str, source: str, expected: str) -> None:
    opened = PARSERS[form](source.encode(), ("de", "en"), TranslationSettings())
    assert opened.render([(block.text.upper(), []) for block in opened.blocks]).decode() == expected
    assert opened.render([(block.text, []) for block in opened.blocks]).decode() == source


@pytest.mark.parametrize(("source", "expected"), TABLES["words in another order"])
def test_markdown_emphasis_stays_emphasis(source: str, expected: str) -> None:
    opened = PARSERS["md"](source.encode(), ("de", "en"), TranslationSettings())
    assert opened.render([backwards(block) for block in opened.blocks]).decode() == expected


def test_markdown_front_matter_names_further_keys() -> None:
    source = b"---\ntitle: a\nsummary: b\nslug: c\n---\n"
    opened = PARSERS["md"](source, ("de", "en"), TranslationSettings(front_matter="summary,x"))
    assert [block.text for block in opened.blocks] == ["a", "b"]
    assert opened.render([("No", []), ("x # y", [])]) == b'---\ntitle: "No"\nsummary: "x # y"\nslug: c\n---\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"nbformat": 3}', "not a notebook of format 4; `jupyter nbconvert"),
        ('{"nbformat": 4, "cells": {"0": {"source": "a"}}}', "not a notebook of format 4"),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "a", "source": "b"}]}',
            "a cell has two sources",
        ),
        ('{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["a", 1, "b"]}]}', "one that is not text"),
    ],
)
def test_what_is_no_notebook_is_refused(content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PARSERS["ipynb"](content.encode(), ("de", "en"), TranslationSettings())
