"""Tokens ↔ ids, and the special tokens with which every vocabulary begins.

The only module that imports torchtext, and only to build a vocabulary. On disk a vocabulary is plain text with one
token per line; a token's id is the number of its line, from 0.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformer_cli.system.files import read_text, write_text

SPECIALS = ("<unk>", "<pad>", "<sos>", "<eos>")
UNK, PAD, SOS, EOS = range(4)
SUPPRESSED = (PAD, SOS)  # never in a translation
N_SOS_EOS = 2  # <sos> and <eos>, which the model reads around every sentence


def import_torchtext() -> None:
    """Import ahead of time what `Vocabulary.build` needs: with torch, it takes a second or two."""
    import torchtext.vocab  # noqa: F401


@dataclass(frozen=True)
class Vocabulary:
    """An ordered set of tokens. The four special tokens come first; text is never encoded as <pad>, <sos> or <eos>."""

    tokens: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens) if index >= len(SPECIALS)}

    @cached_property
    def characters(self) -> frozenset[str]:
        """All characters of the tokens, and the space."""
        return frozenset("".join([" ", *self.tokens[len(SPECIALS) :]]))

    @staticmethod
    def build(counts: Mapping[str, int], *, min_freq: int, max_words: int | None = None) -> "Vocabulary":
        """Keep the tokens that were seen at least `min_freq` times, most frequent first, ties in alphabetical order.

        max_words: their maximum number, without special tokens (None: no limit).
        """
        from torchtext.vocab import Vocab

        found = Vocab(Counter(counts), max_size=max_words, min_freq=min_freq, specials=list(SPECIALS))
        return Vocabulary(tuple(found.itos))

    def __len__(self) -> int:
        return len(self.tokens)

    def to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of tokens, UNK for unknown ones. Does not add <sos> or <eos>."""
        return [self._ids.get(token, UNK) for token in tokens]

    def to_tokens(self, ids: Sequence[int], unk_replacements: Sequence[str] | None = None) -> list[str]:
        """Returns the tokens of ids. unk_replacements: for each id, the token if it is UNK (None: `<unk>`)."""
        tokens = [self.tokens[index] for index in ids]
        if unk_replacements is None:
            return tokens
        return [other if id_ == UNK else token for id_, token, other in zip(ids, tokens, unk_replacements, strict=True)]

    def save(self, path: Path) -> None:
        """Write one token per line."""
        write_text(path, "".join(f"{token}\n" for token in self.tokens))

    @staticmethod
    def load(path: Path) -> "Vocabulary":
        """Read what `save` wrote. Raises FileError."""
        return Vocabulary(tuple(read_text(path).split("\n")[:-1]))
