"""What an XLIFF says about the state of its targets: confirmed by a person, unfinished, or copied from the source."""

import re
from collections.abc import Mapping

CONFIRMED = {  # what Trados, memoQ and Phrase call a translation that a person has confirmed; then, what XLIFF does
    "conf": ("Translated", "ApprovedTranslation", "ApprovedSignOff"),
    "status": ("ManuallyConfirmed", "Reviewer1Confirmed", "Reviewer2Confirmed", "Proofread"),
    "confirmed": ("1",),
    "approved": ("yes",),
    "state": ("final", "signed-off"),
}
UNFINISHED = {  # how XLIFF calls other ones (1.2, 2.3), or how it begins
    "state": ("new", "needs-translation", "needs-review-translation"),
    "state-qualifier": ("mt-suggestion", "leveraged-mt", "tm-suggestion", "fuzzy-match", "rejected"),
}
COPY_STATES = ("", "new", "needs-translation")  # states of a target that may still be a copy of its source


def is_confirmed(attributes: Mapping[str, str]) -> bool | None:
    """Whether a person has confirmed a target of XLIFF, as far as its file says it; None if it says neither.

    about: the attributes of its unit, of itself, and of what Trados says of its segment, with or without namespaces.
    """
    attributes = {re.split("[:}]", key)[-1]: value for key, value in attributes.items()}
    found = {name: attributes[name] in values for name, values in CONFIRMED.items() if name in attributes}
    if of_tools := [found[name] for name in ("conf", "status", "confirmed") if name in found]:
        return all(of_tools)
    is_unfinished = any(attributes.get(name, "").startswith(how) for name, how in UNFINISHED.items())
    return any(found.values()) or (False if is_unfinished else None)


def is_untranslated_copy(attributes: Mapping[str, str]) -> bool:
    """Whether a target of XLIFF that is the same as its source is not a translation of it. about: as above.

    Programs fill in copies for people to write over. That a word stays as it is must be said, by a state or a person.
    """
    return attributes.get("state", "") in COPY_STATES and not is_confirmed(attributes)
