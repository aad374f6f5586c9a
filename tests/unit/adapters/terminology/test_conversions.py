"""Conversions of printf keep an order that programs understand, in any order of a translation."""

import re
from pathlib import Path

import pytest

from tables import read_tables
from transformer_cli.adapters.terminology.conversions import Conversions, has_other_directives
from transformer_cli.adapters.terminology.placeholders import STAND_IN, PlaceholderFinder

TABLES = read_tables(Path(__file__).with_name("placeholders.txt"))


@pytest.mark.parametrize(("message", "expected"), TABLES["conversions"])
def test_conversions_are_numbered_or_in_source_order(message: str, expected: str) -> None:
    flag, _, source = message.partition(": ")
    loses_order = expected == "in order"
    conversions = Conversions()
    conversions.replace("%s before %d")
    conversions.start_message(["fuzzy", flag])
    text = conversions.replace(source)
    stand_ins = STAND_IN.findall(text)
    assert len(PlaceholderFinder(builtin=False).spans(text)) == len(stand_ins)
    translation = STAND_IN.sub(lambda _: stand_ins.pop(), text)
    assert conversions.restore(text) == source
    assert not has_other_directives(source, conversions.restore(translation), [flag])
    assert (conversions.restore(translation), conversions.loses_order(translation)) == (
        source if loses_order else expected,
        loses_order,
    )
    assert not conversions.loses_order(text)


@pytest.mark.parametrize(("messages", "expected"), TABLES["directives"])
def test_has_other_directives_by_flag(messages: str, expected: str) -> None:
    flag, source, target = re.split(": | → ?", messages)
    assert has_other_directives(source, target, ["fuzzy", flag]) == (expected == "others")


def test_conversions_leave_private_characters_and_disabled_texts() -> None:
    conversions = Conversions()
    assert conversions.restore("\U000f0000 a") == "\U000f0000 a"
    conversions.is_enabled = False
    assert conversions.replace("%s a") == "%s a"
