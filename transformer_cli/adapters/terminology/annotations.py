"""What a translation lacks of its source, and where its terms, placeholders and numbers stand."""

from typing import Any

from transformer_cli.adapters.terminology.numbers import missing_numbers
from transformer_cli.adapters.terminology.placeholders import has_branches
from transformer_cli.pipeline import Translation


def missing(translation: Translation) -> list[str]:
    """Returns what the text lacks of the sentence, in words; what was held is always there."""
    source = translation.source
    found = {
        "a number": missing_numbers(source, translation.text),
        "a term": any(place is None for _, place in translation.terms),
        "what a message chooses among": any(has_branches(source[slice(*one)]) for one, _ in translation.held),
    }
    return [what for what, is_missing in found.items() if is_missing]


def annotations(translation: Translation) -> dict[str, list[Any]]:
    """Returns as JSON what was held, the terms, and the numbers of the source that the text lacks; spans are lists."""
    held, terms = translation.held, translation.terms
    return {
        "held": [{"source": list(source), "translation": list(place)} for source, place in held],
        "terms": [{"source": list(source), "translation": place and list(place)} for source, place in terms],
        "missing_numbers": list(map(list, missing_numbers(translation.source, translation.text))),
    }
