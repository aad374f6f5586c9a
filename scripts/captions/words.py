"""The lexicon: words parsed from the tables, and how each is inflected. Knows nothing of phrases or sentences."""

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from captions import tables


@dataclass(frozen=True, eq=False)
class Noun:
    """One noun in both languages; `kind` is its selectional class. Each exists once, so `==` is `is`."""

    kind: str
    gender: str
    german: str
    german_plural: str
    is_weak: bool
    english: str
    english_plural: str
    pronoun: str

    @property
    def who(self) -> str:
        """`person` or `animal`, as verbs and places name their subjects."""
        return "person" if self.kind in tables.PEOPLE else "animal"

    def german_form(self, case: str, plural: bool) -> str:
        """Inflected: `Hunden` for (dat, plural), `Jungen` for (acc, singular)."""
        if plural:
            needs_n = case == "dat" and self.german_plural[-1] not in "ns"
            return self.german_plural + "n" * needs_n
        return self.german_plural if self.is_weak and case != "nom" else self.german

    def english_form(self, plural: bool) -> str:
        return self.english_plural if plural else self.english


class Adjective(NamedTuple):
    """`base` stands alone (ist dunkel); endings join `stem` (ein dunkler Tunnel)."""

    base: str
    stem: str
    english: str


@dataclass(frozen=True)
class Verb:
    """A verb with what it governs. English particles and prepositions belong to `english`: `look for`."""

    finite: str
    infinitive: str
    particle: str
    preposition: str
    english: str
    objects: tuple[str, ...] = ()

    @property
    def case(self) -> str:
        """Of its object."""
        return tables.VERB_PREPOSITIONS.get(
            self.preposition, "dat" if self.infinitive in tables.DATIVE_VERBS else "acc"
        )

    @property
    def frame(self) -> str:
        """Which kind of clause it heads: action, separable, prepositional, dative or object."""
        if not self.objects:
            return "action"
        if self.particle:
            return "separable"
        if self.preposition:
            return "prepositional"
        return "dative" if self.case == "dat" else "object"

    def german_finite(self, plural: bool) -> str:
        """Third person without the particle: `hebt`, `heben`."""
        return self.infinitive.removeprefix(self.particle) if plural else self.finite

    def to_infinitive(self) -> str:
        """`zu heben`, and in one word `aufzuheben`."""
        stem = self.infinitive.removeprefix(self.particle)
        return f"{self.particle}zu{stem}" if self.particle else f"zu {stem}"

    def english_third(self, plural: bool) -> str:
        """`picks up`, `pick up`."""
        head, *rest = self.english.split()
        return " ".join([head if plural else with_s(head), *rest])

    def english_ing(self) -> str:
        """`picking up`."""
        head, *rest = self.english.split()
        return " ".join([with_ing(head), *rest])


def with_s(word: str) -> str:
    """Third person or plural: watches, carries, plays."""
    if re.search(r"(s|sh|ch|x|z|[^aeiou]o)$", word):
        return word + "es"
    return re.sub(r"([^aeiou])y$", r"\1ie", word) + "s"


def with_ing(word: str) -> str:
    """Present participle: lying, taking, running, waiting."""
    if word.endswith("ie"):
        return word[:-2] + "ying"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", word):  # one short syllable doubles its end
        return word + word[-1] + "ing"
    return re.sub(r"([^e])e$", r"\1", word) + "ing"


