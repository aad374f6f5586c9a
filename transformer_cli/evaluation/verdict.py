"""What a comparison's figures mean, in words. Pure functions from figures to sentences."""

from typing import Protocol

LEVEL = 0.05  # chance that a difference is called one where there is none, for all comparisons of a table together


class Found(Protocol):
    """A difference between two scores, and how often chance alone makes it."""

    @property
    def points(self) -> float:
        """The score minus the first one's."""

    @property
    def p(self) -> float | None:
        """None if it could not be computed."""


def verdict(
    name: str, first: str, *, bleu: Found, chrf: Found, comparisons: int, judges: str, least_p: float = 0.0
) -> str:
    """Returns one sentence about a system and the first one.

    comparisons: how many systems are compared with the first; they share LEVEL (Bonferroni). judges: what the figures
    come from, such as "1,000 sentences". least_p: the smallest p that these can show, whatever a test says.
    """
    if bleu.points == chrf.points == 0:
        return f"{name} and {first} have equal scores: {judges} show no difference at all"
    found = {"BLEU": bleu, "chrF": chrf}
    better = {
        metric: (name, first) if each.points > 0 else (first, name)
        for metric, each in found.items()
        if each.p is not None and max(each.p, least_p) < LEVEL / comparisons
    }
    if not better:
        unsure = ", ".join(
            f"{each.points:+.2f} {metric} ({_chance(each.p, least_p)})" for metric, each in found.items()
        )
        return f"{judges} cannot tell {name} and {first} apart: {unsure}"
    by = {metric: f"{abs(each.points):.2f} {metric} ({_chance(each.p, least_p)})" for metric, each in found.items()}
    if len(better) == 1:
        ((sure, (winner, loser)),) = better.items()
        (other,) = found.keys() - better.keys()
        unsure = f"{judges} cannot tell them apart by {other} ({_chance(found[other].p, least_p)})"
        return f"{winner} is better than {loser} by {by[sure]}; {unsure}"
    if better["BLEU"] == better["chrF"]:
        winner, loser = better["BLEU"]
        return f"{winner} is better than {loser} by {by['BLEU']} and {by['chrF']}"
    return f"the scores disagree: {better['BLEU'][0]} is better by {by['BLEU']}, {better['chrF'][0]} by {by['chrF']}"


def _chance(p: float | None, least_p: float) -> str:
    if p is None:
        return "no p-value"
    p = max(p, least_p)
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
