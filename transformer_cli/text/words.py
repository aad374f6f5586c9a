"""Text → words by spaCy's rule-based tokenisers, and words → text by a learned detokeniser.

The only module that imports spaCy. The tokenisers are blank pipelines (`spacy.blank("de")`): the rules of the full
models, without a download. Knows no vocabularies, files or models.
"""

import importlib.util
import logging
import re
import sys
import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.errors import ConfigError
from transformer_cli.text.normalization import lower, primary_subtag

TokenizerSettings = tuple[str, str, bool, bool]
"""source language, target language, whether to lower-case, and whether words are what stands between spaces"""

log = logging.getLogger(__name__)

try:
    SPACY_VERSION: str | None = version("spacy")
except PackageNotFoundError:
    SPACY_VERSION = None  # an exported model of subwords does not need it
JOINTS = {"@@": re.compile("@@( |$)"), "##": re.compile("(^| )##"), "￭": re.compile("￭( |$)|(^| )￭")}  # by data.joiner
MAX_UNSPACED_CHARS = 100  # spaCy's rules take n² time for n signs without a space; 100,000 quotes take 1 s if cut
MAX_CACHED_FORMS = 100_000  # spaCy stores every word that it has seen; after so many (40 MB) a new tokeniser is made


@dataclass(frozen=True)
class Tokens:
    """A sentence's tokens, and for each one whether no space follows it."""

    words: list[str]
    no_space_after: list[bool]


class Tokenizer:
    """Splits text of one language into tokens; lower-cases after splitting, because spaCy's rules depend on case."""

    def __init__(self, language: str, *, lowercase: bool, by_spaces: bool = False) -> None:
        """Raises ConfigError if spaCy has no blank tokeniser for the language, or needs a further package for it.

        by_spaces: words are what stands between spaces, for text that another program has cut.
        """
        self.language = language
        self.lowercase = lowercase
        self._split: Any = None if by_spaces else _blank_tokenizer(language)
        self._lock = threading.Lock()  # not every language's library is thread-safe
        self._by_rules = type(self._split).__module__ == "spacy.tokenizer"  # false for Chinese or Japanese

    def split(self, text: str) -> Tokens:
        """Split one line into tokens; runs of white space count as one space.

        Runs of more than MAX_UNSPACED_CHARS characters without a space are cut before spaCy's rules see them, so that
        their time grows with the length of the line, not with its square. No space follows a part that was cut off.
        """
        if self._split is None:
            words = (lower(text, self.language) if self.lowercase else text).split()
            return Tokens(words, [False] * len(words))
        text = " ".join(text.split())
        text, cuts = _split_long_runs(text) if self._by_rules else (text, frozenset())
        with self._lock:
            if len(self._split.vocab) > MAX_CACHED_FORMS:
                self._split = _blank_tokenizer(self.language)
            tokens = self._split(text)
        words = [lower(token.text, self.language) if self.lowercase else token.text for token in tokens]
        return Tokens(words, [not token.whitespace_ or token.idx + len(token) in cuts for token in tokens])

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of one line; a blank line has none."""
        return self.split(text).words


def open_tokenizers(settings: TokenizerSettings) -> Callable[[Sequence[Sequence[str]]], list[tuple[Any, ...]]]:
    """Returns a function from a chunk's texts, [source, target], to the fields of `TokenizedSide`, arrays as bytes.

    Worker processes call it; it is in this module so that they import no other module for it. Raises ConfigError as
    Tokenizer does.
    """
    *languages, lowercase, by_spaces = settings
    tokenizers = [Tokenizer(each, lowercase=lowercase, by_spaces=by_spaces) for each in languages]
    return lambda texts: [_tokenize(*side) for side in zip(tokenizers, texts, strict=True)]


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[bytes, bytes, list[str], bytes]:
    known: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    no_space_after: list[bool] = []
    for text in texts:
        tokens = tokenizer.split(text)
        ids += [known.setdefault(word, len(known)) for word in tokens.words]
        lengths.append(len(tokens.words))
        no_space_after += tokens.no_space_after
    return np.array(ids, np.int32).tobytes(), np.array(lengths, np.int64).tobytes(), list(known), bytes(no_space_after)


def tokenizer_or_fallback(language: str, *, lowercase: bool) -> Tokenizer:
    """Returns a language's tokeniser, of fr for fra; if spaCy has none, warns and returns the one for any language."""
    try:
        return Tokenizer(language, lowercase=lowercase)
    except ConfigError as error:
        if (code := primary_subtag(language)) != language:
            return tokenizer_or_fallback(code, lowercase=lowercase)
        log.warning("%s; the rules for any language (xx) are used instead", error)
        return Tokenizer("xx", lowercase=lowercase)


