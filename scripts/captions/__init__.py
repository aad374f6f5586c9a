"""The grammar behind the embedded corpus: it writes German–English captions, from a seed. `python -m captions` runs it.

A caption is one main clause and up to two more clause types; together they are its construction. Each clause type is a
function that writes both languages at once: English by its word order, German by its own (the finite verb second, or
last in a subordinate clause; time before place before object). The words are in tables.py.
"""

import bz2
import re
from collections.abc import Sequence

from captions.clauses import Caption, Dice, write_caption
from captions.words import read_lexicon

__all__ = [
    "Caption",
    "as_data",
    "constructions",
    "seen_constructions",
    "unseen_constructions",
    "write",
    "write_captions",
]

TOKEN = re.compile(r"\w+|[^\w\s]")

TRAIN_PAIRS = 20_000  # that come with the package
HELD_OUT_PAIRS = 500  # of valid, and of test
MAX_TOKENS = 22  # of either side, punctuation included
ATTEMPTS_PER_PAIR = 20

MAIN_CLAUSES = ("action", "object", "dative", "prepositional", "separable", "modal", "giving", "motion", "from_to")
OPENINGS = ("front_place", "front_time")
RELATIVES = ("relative_subject", "relative_object")
ENDINGS = ("while", "while_separable", "because", "and", "purpose")
FURTHER = (*OPENINGS, "right_now", *RELATIVES, *ENDINGS)

# The test split's constructions: never in train or valid, though each of their parts is, in other company.
UNSEEN = """
    action front_place while_separable; action front_time relative_subject; object front_place relative_subject;
    object front_time while; object relative_object while_separable; dative front_place while_separable;
    dative relative_subject because; prepositional front_time relative_object; prepositional right_now while;
    separable front_place while; separable front_time because; separable relative_subject and;
    separable right_now relative_object; modal front_place relative_object; modal front_time while_separable;
    modal relative_subject because; giving front_place relative_subject; giving right_now while_separable;
    motion front_time purpose; motion relative_subject while; from_to front_time while_separable;
    from_to relative_subject purpose
"""


def write(sentences: int, seed: int) -> dict[str, list[tuple[str, str]]]:
    """Write `train` (exactly `sentences` pairs), `valid` (500) and `test` (500): distinct (German, English) pairs.

    No German and no English sentence occurs twice. valid has the constructions of train; test has other constructions
    of the same parts. Neither of them depends on `sentences`.
    Raises ValueError if the grammar cannot make that many distinct pairs.
    """
    splits = write_captions(sentences, seed)
    return {split: [(caption.german, caption.english) for caption in captions] for split, captions in splits.items()}


def as_data() -> bytes:
    """Returns the file that comes with the package: as data/corpora.py reads it."""
    splits = write(TRAIN_PAIRS, seed=0)
    pairs = [*splits["valid"], *splits["test"], *splits["train"]]
    return bz2.compress("".join(f"{pair[side]}\n" for side in (0, 1) for pair in pairs).encode())


def write_captions(sentences: int, seed: int) -> dict[str, list[Caption]]:
    """Like `write`, but each caption comes with the clause types that it is made of."""
    dice = Dice(seed)
    known, unseen = seen_constructions(), unseen_constructions()
    taken: set[str] = set()
    valid = _distinct(dice, known, HELD_OUT_PAIRS, taken)
    test = _distinct(dice, unseen, HELD_OUT_PAIRS, taken)
    return {"train": _distinct(dice, known, sentences, taken), "valid": valid, "test": test}


def constructions() -> list[tuple[str, ...]]:
    """Every construction of the grammar: a main clause, and up to two further clause types that go with it."""
    pairs = [(first, second) for i, first in enumerate(FURTHER) for second in FURTHER[i + 1 :]]
    companies = [(), *((part,) for part in FURTHER), *pairs]
    return [(main, *company) for main in MAIN_CLAUSES for company in companies if _go_together(main, company)]


def seen_constructions() -> list[tuple[str, ...]]:
    """The constructions of train and valid."""
    unseen = unseen_constructions()
    return [construction for construction in constructions() if construction not in unseen]


def unseen_constructions() -> list[tuple[str, ...]]:
    """The constructions of test."""
    return [tuple(construction.split()) for construction in UNSEEN.split(";")]


def _go_together(main: str, company: Sequence[str]) -> bool:
    """Whether good German has these clause types in one sentence, and both languages say the same with it."""
    if any(len(set(group) & set(company)) > 1 for group in (OPENINGS, RELATIVES, ENDINGS)):
        return False
    clashes = (
        ("right_now", ("front_time", "modal")),
        ("relative_object", ("action", "giving", "motion", "from_to", "because")),  # no object, or an unclear "he"
        ("front_place", ("motion", "from_to")),
        ("and", ("modal",)),
    )
    if any(part in company and {main, *company} & set(others) for part, others in clashes):
        return False
    return "purpose" not in company or main in ("motion", "from_to")


def _distinct(dice: Dice, pool: Sequence[tuple[str, ...]], wanted: int, taken: set[str]) -> list[Caption]:
    """Write `wanted` captions of these constructions, without sentences in `taken`, to which their own are added."""
    words = read_lexicon()
    by_length = {n: [construction for construction in pool if len(construction) == n] for n in (1, 2, 3)}
    lengths = [n for n in (1, 1, 2, 2, 2, 3, 3, 3, 3, 3) if by_length[n]]  # of 10 captions, 5 have 3 clause types
    captions: list[Caption] = []
    for _ in range(ATTEMPTS_PER_PAIR * wanted):
        caption = write_caption(dice, words, dice.pick(by_length[dice.pick(lengths)]))
        sides = {caption.german, caption.english}
        if max(map(_length, sides)) <= MAX_TOKENS and taken.isdisjoint(sides):
            taken |= sides
            captions.append(caption)
        if len(captions) == wanted:
            return captions
    raise ValueError(f"only {len(captions)} of {wanted} sentence pairs found")


def _length(sentence: str) -> int:
    return len(TOKEN.findall(sentence))
