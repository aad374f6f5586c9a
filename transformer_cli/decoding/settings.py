"""How to search for a translation, apart from what text goes in and comes out. Knows lengths; imports no torch."""

from dataclasses import dataclass

from transformer_cli.data.specials import MARKERS

DEFAULT_LIMIT = "2 × source + 10"  # what `default_limit` computes, for help texts


def default_limit(source_tokens: int) -> int:
    """Returns the longest translation, in tokens, of a sentence of `source_tokens` tokens, if no other limit is set."""
    return 2 * source_tokens + 10


@dataclass(frozen=True)
class SearchSettings:
    """How a search is limited."""

    max_tokens: int | None = None
    """the longest translation in tokens, <eos> not counted (None: 2 × source + 10)"""

    def limit(self, source_tokens: int, max_length: int | None) -> int:
        """Returns the longest translation, in tokens, of a sentence of `source_tokens` tokens.

        max_length: how many positions the model has (None: no limit).
        """
        wanted = self.max_tokens or default_limit(source_tokens)
        return wanted if max_length is None else min(wanted, max_length - MARKERS)
