"""Noun phrases and predicates, each in both languages. Knows nothing of clauses."""

from dataclasses import dataclass
from typing import NamedTuple

from captions import tables
from captions.text import NOTHING, join
from captions.words import Adjective, Modal, Noun, Verb, parse_pairs


class Article(NamedTuple):
    """German stem and English form; `declension` says how the German adjective after it ends."""

    declension: str
    german: str
    english: str


A = Article("mixed", "ein", "a")
THE = Article("weak", "der", "the")
BARE = Article("strong", "", "")
ONE = (A, A, A, THE, THE)
MANY = (BARE, THE, *(Article("strong", *pair) for pair in parse_pairs(tables.QUANTIFIERS)))


@dataclass(frozen=True)
class Phrase:
    """A noun phrase before its case is known."""

    noun: Noun
    plural: bool
    article: Article
    adjective: Adjective | None = None

    @property
    def form(self) -> int:
        """Column of the inflection tables: masculine, feminine, neuter, plural."""
        return 3 if self.plural else tables.GENDERS.index(self.noun.gender)

    def german(self, case: str) -> str:
        """`einem roten Ball` for dat."""
        article = self.article.german
        if self.article == THE:
            article = tables.DEFINITE[case][self.form]
        elif self.article.declension == "mixed":
            article += tables.AFTER_EIN[case][self.form]
        elif case == "dat" and article.endswith("e"):  # vielen, einigen; but zwei
            article += "n"
        ending = tables.ADJECTIVE_ENDINGS[self.article.declension][case][self.form]
        adjective = self.adjective.stem + ending if self.adjective else ""
        return join(article, adjective, self.noun.german_form(case, self.plural))

    def german_after(self, preposition: str, case: str) -> str:
        """`am alten See`, `mit einem roten Ball`."""
        article, _, rest = self.german(case).partition(" ")
        contracted = tables.CONTRACTIONS.get((preposition, article))
        return join(contracted, rest) if contracted else join(preposition, article, rest)

    def english(self) -> str:
        """`a red ball`, `an orange ball`, `a uniform`."""
        words = join(self.adjective.english if self.adjective else "", self.noun.english_form(self.plural))
        needs_n = self.article == A and words[0] in "aeiou" and not words.startswith("uni")
        return join(self.article.english + "n" * needs_n, words)

    def pronoun(self) -> str:
        """The English one; "" where none is sure."""
        return "they" if self.plural else self.noun.pronoun

    def relative_pronoun(self, case: str) -> str:
        return "denen" if self.plural and case == "dat" else tables.DEFINITE[case][self.form]


@dataclass(frozen=True)
class Predicate:
    """A verb and what belongs to it, without word order."""

    verb: Verb
    german: str = ""
    english: str = ""
    object: Phrase | None = None
    modal: Modal | None = None
    manner: tuple[str, str] = NOTHING

    def german_second(self, plural: bool) -> tuple[str, str]:
        """The finite verb, and what closes a main clause: `hebt`, `auf`."""
        if self.modal:
            return self.modal.german[plural], self.verb.infinitive
        return self.verb.german_finite(plural), self.verb.particle

    def german_last(self, plural: bool) -> str:
        """The end of a subordinate clause: `einen Ball aufhebt`."""
        return join(self.manner[0], self.german, self.verb.particle + self.verb.german_finite(plural))

    def english_present(self, plural: bool) -> str:
        """`carefully picks up a ball`, `wants to pick up a ball`."""
        if self.modal:
            return join(self.modal.english[plural], self.verb.english, self.english)
        return join(self.manner[1], self.verb.english_third(plural), self.english)

    def english_progressive(self, plural: bool) -> str:
        """`is carefully picking up a ball`."""
        return join("are" if plural else "is", self.manner[1], self.verb.english_ing(), self.english)
