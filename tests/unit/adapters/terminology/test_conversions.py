"""Conversions of printf keep an order that programs understand, in any order of a translation."""

import pytest

from transformer_cli.adapters.terminology.conversions import Conversions
from transformer_cli.adapters.terminology.placeholders import STAND_IN, PlaceholderFinder


@pytest.mark.parametrize(
    ("flag", "source", "reversed_", "loses_order"),
    [
        ("c-format", "%% %s %5.2f %jd", "%3$jd %2$5.2f %1$s %%", False),
        ("c-format", "%dx%<PRIu64>%m %sB %1$d", "%1$dx%3$s%m %2$<PRIu64>B %1$d", False),
        ("php-format", "%1$s a %d b %s", "%2$s a %1$d b %1$s", False),
        ("c-format", "%*d a %s", "%*d a %s", True),
        ("java-printf-format", "%tY %s%n", "%n %2$s%1$tY", False),
        ("python-format", "%s a %(b-c)r %d", "%s a %(b-c)r %d", True),
        ("python-format", "%(a)s b %(c)5.2f", "%(c)5.2f b %(a)s", False),
        ("sh-format", "$a b ${c} d", "${c} b $a d", False),
        ("scheme-format", "~a~% b ~S", "~a~% b ~S", True),
        ("no-c-format", "%s b 20%ige %d, %dc %s_D", "%s b 20%ige %d, %dc %s_D", True),
        ("", "%s a {b} %1$s", "%s a {b} %1$s", False),
    ],
)
def test_conversions_are_numbered_or_in_source_order(flag: str, source: str, reversed_: str, loses_order: bool) -> None:
    conversions = Conversions()
    conversions.replace("%s before %d")
    conversions.start_message(["fuzzy", flag])
    text = conversions.replace(source)
    stand_ins = STAND_IN.findall(text)
    assert len(PlaceholderFinder(builtin=False).spans(text)) == len(stand_ins)
    translation = STAND_IN.sub(lambda _: stand_ins.pop(), text)
    assert conversions.restore(text) == source
    assert (conversions.restore(translation), conversions.loses_order(translation)) == (reversed_, loses_order)
    assert not conversions.loses_order(text)


def test_conversions_leave_private_characters_and_disabled_texts() -> None:
    conversions = Conversions()
    assert conversions.restore("\U000f0000 a") == "\U000f0000 a"
    conversions.is_enabled = False
    assert conversions.replace("%s a") == "%s a"
