"""What every search for a translation works with: a decoder that is run step by step, and the hypotheses it yields.

Knows token ids and positions. Knows no text, no files and no class of model: any object with these methods can be
searched. A row is one hypothesis in the making. Rows of a sentence are neighbours: one in greedy search, up to
`beam_size` in beam search, where sentences may have different numbers of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from transformer_cli.decoding.constraints import Constraints

if TYPE_CHECKING:
    from torch import Tensor

BeforeStep = Callable[[], object]
"""What is called before each step of a search, and ends it by raising: a server looks whether anybody still waits"""


def nothing() -> None:
    """Do nothing before a step."""


@dataclass(frozen=True)
class Step:
    """What a decoder returns after it has read one more token of each row."""

    logits: "Tensor"
    """(rows, vocabulary), for the next token; the search may change them in place"""
    attended: "Tensor"
    """int64 (rows,), the source position that the last layer attended to most, over all heads, when it read the token

    Positions count from <sos>, which is position 0; <sos>, <eos> and padding are never the answer.
    """


class StepDecoder(Protocol):
    """A batch of sentences being decoded, one step at a time. It owns what has been computed so far (the cache)."""

    def read(self, tokens: "Tensor") -> Step:
        """Read the newest token of each row, int64 (rows,): <sos> in the first call."""

    def select(self, rows: "Tensor") -> None:
        """Let row i continue what is now row rows[i]: int64 (rows from now on,), at least one.

        A row may be continued more than once, or not at all. Sentences stay in their order; one without rows is
        dropped. For example, in greedy search, when the second of four sentences is finished: [0, 2, 3]. If then the
        old sentence 2 is finished: [0, 2]. When [0, 0, 0, 1, 1] follows, the one row of the first sentence becomes
        three, and that of the other one two.
        """


@dataclass(frozen=True)
class Rules:
    """What may be written, in every search of ours; ctranslate2.py tells CTranslate2 the same."""

    max_tokens: "Tensor"
    """int64 (sentences,): how many tokens each sentence's translation may have, at least 1, <eos> not counted"""
    sos: int
    eos: int
    never: "Tensor"
    """int64: ids that are never chosen"""
    constraints: Constraints = Constraints()
    """what depends on the tokens so far"""
    length_penalty: float = 1.0
    """α of the scores"""


Phrase = tuple[int, ...]


@dataclass(frozen=True)
class RequiredTerms:
    """What a translation has to write."""

    phrases: tuple[tuple[Phrase, ...], ...]
    """for each term, ids that each would do: at least one of them, once for each term"""
    places: tuple[frozenset[int], ...] = ()
    """for each term the source positions of which it is the translation: it begins where one of them is attended to, or
    where the translation would end; () for anywhere"""
    continuing: frozenset[int] = frozenset()
    """ids that go on with a word: a term is not written if one of them follows it"""

    @property
    def n_tokens(self) -> int:
        """How many tokens the terms take at least."""
        return sum(min(map(len, each)) for each in self.phrases)


def score(log_prob: float, length: int, length_penalty: float) -> float:
    """Returns log_prob / length^α, as CTranslate2, fairseq and Marian score hypotheses.

    length: how many log-probabilities were added up, <eos> counted, at least 1. length_penalty: α; 0 leaves log_prob.
    """
    return log_prob / length**length_penalty


@dataclass(frozen=True)
class Hypothesis:
    """A decoded row."""

    tokens: list[int]
    """without <sos> and <eos>"""
    attended: list[int]
    """one per token: the source position that was attended to most in the step that chose it, <sos> being position 0"""
    log_prob: float
    """sum of the log-probabilities of the tokens, and of <eos> if it was reached; NaN if it was not wanted"""
    score: float
    """what hypotheses of a sentence are compared by: log_prob / length^α, <eos> counted if it was reached"""
