"""Text ↔ tokens: spaCy's rule-based tokenisers one way, learned joins the other. The one owner of spaCy.

Knows nothing of ids, files or models. The tokenisers are blank pipelines (`spacy.blank("de")`): the rules of the
full models, with nothing to download.
"""

import importlib.util
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from transformer_cli.errors import ConfigError

SPACY_VERSION = version("spacy")


@dataclass(frozen=True)
class Tokens:
    """A sentence's tokens, and for each whether it was glued to the next one (no space between them)."""

    words: list[str]
    glued: list[bool]


class Tokenizer:
    """Splits text of one language; lower-cases after splitting, since the rules look at case."""

    def __init__(self, language: str, *, lowercase: bool) -> None:
        """Raises ConfigError for a language that spaCy has no blank tokeniser for, or that needs a further package."""
        self.language = language
        self.lowercase = lowercase
        self._split: Any = _blank_tokenizer(language)

    def split(self, text: str) -> Tokens:
        """Tokens and joins of one line; runs of white space count as one space."""
        tokens = self._split(" ".join(text.split()))
        words = [token.text.lower() if self.lowercase else token.text for token in tokens]
        return Tokens(words, [not token.whitespace_ for token in tokens])

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line; none for a blank one."""
        return self.split(text).words

    def normalized(self, text: str) -> str:
        """The text as a perfect join of its tokens would give it back: single spaces, lower-cased if tokens are."""
        text = " ".join(text.split())
        return text.lower() if self.lowercase else text


@dataclass(frozen=True)
class Joins:
    """Where tokens are written without a space between them, learned from real text; independent of language.

    A pair of tokens seen in training goes by its majority. Any other is glued only at an edge that is no letter or
    digit, of a token that mostly stands glued to words on that side. Only pairs that this rule gets wrong are kept.
    """

    glue_left: frozenset[str]
    """tokens such as "." and ")" that lean on the word before them"""
    glue_right: frozenset[str]
    """tokens such as "(" that lean on the word after them"""
    glued_pairs: frozenset[tuple[str, str]]
    """pairs that are glued against the rule: ("t", "-"), ("do", "n't")"""
    spaced_pairs: frozenset[tuple[str, str]]
    """pairs that are apart against the rule"""

    def join(self, tokens: Sequence[str]) -> str:
        """Plain text from tokens."""
        pieces = list(tokens[:1])
        for left, right in pairwise(tokens):
            pieces.append(right if self._is_glued(left, right) else f" {right}")
        return "".join(pieces)

    def _is_glued(self, left: str, right: str) -> bool:
        if (left, right) in self.glued_pairs:
            return True
        if (left, right) in self.spaced_pairs:
            return False
        return left in self.glue_right or right in self.glue_left

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads back, in a stable order."""
        return {
            "glue_left": sorted(self.glue_left),
            "glue_right": sorted(self.glue_right),
            "glued_pairs": sorted(self.glued_pairs),
            "spaced_pairs": sorted(self.spaced_pairs),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Joins":
        """The inverse of `as_json`."""
        return Joins(
            frozenset(value["glue_left"]),
            frozenset(value["glue_right"]),
            frozenset((left, right) for left, right in value["glued_pairs"]),
            frozenset((left, right) for left, right in value["spaced_pairs"]),
        )


class JoinLearner:
    """Counts by pair of neighbours how often they were glued and how often apart, then makes the table."""

    def __init__(self) -> None:
        self._glued: Counter[tuple[str, str]] = Counter()
        self._spaced: Counter[tuple[str, str]] = Counter()

    def add(self, tokens: Tokens) -> None:
        """Count one sentence."""
        for pair, glued in zip(pairwise(tokens.words), tokens.glued, strict=False):
            (self._glued if glued else self._spaced)[pair] += 1

    def learn(self) -> Joins:
        """The joins that the sentences so far teach."""
        leans_left: Counter[str] = Counter()
        leans_right: Counter[str] = Counter()
        for counts, sign in ((self._glued, 1), (self._spaced, -1)):
            for (left, right), count in counts.items():
                if _is_word_edge(left[-1]) and not _is_word_edge(right[0]):
                    leans_left[right] += sign * count
                if _is_word_edge(right[0]) and not _is_word_edge(left[-1]):
                    leans_right[left] += sign * count
        rule = Joins(_positive(leans_left), _positive(leans_right), frozenset(), frozenset())
        glued, spaced = set(), set()
        for pair in {*self._glued, *self._spaced}:
            majority = self._glued[pair] - self._spaced[pair]
            if majority > 0 and not rule._is_glued(*pair):
                glued.add(pair)
            elif majority < 0 and rule._is_glued(*pair):
                spaced.add(pair)
        return Joins(rule.glue_left, rule.glue_right, frozenset(glued), frozenset(spaced))


def share_restored(joins: Joins, tokenizer: Tokenizer, lines: Iterable[str]) -> float:
    """The share of lines that come back exactly (white space and case as the tokeniser's) from their tokens."""
    restored = [joins.join(tokenizer.tokens(line)) == tokenizer.normalized(line) for line in lines]
    return sum(restored) / max(1, len(restored))


def _blank_tokenizer(language: str) -> Any:
    import spacy

    found = importlib.util.find_spec(f"spacy.lang.{language}") if language.isidentifier() else None
    if found is None or found.submodule_search_locations is None:  # spacy.lang.punctuation is no language
        raise ConfigError(
            f"spaCy has no tokeniser for language {language!r}; codes are such as de, en, fr, cs, xx (any)"
        )
    try:
        return spacy.blank(language).tokenizer
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"spaCy's tokeniser for {language!r} needs a further package: {reason}") from None


def _is_word_edge(character: str) -> bool:
    return character.isalnum()


def _positive(counts: Counter[str]) -> frozenset[str]:
    return frozenset(token for token, count in counts.items() if count > 0)
