"""What differs between versions of XLIFF, and the state of a target: confirmed, unfinished, or a copy of its source."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from transformer_cli.errors import DataError

CONFIRMED_VALUES = {  # attribute → values of a target that a person has confirmed, in Trados, memoQ, Phrase and XLIFF
    "conf": ("Translated", "ApprovedTranslation", "ApprovedSignOff"),
    "status": ("ManuallyConfirmed", "Reviewer1Confirmed", "Reviewer2Confirmed", "Proofread"),
    "confirmed": ("1",),
    "approved": ("yes",),
    "state": ("final", "signed-off", "reviewed"),
}
UNFINISHED = {  # attribute → prefixes of its values (XLIFF 1.2, 2.3; XLIFF 2.1, 4.3.1)
    "state": ("new", "needs-translation", "needs-review-translation", "initial"),
    "state-qualifier": ("mt-suggestion", "leveraged-mt", "tm-suggestion", "fuzzy-match", "rejected"),
    "subState": ("poedit:fuzzy",),  # Poedit's, with the state "translated"
}
MT_STATE = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}  # of a target (XLIFF 1.2, 2.3)
MT_SEGMENT = {"conf": "Draft", "origin": "mt"}  # of Trados' <sdl:seg>
UNTOUCHED = ("NotStarted", "MachineTranslated")  # memoQ's status
MT_STATE_2 = {"state": "initial", "subState": "tfm:mt"}  # of a segment of XLIFF 2
COPY_STATES = ("", "new", "needs-translation", "initial")  # of a target that tools may have filled with its source


class XliffVersion(NamedTuple):
    """Names that differ between XLIFF 1 and 2."""

    unit: str
    """the element around a source and its target"""
    with_languages: str
    """the element that names the languages in the following two attributes"""
    source_language: str
    target_language: str
    mt_state: Mapping[str, str]
    """attributes that mark a machine translation"""


XLIFF_1 = XliffVersion("trans-unit", "file", "source-language", "target-language", MT_STATE)
XLIFF_2 = XliffVersion("segment", "xliff", "srcLang", "trgLang", MT_STATE_2)


def xliff_version(attributes: Mapping[str, str]) -> XliffVersion:
    """Returns the version of a file. Raises DataError if it is after 2.1. attributes: those of the first element."""
    version = attributes.get("version", "")
    if version.startswith("2.") and version not in ("2.0", "2.1"):
        raise DataError(f"XLIFF {version[:20]}; export it as XLIFF 2.1, 2.0 or 1.2")
    return XLIFF_2 if version.startswith("2.") or "srcLang" in attributes else XLIFF_1


def is_confirmed(attributes: Mapping[str, str]) -> bool | None:
    """Whether a person has confirmed a target; None if its attributes do not tell.

    attributes: those of the unit (XLIFF 2: the segment), the target and Trados' <sdl:seg> together, with or without
    namespaces.
    """
    attributes = {re.split("[:}]", key)[-1]: value for key, value in attributes.items()}
    found = {name: attributes[name] in values for name, values in CONFIRMED_VALUES.items() if name in attributes}
    if by_tools := [found[name] for name in ("conf", "status", "confirmed") if name in found]:
        return all(by_tools)
    is_unfinished = any(attributes.get(name, "").startswith(values) for name, values in UNFINISHED.items())
    return any(found.values()) or (False if is_unfinished else None)


def is_untranslated_copy(attributes: Mapping[str, str]) -> bool:
    """Whether a target that equals its source is a copy that a tool has filled in, and not a translation.

    It is a translation if its state says so or a person has confirmed it. attributes: see `is_confirmed`.
    """
    is_own = attributes.get("subState") == MT_STATE_2["subState"]
    return attributes.get("state", "") in COPY_STATES and not is_own and not is_confirmed(attributes)


def is_untouched_suggestion(attributes: Mapping[str, str]) -> bool:
    """Whether a target is a machine translation, by tfm or with the same marks, that nobody has touched.

    attributes: see `is_confirmed`; memoQ's begin with "mq:".
    """
    marks = MT_SEGMENT if "conf" in attributes else MT_STATE_2 if "subState" in attributes else MT_STATE
    is_marked = marks.items() <= attributes.items() and "origin-system" not in attributes  # Trados names other engines
    return is_marked and attributes.get("mq:status", UNTOUCHED[0]) in UNTOUCHED and not is_confirmed(attributes)
