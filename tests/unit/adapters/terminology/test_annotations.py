"""What a translation lacks is said."""

from dataclasses import replace

from transformer_cli import Translator
from transformer_cli.adapters.terminology.annotations import missing


def test_missing_names_numbers_and_terms_that_are_not_in_the_text(translator: Translator) -> None:
    (found,) = translator.translations(["Der Hund {name} singt."])
    assert missing(found) == []
    assert missing(replace(found, source="3 Hunde", terms=[((2, 7), None)])) == ["a number", "a term"]
    (found,) = translator.translations(["{n, plural, one {Hund} other {Hunde}} {d, date, short}"])
    assert missing(found) == ["what a message chooses among"]
