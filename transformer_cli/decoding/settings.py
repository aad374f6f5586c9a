"""How to search for a translation, apart from what text goes in and comes out. Knows lengths; imports no torch."""

from dataclasses import dataclass

from transformer_cli.config.schema import DecodingConfig
from transformer_cli.errors import ConfigError
from transformer_cli.text.vocabulary import MARKERS


@dataclass(frozen=True)
class SearchSettings:
    """How a search goes, how it is limited, and how many translations of a sentence it returns.

    Raises ConfigError if more translations are asked for than the beam holds, or fewer than one.
    """

    max_tokens: int | None = None
    """the longest translation in tokens, <eos> not counted (None: 2 × source + 10)"""
    n_best: int = 1
    """translations of each sentence: the best ones of the beam, or this many samples"""
    decoding: DecodingConfig = DecodingConfig()
    """greedy search, beam search or sampling, and what it may not write"""
    scores: bool = True
    """whether log-probabilities are wanted; if only text is, a greedy search leaves them NaN where that saves time"""
    attention: bool = True
    """whether what each token attended to is wanted; if not, an exported model says it only of an unknown word"""

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"--max-tokens {self.max_tokens}: a translation has at least one")
        if self.n_best < 1:
            raise ConfigError(f"--n-best {self.n_best}: at least one translation has to be asked for")
        if not self.decoding.sample and self.n_best > self.decoding.beam_size:
            raise ConfigError(
                f"--n-best {self.n_best}: a beam of {self.decoding.beam_size} does not hold so many; "
                f"add --beam-size {self.n_best}"
            )

    @property
    def rows_of_each(self) -> int:
        """How many hypotheses of a sentence are decoded side by side."""
        return self.n_best if self.decoding.sample else self.decoding.beam_size

    def limit(self, source_tokens: int, max_length: int | None, *, more: int = 0) -> int:
        """Returns the longest translation, in tokens, of a sentence of `source_tokens` tokens.

        max_length: how many positions the model has (None: no limit). more: the tokens of terms, which may take more
        room than what stands in their place.
        """
        wanted = more + (2 * source_tokens + 10 if self.max_tokens is None else self.max_tokens)
        return wanted if max_length is None else min(wanted, max_length - MARKERS)
