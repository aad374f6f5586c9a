"""The clauses of a caption, each written in both languages at once, and the caption put together from them.

Knows neither which clauses go together nor which captions there are already.
"""

import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from captions import tables
from captions.phrases import BARE, MANY, ONE, THE, A, Article, Phrase, Predicate
from captions.text import NOTHING, Text, as_sentence, join
from captions.words import Lexicon, Noun, Place, Verb, parse_pairs

T = TypeVar("T")

OWNED = (*tables.WORN, "toy", "readable", "vehicle", "food", "portable")
HANDLED = (*tables.WORN, "toy", "food", "portable")  # with which one can be careful or quick
OBJECT_FRAMES = ("object", "prepositional", "dative", "separable")


@dataclass(frozen=True)
class Caption:
    """One pair and the clause types that it is made of, the main clause first."""

    german: str
    english: str
    construction: tuple[str, ...]


class Dice:
    """Random choices. Draws with random() alone, the one method whose numbers no Python version may change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability


@dataclass(frozen=True)
class Desk:
    """What every clause is written with. `ornaments` is how likely an adjective is, less in long captions."""

    dice: Dice
    words: Lexicon
    ornaments: float
    may_own: bool  # `his ball that …` is no English


def write_caption(dice: Dice, words: Lexicon, construction: tuple[str, ...]) -> Caption:
    """One caption of the given construction, whatever its length."""
    main, parts = construction[0], construction[1:]
    desk = Desk(dice, words, (0.7, 0.45, 0.25)[len(parts)], "relative_object" not in parts)
    subject = _subject(desk, person=main in ("giving", "modal"), named="because" in parts)
    wakes = "relative_subject" in parts or "and" in parts
    if main in SPECIAL:
        predicate = SPECIAL[main](desk, subject)
    else:
        predicate = _acting(desk, (main,), subject, ("schlafen",) if wakes else ())
    opening = _place(desk, subject) if "front_place" in parts else _time(desk) if "front_time" in parts else NOTHING
    time, place = _midfield(desk, construction, subject)
    after_subject = (
        _relative_on_subject(desk, subject, (predicate.verb.infinitive,)) if "relative_subject" in parts else NOTHING
    )
    after_object = _relative_on_object(desk, subject, predicate) if "relative_object" in parts else NOTHING
    ending = _ending(desk, construction, subject, predicate)

    finite, closing = predicate.german_second(subject.plural)
    german_subject = join(subject.german("nom"), after_subject[0])
    start = join(opening[0], finite, german_subject) if opening[0] else join(german_subject, finite)
    now = "gerade" if "right_now" in parts else ""
    middle = (now, time[0], place[0], predicate.manner[0], predicate.german)
    german = join(start, *middle, closing, after_object[0], ending[0], ".")

    tell = predicate.english_progressive if now else predicate.english_present
    start = join(opening[1], "," if opening[1] else "", subject.english(), after_subject[1])
    english = join(start, tell(subject.plural), after_object[1], place[1], time[1], ending[1], ".")
    return Caption(as_sentence(german), as_sentence(english), construction)


def _subject(
    desk: Desk, *, person: bool = False, plural: bool | None = None, named: bool = False, besides: Container[Noun] = ()
) -> Phrase:
    """People or an animal; `person` allows people only, `named` nouns with an English pronoun only."""
    kind = "person" if person or desk.dice.chance(0.65) else "animal"
    many = desk.dice.chance(0.3) if plural is None else plural
    nouns = [n for n in desk.words.nouns[kind] if n not in besides and (many or n.pronoun or not named)]
    return _phrase(desk, desk.dice.pick(nouns), many, MANY if many else ONE)


def _phrase(desk: Desk, noun: Noun, plural: bool, articles: Sequence[Article]) -> Phrase:
    adjective = desk.dice.pick(desk.words.adjectives[noun.kind]) if desk.dice.chance(desk.ornaments) else None
    return Phrase(noun, plural, desk.dice.pick(articles), adjective)


def _object(desk: Desk, kinds: Sequence[str], subject: Phrase) -> Phrase:
    """What the subject acts on: another noun; clothing in the subject's number, since nobody wears three hats."""
    kind = desk.dice.pick(kinds)
    noun = desk.dice.pick([noun for noun in desk.words.nouns[kind] if noun != subject.noun])
    plural = subject.plural if kind in tables.WORN else desk.dice.chance(0.25)
    articles: tuple[Article, ...] = (BARE, THE) if plural and kind in tables.WORN else MANY if plural else ONE
    if desk.may_own and subject.pronoun() and kind in OWNED:
        german = "ihr" if subject.plural or subject.noun.gender == "f" else "sein"
        articles = (*articles, Article("mixed", german, tables.POSSESSIVES[subject.pronoun()]))
    return _phrase(desk, noun, plural, articles)


