"""Translators of blocks whose translations are known: each returns a text, and which of its words belong together."""

import re

from transformer_cli.adapters.documents.blocks import Block
from transformer_cli.text.alignment import Link


def turned(block: Block) -> tuple[str, list[Link]]:
    """The case of each letter turned, so that a second time gives the text again."""
    return block.text.swapcase(), []


def backwards(block: Block) -> tuple[str, list[Link]]:
    """The words in another order, in capitals."""
    text = " ".join(reversed(block.text.split())).upper()
    spans = [match.span() for match in re.finditer(r"\S+", block.text)]
    return text, list(zip(reversed(spans), [match.span() for match in re.finditer(r"\S+", text)], strict=True))