@dataclass(frozen=True)
class Detokenizer:
    """Which tokens are written without a space between them, learned from real text; independent of language.

    A pair of tokens that was seen in training gets a space if it mostly had one there. Any other pair follows a rule:
    it gets a space, except before a token such as "." and after one such as "(". Such a token mostly is attached to
    words on that side, and does not begin or end there with a letter or a digit. So two words that were never seen
    together get a space, even in Chinese. Of the pairs seen, only exceptions to the rule are stored.
    """

    attach_left: frozenset[str] = frozenset()
    """tokens such as "." and ")" that are attached to the word before them"""
    attach_right: frozenset[str] = frozenset()
    """tokens such as "(" that are attached to the word after them"""
    attached_pairs: frozenset[tuple[str, str]] = frozenset()
    """exceptions without a space: ("t", "-"), ("do", "n't")"""
    spaced_pairs: frozenset[tuple[str, str]] = frozenset()
    """exceptions with a space"""

    def __repr__(self) -> str:
        return f"Detokenizer({', '.join(f'{len(getattr(self, each.name))} {each.name}' for each in fields(self))})"

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Returns plain text made from tokens."""
        pieces = list(tokens[:1])
        for left, right in pairwise(tokens):
            pieces.append(right if self._is_attached(left, right) else f" {right}")
        return "".join(pieces)

    def _is_attached(self, left: str, right: str) -> bool:
        if (left, right) in self.attached_pairs:
            return True
        if (left, right) in self.spaced_pairs:
            return False
        return left in self.attach_right or right in self.attach_left

    def as_json(self) -> dict[str, Any]:
        """Returns what `from_json` reads, in a stable order."""
        return {field.name: sorted(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_json(value: Any) -> "Detokenizer":
        """The inverse of `as_json`. Raises KeyError, TypeError or ValueError for anything else."""
        return Detokenizer(
            frozenset(value["attach_left"]),
            frozenset(value["attach_right"]),
            *(frozenset((left, right) for left, right in value[key]) for key in ("attached_pairs", "spaced_pairs")),
        )


def join_subwords(text: str, joiner: str | None) -> str:
    """Returns a text without the marks of parts of words (`data.joiner`): with "@@", "ein H@@ und" is "ein Hund"."""
    if joiner == "▁":
        return "".join(text.split()).replace(joiner, " ").strip() if joiner in text else text
    return JOINTS[joiner].sub("", text) if joiner else text


def learn_detokenizer(
    words: Sequence[str], left: NDArray[np.int32], right: NDArray[np.int32], no_space_after: NDArray[np.bool_]
) -> Detokenizer:
    """Learn a detokeniser from neighbouring words in real text.

    words[left[i]] stood before words[right[i]]; no_space_after[i] is True if there was no space between the two.
    """
    # a pair as one integer: of 100 words, (12, 34) is 1234
    pairs, which = np.unique(left.astype(np.int64) * len(words) + right, return_inverse=True)
    majority = np.bincount(which, np.where(no_space_after, 1, -1))  # per pair: times without a space - times with one
    left, right = np.divmod(pairs, len(words))
    ends_as_word = np.array([word[-1].isalnum() for word in words])
    begins_as_word = np.array([word[0].isalnum() for word in words])
    attach_left = np.bincount(right, majority * (ends_as_word[left] & ~begins_as_word[right]), len(words)) > 0
    attach_right = np.bincount(left, majority * (begins_as_word[right] & ~ends_as_word[left]), len(words)) > 0
    attached_by_rule = attach_right[left] | attach_left[right]

    def token_pairs(chosen: NDArray[np.bool_]) -> frozenset[tuple[str, str]]:
        return frozenset((words[one], words[other]) for one, other in zip(left[chosen], right[chosen], strict=True))

    return Detokenizer(
        frozenset(compress(words, attach_left)),
        frozenset(compress(words, attach_right)),
        token_pairs((majority > 0) & ~attached_by_rule),
        token_pairs((majority < 0) & attached_by_rule),
    )


@cache
def _spacy() -> Any:
    """Import spaCy, but keep it from importing torch, which takes seconds and 200 MB, unless that is loaded already."""
    is_hidden = "torch" not in sys.modules and not entry_points(group="spacy_factories")  # a plug-in may need torch
    if is_hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]  # Python's way to say that it cannot be imported
    try:
        import spacy
    except ModuleNotFoundError:
        raise ConfigError("spaCy, which cuts text into words, is not installed; install spacy 3.7.5 or newer") from None
    finally:
        if is_hidden:
            del sys.modules["torch"]
    return spacy


def _blank_tokenizer(language: str) -> Any:
    spacy = _spacy()

    found = importlib.util.find_spec(f"spacy.lang.{language}") if language.isidentifier() else None
    if found is None or found.submodule_search_locations is None:  # spacy.lang.punctuation is not a language
        raise ConfigError(
            f"spaCy has no tokeniser for language {language!r}; give a code such as de, en, fr, cs, or xx (any)"
        )
    try:
        tokenizer: Any = spacy.blank(language).tokenizer
    except ImportError as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"spaCy's tokeniser for {language!r} needs a further package: {why}") from None
    tokenizer.vocab.lex_attr_getters = {}  # shape, stop-word and URL flags: unused, but half of the time
    return tokenizer


def _split_long_runs(text: str) -> tuple[str, Set[int]]:
    """Insert spaces into runs of more than MAX_UNSPACED_CHARS characters; returns the text and the spaces' offsets.

    For example, with runs of at most 3 characters, "ab cdefghi" becomes "ab cde fgh i", and the offsets are 6 and 10.
    """
    ends = [found.end() for found in re.finditer(rf"\S{{{MAX_UNSPACED_CHARS}}}(?=\S)", text)]
    parts = [text[start:end] for start, end in pairwise([0, *ends, len(text)])]
    return " ".join(parts), {end + number for number, end in enumerate(ends)}