def _acting(desk: Desk, frames: Sequence[str], subject: Phrase, besides: Container[str] = ()) -> Predicate:
    """Any verb of these frames but `besides` (infinitives), with its object if it has one."""
    verbs = [verb for frame in frames for verb in desk.words.verbs[frame, subject.noun.who]]
    verb = desk.dice.pick([verb for verb in verbs if verb.infinitive not in besides])
    return _with_object(desk, verb, subject) if verb.objects else Predicate(verb)


def _with_object(desk: Desk, verb: Verb, subject: Phrase) -> Predicate:
    thing = _object(desk, verb.objects, subject)
    german = thing.german_after(verb.preposition, verb.case)
    handled = verb.particle and thing.noun.kind in HANDLED
    return Predicate(verb, german, thing.english(), thing, manner=_manner(desk) if handled else NOTHING)


def _modal(desk: Desk, subject: Phrase) -> Predicate:
    return replace(_acting(desk, OBJECT_FRAMES, subject), modal=desk.dice.pick(desk.words.modals), manner=NOTHING)


def _giving(desk: Desk, subject: Phrase) -> Predicate:
    """`gibt einem Kind einen Apfel`, `gives an apple to a child`."""
    gift = _object(desk, tables.GIFTS, subject)
    taker = _object(desk, ("person",), subject)
    german = join(taker.german("dat"), gift.german("acc"))
    return Predicate(desk.dice.pick(desk.words.giving), german, join(gift.english(), "to", taker.english()))


def _motion(desk: Desk, subject: Phrase) -> Predicate:
    """`läuft um den alten Baum herum`, `runs around the old tree`."""
    verb, path = desk.dice.pick(desk.words.paths)
    return Predicate(verb, *_located(desk, path), manner=_manner(desk))


def _from_to(desk: Desk, subject: Phrase) -> Predicate:
    """`geht vom See zum Brunnen`, `walks from the lake to the fountain`."""
    origin, goal, nouns = desk.dice.pick(desk.words.journeys)
    first = desk.dice.pick(nouns)
    second = desk.dice.pick([noun for noun in nouns if noun != first])
    german, english = "", ""
    for (preposition, case, in_english), noun in ((origin, first), (goal, second)):
        de, en = _located(desk, Place(preposition, case, in_english, "", noun))
        german, english = join(german, de), join(english, en)
    return Predicate(desk.dice.pick(desk.words.on_foot), german, english, manner=_manner(desk))


SPECIAL: dict[str, Callable[[Desk, Phrase], Predicate]] = {
    "modal": _modal,
    "giving": _giving,
    "motion": _motion,
    "from_to": _from_to,
}


def _located(desk: Desk, place: Place) -> Text:
    """A place in both languages."""
    phrase = _phrase(desk, place.noun, False, ONE)
    return join(phrase.german_after(place.german, place.case), place.closing), join(place.english, phrase.english())


def _place(desk: Desk, subject: Phrase) -> Text:
    """Where the subject may well be: `im Park`, `in the park`."""
    return _located(desk, desk.dice.pick(desk.words.places[subject.noun.who]))


def _time(desk: Desk) -> Text:
    """`am Montag`, `an einem kalten Morgen` or another time."""
    if desk.dice.chance(0.2):
        german, english = desk.dice.pick(parse_pairs(tables.WEEKDAYS))
        return f"am {german}", f"on {english}"
    if desk.dice.chance(0.3):
        noun = desk.dice.pick(desk.words.nouns["moment"])
        moment = Phrase(noun, False, A, desk.dice.pick(desk.words.adjectives["moment"]))
        return moment.german_after("an", "dat"), f"on {moment.english()}"
    return desk.dice.pick(parse_pairs(tables.TIMES))


def _manner(desk: Desk) -> Text:
    return desk.dice.pick(parse_pairs(tables.MANNERS)) if desk.dice.chance(desk.ornaments / 2) else NOTHING


def _midfield(desk: Desk, construction: tuple[str, ...], subject: Phrase) -> tuple[Text, Text]:
    """Time and place inside the clause: always where an action happens, elsewhere as an ornament."""
    main, parts = construction[0], construction[1:]
    if "relative_object" in parts:  # `… einen Ball auf, den`: the object stays last
        return NOTHING, NOTHING
    may_date = not {"front_time", "right_now", "because"} & set(parts)
    time = _time(desk) if may_date and desk.dice.chance(desk.ornaments / 3) else NOTHING
    may_place = "front_place" not in parts and main not in ("motion", "from_to")
    place = main == "action" or desk.dice.chance(desk.ornaments / 3)
    return time, _place(desk, subject) if may_place and place else NOTHING


def _relative_on_subject(desk: Desk, subject: Phrase, besides: Sequence[str]) -> Text:
    """`, der einen Hut trägt,`; `who is wearing a hat`."""
    is_person = subject.noun.who == "person"
    if is_person and desk.dice.chance(0.4):
        predicate = _with_object(desk, desk.words.wear, subject)
    else:
        predicate = _acting(desk, OBJECT_FRAMES, subject, besides)
    who = "who" if is_person else "that"
    german = join(",", subject.relative_pronoun("nom"), predicate.german_last(subject.plural), ",")
    return german, f"{who} {predicate.english_progressive(subject.plural)}"


