"""Conversions of printf keep an order that programs understand, in any order of a translation."""

import pytest

from transformer_cli.adapters.terminology.conversions import Conversions, has_other_directives
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
        ("lisp-format", "~2,3F a ~:[b~;c~] ~'xD", "~2,3F a ~:[b~;c~] ~'xD", True),
        ("gcc-internal-format", "%qs a %<%T b%> %<c%> %+qD %.*s", "%qs a %<%T b%> %<c%> %+qD %.*s", True),
        ("gcc-internal-format", "%qs a %<%T b%> %<c%> %#qD", "%3$#qD a %<c%> %<%2$T b%> %1$qs", False),
        ("gfc-internal-format", "%C a %L %ld", "%3$ld a %2$L %1$C", False),
        ("ruby-format", "%<a>s b %-5<c>d %{d}", "%{d} b %-5<c>d %<a>s", False),
        ("boost-format", "%s a %|5| %%", "%% a %|2$5| %1$s", False),
        ("boost-format", "%1% a %2%", "%2% a %1%", False),
        ("perl-format", "%vd a %_ %lld %Vd", "%4$Vd a %3$lld %2$_ %1$vd", False),
        ("javascript-format", "%j a %s", "%2$s a %1$j", False),
        ("object-pascal-format", "%s a %-5.2f %% %1:d", "%1:d a %% %1:-5.2f %0:s", False),
        ("go-format", "%+v a %5.2f %[1]d", "%[1]d a %5.2[2]f %+[1]v", False),
        ("php-format", "%'*10s a %b", "%2$b a %1$'*10s", False),
        ("python-brace-format", "{} a {:>5} {b!r}", "{b!r} a {1:>5} {0}", False),
        ("csharp-format", "{0:d. MMM yyyy} a {1}", "{1} a {0:d. MMM yyyy}", False),
        ("qt-format", "%1s a %L2", "%L2s a %1", False),
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
    assert not has_other_directives(source, conversions.restore(translation), [flag])
    assert (conversions.restore(translation), conversions.loses_order(translation)) == (reversed_, loses_order)
    assert not conversions.loses_order(text)


@pytest.mark.parametrize(
    ("flag", "source", "target", "expected"),
    [
        ("c-format", "%s ist %d", "%2$d is %1$s", False),
        ("c-format", "%s ist %d", "%s is", True),
        ("c-format", "20 % der %s", "20 % of %s", True),  # % d and % o
        *(("c-format", "zu 20 % der %s", "%s % der", True), ("c-format", "20%", "20% off", True)),
        *(("no-c-format", "20%", "20% off", False), ("", "%s", "", False)),
        *(("neu-format", "%s {b}", "{b} %s", False), ("neu-format", "%s {b}", "%s", True)),
    ],
)
def test_has_other_directives_by_flag(flag: str, source: str, target: str, expected: bool) -> None:
    assert has_other_directives(source, target, ["fuzzy", flag]) == expected


def test_conversions_leave_private_characters_and_disabled_texts() -> None:
    conversions = Conversions()
    assert conversions.restore("\U000f0000 a") == "\U000f0000 a"
    conversions.is_enabled = False
    assert conversions.replace("%s a") == "%s a"
