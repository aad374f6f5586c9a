"""How to search for a translation, apart from what text goes in and comes out. Knows lengths; imports no torch."""

from dataclasses import dataclass

from transformer_cli.data.vocabulary import MARKERS

DEFAULT_LIMIT = "2 × source + 10"  # what `default_limit` computes, for help texts


def default_limit(source_tokens: int) -> int:
    """The longest translation of a sentence of so many tokens, where nobody names another."""
    return 2 * source_tokens + 10


@dataclass(frozen=True)
class SearchSettings:
    """What a search may do."""

    max_tokens: int | None = None
    """longest translation in tokens, <eos> not counted (None: 2 × source + 10)"""

    def limit(self, source_tokens: int, max_length: int | None) -> int:
        """The longest translation of a sentence of so many tokens by a model of max_length positions (None: any)."""
        wanted = self.max_tokens or default_limit(source_tokens)
        return wanted if max_length is None else min(wanted, max_length - MARKERS)