def _relative_on_object(desk: Desk, subject: Phrase, predicate: Predicate) -> Text:
    """`, mit dem ein Kind spielt,`; `that a child is playing with`."""
    thing = predicate.object
    assert thing is not None, f"{predicate.verb.english} has no object"
    kind = thing.noun.kind
    plural = thing.plural if kind in tables.WORN else None  # two men do not wear one hat
    if kind in (*tables.PEOPLE, "animal"):  # in `eine Frau, die ein Kind sucht` only the number shows who seeks whom
        plural = not thing.plural
    doer = _subject(desk, person=kind not in ("toy", "animal"), plural=plural, besides=(subject.noun, thing.noun))
    kind = thing.noun.who if kind in tables.PEOPLE else kind
    options = [
        verb
        for frame in OBJECT_FRAMES
        for verb in desk.words.verbs[frame, doer.noun.who]
        if kind in verb.objects and verb.infinitive != predicate.verb.infinitive
    ]
    verb = desk.dice.pick(options)
    pronoun = join(verb.preposition, thing.relative_pronoun(verb.case))
    german = join(",", pronoun, doer.german("nom"), verb.particle + verb.german_finite(doer.plural), ",")
    be = "are" if doer.plural else "is"
    return german, join("whom" if kind == "person" else "that", doer.english(), be, verb.english_ing())


def _ending(desk: Desk, construction: tuple[str, ...], subject: Phrase, predicate: Predicate) -> Text:
    """The clause after the main one, if the construction has any."""
    for part, write_ending in ENDING_WRITERS.items():
        if part in construction:
            return write_ending(desk, construction, subject, predicate)
    return NOTHING


def _while(desk: Desk, construction: tuple[str, ...], subject: Phrase, predicate: Predicate) -> Text:
    """`, während ein Kind einen Ball aufhebt`, `while a child is picking up a ball`."""
    other = _subject(desk, besides=(subject.noun,))
    frames = ("separable",) if "while_separable" in construction else ("action", "object", "prepositional", "dative")
    meanwhile = _acting(desk, frames, other, (predicate.verb.infinitive,))
    place = NOTHING if meanwhile.object else _place(desk, other)
    german = join(", während", other.german("nom"), place[0], meanwhile.german_last(other.plural))
    return german, join("while", other.english(), meanwhile.english_progressive(other.plural), place[1])


def _because(desk: Desk, construction: tuple[str, ...], subject: Phrase, predicate: Predicate) -> Text:
    """`, weil sie müde ist`, `because she is tired`: a state, a liking, or the weather."""
    if "front_time" not in construction and desk.dice.chance(0.25):
        german, english = desk.dice.pick(parse_pairs(tables.WEATHER))
        return f", weil {german}", f"because {english}"
    pronoun = "sie" if subject.plural else {"m": "er", "f": "sie", "n": "es"}[subject.noun.gender]
    if desk.dice.chance(0.5):
        german, english = desk.dice.pick(parse_pairs(tables.STATES))
        is_, be = ("sind", "are") if subject.plural else ("ist", "is")
        return f", weil {pronoun} {german} {is_}", f"because {subject.pronoun()} {be} {english}"
    kind = desk.dice.pick(("food", "animal") if subject.noun.who == "person" else ("food", "toy"))
    liked = _phrase(desk, desk.dice.pick(desk.words.nouns[kind]), True, (BARE,))
    like = Predicate(desk.words.like, liked.german("acc"), liked.english())
    german, english = like.german_last(subject.plural), like.english_present(subject.plural)
    return f", weil {pronoun} {german}", f"because {subject.pronoun()} {english}"


def _and(desk: Desk, construction: tuple[str, ...], subject: Phrase, predicate: Predicate) -> Text:
    """`und hebt einen Ball auf`, `and picks up a ball`; after a progressive, `and picking up a ball`."""
    second = _acting(desk, OBJECT_FRAMES, subject, (predicate.verb.infinitive,))
    finite, closing = second.german_second(subject.plural)
    german = join("und", finite, second.manner[0], second.german, closing)
    if "right_now" in construction:
        return german, join("and", second.manner[1], second.verb.english_ing(), second.english)
    return german, f"and {second.english_present(subject.plural)}"


def _purpose(desk: Desk, construction: tuple[str, ...], subject: Phrase, predicate: Predicate) -> Text:
    """`, um einen Ball aufzuheben`, `to pick up a ball`."""
    purpose = _acting(desk, OBJECT_FRAMES, subject)
    return join(", um", purpose.german, purpose.verb.to_infinitive()), f"to {purpose.verb.english} {purpose.english}"


ENDING_WRITERS: dict[str, Callable[[Desk, tuple[str, ...], Phrase, Predicate], Text]] = {
    "while": _while,
    "while_separable": _while,
    "because": _because,
    "and": _and,
    "purpose": _purpose,
}
