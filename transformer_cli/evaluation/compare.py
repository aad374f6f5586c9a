"""compare(systems): which of several translations of the same text is better, and whether that is more than chance.

`compare` judges single runs or files: sets of weights. `compare_recipes` judges several runs of each recipe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Literal

from transformer_cli.errors import DataError
from transformer_cli.evaluation.metrics import sentence_chrf, text_metrics
from transformer_cli.evaluation.significance import PairedScore, paired_tests
from transformer_cli.evaluation.spread import RecipeDifference, welch
from transformer_cli.evaluation.systems import Terms, Translated, translate_all
from transformer_cli.evaluation.verdict import verdict
from transformer_cli.system.terminal import counted, note


@dataclass(frozen=True)
class Example:
    """A sentence that two systems translate differently."""

    line: int
    """from 1"""
    source: str | None
    reference: str
    translations: tuple[str, str]
    """the first system's and the other's"""
    chrf: tuple[float, float]
    """of these translations"""


@dataclass(frozen=True)
class SystemResult:
    """How a system did, alone and beside the first one."""

    name: str
    bleu: PairedScore
    chrf: PairedScore
    verdict: str | None
    """None for the first system, as the next one"""
    examples: list[Example] | None
    """the sentences whose chrF differs most from the first system's, the largest difference first"""


@dataclass(frozen=True)
class Comparison:
    """Systems on the same text. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    bleu_signatures: list[str]
    """sacreBLEU's, of the bootstrap and of approximate randomisation"""
    chrf_signatures: list[str]
    systems: list[SystemResult]
    judges: Literal["weights"] = "weights"
    """not recipes, of which these are one run each"""


@dataclass(frozen=True)
class RecipeScore:
    """The scores of a recipe's runs by one metric, from 0 to 100."""

    scores: list[float]
    mean: float
    standard_deviation: float
    difference: RecipeDifference | None
    """None for the first recipe"""


@dataclass(frozen=True)
class RecipeResult:
    """How the runs of a recipe did, alone and beside the first recipe's."""

    runs: list[str]
    bleu: RecipeScore
    chrf: RecipeScore
    verdict: str | None
    """None for the first recipe"""


@dataclass(frozen=True)
class RecipeComparison:
    """Recipes on the same text, several runs of each. Its fields are the keys of `tfm compare --json`."""

    split: str
    sentences: int
    bleu_signature: str
    chrf_signature: str
    recipes: list[RecipeResult]
    judges: Literal["recipes"] = "recipes"


def compare(names: Sequence[str], terms: Terms = Terms(), *, examples: int = 3) -> list[Comparison]:
    """Compare the first of these runs or files of translations with each other one; returns one result per text.

    examples: how many sentences are shown of each pair. Raises CheckpointError or DataError.
    """
    if len(names) < 2:
        raise DataError("one system alone cannot be compared; name at least two")
    return [_compare(names, text, examples) for text in translate_all(names, terms)]


def compare_recipes(recipes: Sequence[Sequence[str]], terms: Terms = Terms()) -> list[RecipeComparison]:
    """Compare the first recipe with each other one, by the scores of the runs (or files) of each; one result per text.

    recipes: at least two runs of each, all different. Raises CheckpointError or DataError.
    """
    names = [name for runs in recipes for name in runs]
    if len(recipes) < 2:
        raise DataError("one recipe alone cannot be compared; name the runs of at least two")
    if few := next((runs for runs in recipes if len(runs) < 2), None):
        raise DataError(f"{few[0]}: one run has no spread; name at least two runs of each recipe, or one of each")
    places = [(terms.runs_dir / name if (terms.runs_dir / name).is_dir() else Path(name)).resolve() for name in names]
    if twice := next((name for name, place in zip(names, places, strict=True) if places.count(place) > 1), None):
        raise DataError(f"{twice}: named twice; the runs must be different ones")
    return [_compare_recipes(recipes, text) for text in translate_all(names, terms)]


def _compare(names: Sequence[str], text: Translated, n_examples: int) -> Comparison:
    note(f"{text.name}: testing whether chance explains the differences")
    tested = paired_tests(text.systems, text.references, language=text.language, lowercase=text.lowercase)
    single = [
        sentence_chrf(lines, text.references, lowercase=text.lowercase) if n_examples else [] for lines in text.systems
    ]
    systems = []
    for index, (name, bleu, chrf) in enumerate(zip(names, tested.scores["BLEU"], tested.scores["chrF"], strict=True)):
        said, shown = None, None
        if bleu.difference and chrf.difference:
            said = verdict(
                name,
                names[0],
                bleu=bleu.difference,
                chrf=chrf.difference,
                comparisons=len(names) - 1,
                judges=counted(len(text.references), "sentence"),
                least_p=_least_p(len(text.references)),
            )
            shown = _examples(text, index, single[0], single[index])[:n_examples]
        systems.append(SystemResult(name, bleu, chrf, said, shown))
    return Comparison(text.name, len(text.references), tested.signatures["BLEU"], tested.signatures["chrF"], systems)


def _least_p(sentences: int) -> float:
    """Returns the smallest p that so many sentences can show.

    They can be exchanged between two systems in 2^n ways, of which two make the difference that was found, or its
    mirror image. sacreBLEU counts larger differences only: with three sentences it may print p = 0.0001, not 0.25.
    """
    return float(2.0 ** (1 - sentences))


def _examples(text: Translated, index: int, before: Sequence[float], after: Sequence[float]) -> list[Example]:
    """Returns the sentences whose chrF differs between the first system and number `index`, largest difference first.

    before, after: the chrF of each sentence of the two.
    """
    rows = [row for row, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    rows.sort(key=lambda row: -abs(after[row] - before[row]))
    return [
        Example(
            row + 1,
            text.sources[row] if text.sources else None,
            text.references[row],
            (text.systems[0][row], text.systems[index][row]),
            (before[row], after[row]),
        )
        for row in rows
    ]


def _compare_recipes(recipes: Sequence[Sequence[str]], text: Translated) -> RecipeComparison:
    metrics = text_metrics(language=text.language, lowercase=text.lowercase, references=text.references)
    found = []
    for metric in metrics.values():
        scores = iter([float(metric.corpus_score(lines, None).score) for lines in text.systems])
        found.append(_recipe_scores([list(islice(scores, len(runs))) for runs in recipes]))
    results, first = [], recipes[0]
    for runs, bleu, chrf in zip(recipes, *found, strict=True):
        said = None
        if bleu.difference and chrf.difference:
            said = verdict(
                ",".join(runs),
                ",".join(first),
                bleu=bleu.difference,
                chrf=chrf.difference,
                comparisons=len(recipes) - 1,
                judges=f"{len(first)} and {len(runs)} runs",
            )
        results.append(RecipeResult(list(runs), bleu, chrf, said))
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    return RecipeComparison(text.name, len(text.references), signatures["BLEU"], signatures["chrF"], results)


def _recipe_scores(recipes: Sequence[list[float]]) -> list[RecipeScore]:
    """Returns what the scores of each recipe's runs are together, and beside the first recipe's."""
    return [
        RecipeScore(scores, mean(scores), stdev(scores), welch(scores, recipes[0]) if number else None)
        for number, scores in enumerate(recipes)
    ]
