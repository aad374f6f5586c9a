"""Text in the making: tokens between spaces, until they are put together as a sentence. Knows no grammar."""

Text = tuple[str, str]  # German, English
NOTHING: Text = ("", "")


def join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def as_sentence(tokens: str) -> str:
    """Tokens between spaces as text: one comma where two clauses meet, none before the full stop, a capital."""
    text = tokens.replace(" , ,", " ,").replace(" , .", " .").replace(" ,", ",").replace(" .", ".")
    return text[0].upper() + text[1:]