@functools.cache
def parse_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`rot = red; blau = blue`, or shorter `rot red, blau blue` → (("rot", "red"), ("blau", "blue"))."""
    if "=" in text:
        return tuple((left, right) for left, right in (row.strip().split(" = ") for row in text.split(";")))
    pairs = (item.split() for item in text.split(","))
    return tuple((german, english.replace("_", " ")) for german, english in pairs)


def _rows(table: str) -> list[list[str]]:
    """The cells of a table, a row a line, between upright strokes."""
    return [[cell.strip() for cell in row.split("|")] for row in table.strip().split("\n")]


def parse_verbs(text: str, objects: tuple[str, ...] = ()) -> tuple[Verb, ...]:
    """Rows such as `hebt auf, aufheben = pick up`, separated by semicolons."""
    verbs = []
    for forms, english in parse_pairs(text):
        third, infinitive = forms.split(", ")
        finite, _, second = third.partition(" ")
        separable = bool(second) and infinitive.startswith(second)
        verbs.append(
            Verb(finite, infinitive, second if separable else "", "" if separable else second, english, objects)
        )
    return tuple(verbs)


def _parse_adjectives(text: str) -> tuple[Adjective, ...]:
    rows = [(*german.partition("/"), english) for german, english in parse_pairs(text)]
    return tuple(Adjective(base, stem or base, english) for base, _, stem, english in rows)


def _parse_noun(kind: str, row: str) -> Noun:
    german, english = row.strip().split(" = ")
    singular, plural = german.split(", ")
    article, name = singular.split()
    gender = tables.ARTICLES[article]
    one, *more = english.split(", ")
    pronoun = more[1] if len(more) > 1 else tables.PRONOUNS[gender] if kind in tables.PEOPLE else "it"
    many = more[0] if more else with_s(one)
    return Noun(kind, gender, name.rstrip("*"), plural, name.endswith("*"), one, many, pronoun)


class Place(NamedTuple):
    """A noun behind a preposition; `case` is the German one's, `closing` what ends the German phrase (um … herum)."""

    german: str
    case: str
    english: str
    closing: str
    noun: Noun


class Journey(NamedTuple):
    """Prepositions of both ends, (German, case, English) each, and the nouns between which it may lead."""

    origin: tuple[str, ...]
    goal: tuple[str, ...]
    nouns: tuple[Noun, ...]


class Modal(NamedTuple):
    """Singular and plural of a modal verb."""

    german: tuple[str, ...]
    english: tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """Every table, parsed; verbs and places by who may be the subject: `person` or `animal`."""

    nouns: Mapping[str, tuple[Noun, ...]]
    adjectives: Mapping[str, tuple[Adjective, ...]]
    verbs: Mapping[tuple[str, str], tuple[Verb, ...]]
    places: Mapping[str, tuple[Place, ...]]
    paths: tuple[tuple[Verb, Place], ...]
    journeys: tuple[Journey, ...]
    modals: tuple[Modal, ...]
    giving: tuple[Verb, ...]
    on_foot: tuple[Verb, ...]
    wear: Verb
    like: Verb


@functools.cache
def read_lexicon() -> Lexicon:
    """Parse the tables, once."""
    nouns = {kind: tuple(_parse_noun(kind, row) for row in text.split(";")) for kind, text in tables.NOUNS.items()}
    nouns["person"] = nouns["adult"] + nouns["child"]
    named = {noun.german: noun for group in nouns.values() for noun in group}
    verbs: dict[tuple[str, str], tuple[Verb, ...]] = {}
    for who, what, text in _rows(tables.VERBS):
        for subject, verb in itertools.product(who.split(), parse_verbs(text, tuple(what.split()))):
            verbs[verb.frame, subject] = (*verbs.get((verb.frame, subject), ()), verb)
    places: dict[str, tuple[Place, ...]] = {}
    for who, german, english, names in _rows(tables.PLACES):
        for subject in who.split():
            found = (Place(german, "dat", english, "", named[name]) for name in names.split())
            places[subject] = (*places.get(subject, ()), *found)
    paths = tuple(
        (verb, Place(german, case, english, closing, named[name]))
        for motion, german, case, english, closing, names in _rows(tables.PATHS)
        for name in names.split()
        for verb in parse_verbs(tables.ON_FOOT if motion == "*" else motion)
    )
    journeys = tuple(
        Journey(tuple(origin.split(", ")), tuple(goal.split(", ")), tuple(named[name] for name in names.split()))
        for origin, goal, names in _rows(tables.FROM_TO)
    )
    modals = tuple(Modal(tuple(de.split(", ")), tuple(en.split(", "))) for de, en in parse_pairs(tables.MODALS))
    adjectives = {kind: _parse_adjectives(text) for kind, text in tables.ADJECTIVES.items()}
    giving, on_foot, (like,) = (parse_verbs(text) for text in (tables.GIVING, tables.ON_FOOT, tables.LIKING))
    (wear,) = parse_verbs(tables.WEARING, tables.WORN)
    return Lexicon(nouns, adjectives, verbs, places, paths, journeys, modals, giving, on_foot, wear, like)
