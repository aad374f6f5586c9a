"""How long a translation may be if nothing else is said. Imports nothing: help texts name it."""

DEFAULT_LIMIT = "2 × source + 10"  # what `default_limit` computes, for help texts


def default_limit(source_tokens: int) -> int:
    """Returns the longest translation, in tokens, of a sentence of `source_tokens` tokens, if no other limit is set."""
    return 2 * source_tokens + 10
