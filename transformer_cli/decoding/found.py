"""A translation that another program has found, before it is what our own searches return. Knows no such program."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_cli.decoding.interface import Hypothesis, score
from transformer_cli.decoding.settings import SearchSettings


@dataclass
class Found:
    """A translation that CTranslate2 has found."""

    tokens: list[int]
    attended: list[int]
    """as in Hypothesis"""
    log_prob: float
    ended: bool
    """whether <eos> was reached"""

    @property
    def steps(self) -> int:
        """How many tokens were chosen, <eos> included."""
        return len(self.tokens) + self.ended

    def cut(self, limit: int) -> bool:
        """End as a greedy search of at most `limit` steps, but for log_prob. Returns whether that changes anything."""
        if self.steps <= limit:
            return False
        self.tokens, self.attended, self.ended = self.tokens[:limit], self.attended[:limit], False
        return True

    def hypothesis(self, alpha: float) -> Hypothesis:
        """The same, scored. alpha: the length penalty."""
        return Hypothesis(self.tokens, self.attended, self.log_prob, score(self.log_prob, self.steps, alpha))


def n_best(found: Sequence[Found], settings: SearchSettings) -> list[Hypothesis]:
    """Returns as many hypotheses as were asked for, the best score first."""
    hypotheses = [each.hypothesis(settings.decoding.length_penalty) for each in found]
    return sorted(hypotheses, key=lambda each: -each.score)[: settings.n_best]
