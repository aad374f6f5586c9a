"""data.tokens: spaces, for text that another program has cut, and data.joiner."""

import pytest

from transformer_cli.text.words import join_subwords


@pytest.mark.parametrize(
    ("joiner", "text", "joined"),
    [
        (None, "ein H@@ und", "ein H@@ und"),
        ("@@", "ein H@@ un@@ d", "ein Hund"),
        ("@@", "ein H@@", "ein H"),
        ("@@", "@@user mail@@home", "@@user mail@@home"),
        ("##", "ein H ##un ##d # 3", "ein Hund # 3"),
        ("￭", "ein H￭ un ￭d ￭.", "ein Hund."),
        ("▁", "▁ein ▁H un d .", "ein Hund."),
        ("▁", "ein Hund .", "ein Hund ."),
        ("▁", "", ""),
    ],
)
def test_join_subwords_removes_the_marks_of_a_joiner(joiner: str | None, text: str, joined: str) -> None:
    assert join_subwords(text, joiner) == joined
