"""Fonts for any text: the one that matplotlib brings, then installed ones for the characters that it lacks."""

from collections.abc import Iterable
from functools import lru_cache

from matplotlib.font_manager import FontEntry, fontManager
from matplotlib.ft2font import FT2Font

FIRST = "DejaVu Sans"  # comes with matplotlib
SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))  # of a character's form: never drawn
USELESS = "Last Resort"  # has a box for every character


def families_for(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the families to draw texts with, the preferred one first, and the characters that none of them has."""
    first = next(each for each in fontManager.ttflist if each.name == FIRST and _is_regular(each))
    wanted = {character for text in texts for character in text if character.isprintable()}
    lacking = frozenset(wanted - _characters(first.fname) - SELECTORS)
    found, lacking = _installed(lacking)
    return [FIRST, *found], sorted(lacking)


@lru_cache
def _installed(lacking: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns families that have some of these characters, each one more than those before it; and what is left."""
    families = []
    fonts = {each.name: each.fname for each in fontManager.ttflist if _is_regular(each)}
    for name, path in sorted(fonts.items()) if lacking else ():
        if USELESS not in name and (found := lacking & _characters(path)):
            families.append(name)
            lacking -= found
    return tuple(families), lacking


@lru_cache(256)
def _characters(path: str) -> frozenset[str]:
    """Returns what a font can draw; nothing if it cannot be read, or has pictures of one size instead of outlines."""
    try:
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (OSError, RuntimeError, AttributeError):
        return frozenset()


def _is_regular(font: FontEntry) -> bool:
    return font.style == "normal" and str(font.weight) in ("400", "normal", "regular")
