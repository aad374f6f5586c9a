"""The state of a target in XLIFF: confirmed by a person, unfinished, or only copied from its source."""

import re
from collections.abc import Mapping

CONFIRMED = {  # attribute → values of a target that a person has confirmed, in Trados, memoQ, Phrase and XLIFF itself
    "conf": ("Translated", "ApprovedTranslation", "ApprovedSignOff"),
    "status": ("ManuallyConfirmed", "Reviewer1Confirmed", "Reviewer2Confirmed", "Proofread"),
    "confirmed": ("1",),
    "approved": ("yes",),
    "state": ("final", "signed-off"),
}
UNFINISHED = {  # attribute → prefixes of its values (XLIFF 1.2, 2.3)
    "state": ("new", "needs-translation", "needs-review-translation"),
    "state-qualifier": ("mt-suggestion", "leveraged-mt", "tm-suggestion", "fuzzy-match", "rejected"),
}
COPY_STATES = ("", "new", "needs-translation")  # of a target that tools may have filled with its source


def is_confirmed(attributes: Mapping[str, str]) -> bool | None:
    """Whether a person has confirmed a target; None if its attributes do not tell.

    attributes: those of the unit, the target and Trados' <sdl:seg> together, with or without namespaces.
    """
    attributes = {re.split("[:}]", key)[-1]: value for key, value in attributes.items()}
    found = {name: attributes[name] in values for name, values in CONFIRMED.items() if name in attributes}
    if by_tools := [found[name] for name in ("conf", "status", "confirmed") if name in found]:
        return all(by_tools)
    is_unfinished = any(attributes.get(name, "").startswith(values) for name, values in UNFINISHED.items())
    return any(found.values()) or (False if is_unfinished else None)


def is_untranslated_copy(attributes: Mapping[str, str]) -> bool:
    """Whether a target that equals its source is a copy that a tool has filled in, and not a translation.

    It is a translation if its state says so or a person has confirmed it. attributes: see `is_confirmed`.
    """
    return attributes.get("state", "") in COPY_STATES and not is_confirmed(attributes)
