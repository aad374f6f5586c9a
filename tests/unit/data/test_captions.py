"""The grammar behind the embedded corpus."""

import bz2
import itertools
import re

import pytest
import sacrebleu

import captions
from captions import Caption
from captions.clauses import Dice, write_caption
from captions.phrases import BARE, THE, A, Article, Phrase
from captions.words import Verb, dictionary, read_lexicon
from transformer_cli.data.corpora import CAPTIONS

LEXICON = read_lexicon()
NOUNS = {noun.german: noun for noun in itertools.chain(*LEXICON.nouns.values())}
ADJECTIVES = {adjective.base: adjective for adjective in itertools.chain(*LEXICON.adjectives.values())}
VERBS = {
    verb.infinitive: verb
    for verb in (*itertools.chain(*LEXICON.verbs.values()), *(verb for verb, _ in LEXICON.paths), *LEXICON.giving)
}
TWO = Article("strong", "zwei", "two")
MANY = Article("strong", "viele", "many")
HIS = Article("mixed", "sein", "his")


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Caption]]:
    return captions.write_captions(12_000, seed=0)  # the config's defaults


def everything(splits: dict[str, list[Caption]]) -> list[Caption]:
    return list(itertools.chain(*splits.values()))


def tokens(sentence: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", sentence)


def test_no_sentence_occurs_twice_in_either_language(splits: dict[str, list[Caption]]) -> None:
    for side in ("german", "english"):
        sentences = [getattr(caption, side) for caption in everything(splits)]
        assert len(set(sentences)) == len(sentences)


def test_what_comes_with_the_package_is_what_the_grammar_writes() -> None:
    assert bz2.decompress(CAPTIONS.read_bytes()) == bz2.decompress(captions.as_data())  # whatever the hash order


def test_constructions_of_test_are_new_but_their_parts_are_not(splits: dict[str, list[Caption]]) -> None:
    made_of = {split: {caption.construction for caption in part} for split, part in splits.items()}
    assert not made_of["test"] & (made_of["train"] | made_of["valid"])
    assert made_of["test"] == set(captions.unseen_constructions())
    assert made_of["train"] | made_of["valid"] <= set(captions.seen_constructions())
    assert set(itertools.chain(*made_of["test"])) <= set(itertools.chain(*made_of["train"]))
    assert {len(construction) for construction in made_of["train"]} == {1, 2, 3}


def test_test_asks_for_no_longer_sentences_than_train(splits: dict[str, list[Caption]]) -> None:
    for side in ("german", "english"):
        lengths = {split: [len(tokens(getattr(caption, side))) for caption in part] for split, part in splits.items()}
        assert max(lengths["test"]) <= max(lengths["train"]) <= captions.MAX_TOKENS
        assert sum(6 <= length <= 22 for length in lengths["train"]) > 0.98 * len(lengths["train"])


def test_both_languages_have_a_vocabulary_worth_learning(splits: dict[str, list[Caption]]) -> None:
    for side in ("german", "english"):
        words = {
            split: {word.lower() for caption in part for word in tokens(getattr(caption, side))}
            for split, part in splits.items()
        }
        assert len(words["train"]) >= 300
        assert words["test"] <= words["train"]


def test_every_sentence_is_well_formed_text(splits: dict[str, list[Caption]]) -> None:
    for caption in everything(splits):
        for sentence in (caption.german, caption.english):
            assert re.fullmatch(r"[A-ZÄÖÜ]\w*(,? \w+)+\.", sentence), sentence
        assert not re.search(r"[^,] (während|weil)\b", caption.german), caption
        assert not re.search(r"\ba [aeio]|\ban [^aeiou]", caption.english, re.IGNORECASE), caption
        assert not re.search(r"\b(the|a|an|zwei|two) (the|a|an|zwei|two)\b", caption.english), caption


@pytest.mark.parametrize(
    ("noun", "adjective", "article", "case", "german", "english"),
    [
        ("Ball", "rot", A, "nom", "ein roter Ball", "a red ball"),
        ("Ball", "rot", A, "acc", "einen roten Ball", "a red ball"),
        ("Ball", "rot", A, "dat", "einem roten Ball", "a red ball"),
        ("Ball", "orangefarben", THE, "nom", "der orangefarbene Ball", "the orange ball"),
        ("Ball", "orangefarben", A, "nom", "ein orangefarbener Ball", "an orange ball"),
        ("Uniform", None, A, "acc", "eine Uniform", "a uniform"),
        ("Uniform", "alt", A, "dat", "einer alten Uniform", "an old uniform"),
        ("Kind", "müde", A, "nom", "ein müdes Kind", "a tired child"),
        ("Kind", "müde", THE, "acc", "das müde Kind", "the tired child"),
        ("Tunnel", "dunkel", THE, "dat", "dem dunklen Tunnel", "the dark tunnel"),
        ("Flugzeug", "teuer", A, "acc", "ein teures Flugzeug", "an expensive airplane"),
        ("Junge", "klein", THE, "nom", "der kleine Junge", "the small boy"),
        ("Junge", "klein", THE, "acc", "den kleinen Jungen", "the small boy"),
        ("Elefant", "grau", A, "dat", "einem grauen Elefanten", "a gray elephant"),
        ("Frau", "jung", THE, "dat", "der jungen Frau", "the young woman"),
        ("Hut", "rot", HIS, "acc", "seinen roten Hut", "his red hat"),
        ("Jacke", "blau", HIS, "dat", "seiner blauen Jacke", "his blue jacket"),
    ],
)
def test_noun_phrases_agree_in_the_singular(
    noun: str, adjective: str | None, article: Article, case: str, german: str, english: str
) -> None:
    phrase = Phrase(NOUNS[noun], False, article, ADJECTIVES[adjective] if adjective else None)
    assert (phrase.german(case), phrase.english()) == (german, english)


@pytest.mark.parametrize(
    ("noun", "adjective", "article", "case", "german", "english"),
    [
        ("Hund", "klein", THE, "nom", "die kleinen Hunde", "the small dogs"),
        ("Hund", "klein", BARE, "acc", "kleine Hunde", "small dogs"),
        ("Hund", "klein", TWO, "dat", "zwei kleinen Hunden", "two small dogs"),
        ("Hund", "klein", MANY, "nom", "viele kleine Hunde", "many small dogs"),
        ("Hund", "klein", MANY, "dat", "vielen kleinen Hunden", "many small dogs"),
        ("Auto", "neu", THE, "dat", "den neuen Autos", "the new cars"),
        ("Frau", None, THE, "dat", "den Frauen", "the women"),
        ("Mädchen", "mutig", BARE, "dat", "mutigen Mädchen", "brave girls"),
        ("Maus", "grau", BARE, "nom", "graue Mäuse", "gray mice"),
        ("Lehrerin", None, BARE, "dat", "Lehrerinnen", "teachers"),
        ("Buch", "alt", HIS, "dat", "seinen alten Büchern", "his old books"),
    ],
)
def test_noun_phrases_agree_in_the_plural(
    noun: str, adjective: str | None, article: Article, case: str, german: str, english: str
) -> None:
    phrase = Phrase(NOUNS[noun], True, article, ADJECTIVES[adjective] if adjective else None)
    assert (phrase.german(case), phrase.english()) == (german, english)


@pytest.mark.parametrize(
    ("preposition", "case", "noun", "article", "german"),
    [
        ("an", "dat", "Strand", THE, "am Strand"),
        ("an", "dat", "Strand", A, "an einem Strand"),
        ("in", "dat", "Park", THE, "im Park"),
        ("in", "acc", "Haus", THE, "ins Haus"),
        ("in", "acc", "Wald", THE, "in den Wald"),
        ("zu", "dat", "Brücke", THE, "zur Brücke"),
        ("zu", "dat", "See", THE, "zum See"),
        ("von", "dat", "Wiese", THE, "von der Wiese"),
        ("von", "dat", "Haus", THE, "vom Haus"),
        ("mit", "dat", "Ball", THE, "mit dem Ball"),
    ],
)
def test_prepositions_govern_cases_and_contract(
    preposition: str, case: str, noun: str, article: Article, german: str
) -> None:
    assert Phrase(NOUNS[noun], False, article).german_after(preposition, case) == german


def test_relative_pronouns_show_gender_number_and_case() -> None:
    man, woman, child = (Phrase(NOUNS[noun], False, THE) for noun in ("Mann", "Frau", "Kind"))
    assert [man.relative_pronoun(case) for case in ("nom", "acc", "dat")] == ["der", "den", "dem"]
    assert [woman.relative_pronoun(case) for case in ("nom", "acc", "dat")] == ["die", "die", "der"]
    assert [child.relative_pronoun(case) for case in ("nom", "acc", "dat")] == ["das", "das", "dem"]
    children = Phrase(NOUNS["Kind"], True, THE)
    assert [children.relative_pronoun(case) for case in ("nom", "acc", "dat")] == ["die", "die", "denen"]


@pytest.mark.parametrize(
    ("infinitive", "third", "to_infinitive", "english", "english_third", "english_ing"),
    [
        ("aufheben", "hebt", "aufzuheben", "pick up", "picks up", "picking up"),
        ("anziehen", "zieht", "anzuziehen", "put on", "puts on", "putting on"),
        ("aufsetzen", "setzt", "aufzusetzen", "put on", "puts on", "putting on"),
        ("suchen", "sucht", "zu suchen", "look for", "looks for", "looking for"),
        ("laufen", "läuft", "zu laufen", "run", "runs", "running"),
        ("liegen", "liegt", "zu liegen", "lie", "lies", "lying"),
        ("waschen", "wäscht", "zu waschen", "wash", "washes", "washing"),
        ("wegtragen", "trägt", "wegzutragen", "carry away", "carries away", "carrying away"),
        ("lesen", "liest", "zu lesen", "read", "reads", "reading"),
        ("umarmen", "umarmt", "zu umarmen", "hug", "hugs", "hugging"),
        ("warten", "wartet", "zu warten", "wait for", "waits for", "waiting for"),
        ("spielen", "spielt", "zu spielen", "play with", "plays with", "playing with"),
        ("zeichnen", "zeichnet", "zu zeichnen", "draw", "draws", "drawing"),
        ("bewachen", "bewacht", "zu bewachen", "guard", "guards", "guarding"),
    ],
)
def test_verbs_conjugate(
    infinitive: str, third: str, to_infinitive: str, english: str, english_third: str, english_ing: str
) -> None:
    verb: Verb = VERBS[infinitive]
    assert (verb.german_finite(plural=False), verb.to_infinitive()) == (third, to_infinitive)
    assert (verb.english, verb.english_third(plural=False), verb.english_ing()) == (english, english_third, english_ing)


@pytest.mark.parametrize(
    ("seed", "construction", "german", "english"),
    [
        (2, "object", "Die schmutzige Katze jagt ein junges Schwein.", "The dirty cat chases a young pig."),
        (2, "action front_place", "Auf der Wiese spielt die schmutzige Katze.", "In the meadow, the dirty cat plays."),
        (
            3,
            "dative front_time",
            "Im Herbst folgt der Fotograf einer schlanken Sportlerin.",
            "In autumn, the photographer follows a slim athlete.",
        ),
        (
            1,
            "separable right_now",
            "Ein müder Künstler hebt gerade vier Bücher auf.",
            "A tired artist is picking up four books.",
        ),
        (
            2,
            "prepositional relative_subject",
            "Die schmutzige Katze, die mit einem schwarzen Fohlen spielt, wartet auf einen Clown.",
            "The dirty cat that is playing with a black foal waits for a clown.",
        ),
        (
            1,
            "separable relative_object",
            "Ein müder Künstler hebt drei Bücher auf, die ein mutiger Mann vorliest.",
            "A tired artist picks up three books that a brave man is reading out.",
        ),
        (
            2,
            "action while",
            "Die schmutzige Katze spielt neben einer Statue, während der Fotograf einer jungen Tänzerin gratuliert.",
            "The dirty cat plays next to a statue while the photographer is congratulating a young dancer.",
        ),
        (
            2,
            "object while_separable",
            "Die schmutzige Katze jagt ein Schwein, während ein Fohlen seinen schwarzen Ball wegträgt.",
            "The dirty cat chases a pig while a foal is carrying away its black ball.",
        ),
        (
            3,
            "giving because",
            "Fünf neugierige Großmütter verkaufen einer Sportlerin ihren grünen Ball, weil sie Katzen mögen.",
            "Five curious grandmothers sell their green ball to an athlete because they like cats.",
        ),
        (
            3,
            "motion and",
            "Der Fotograf klettert über einen riesigen Baumstamm und setzt seinen bunten Helm ab.",
            "The photographer climbs over a huge log and takes off his colorful helmet.",
        ),
        (
            1,
            "from_to purpose",
            "Ein müder Künstler geht aus einem einsamen Park in ein Haus, um ein Buch aufzuheben.",
            "A tired artist walks out of a lonely park into a house to pick up a book.",
        ),
        (
            3,
            "modal",
            "Fünf neugierige Großmütter müssen ihre grünen Westen waschen.",
            "Five curious grandmothers have to wash their green vests.",
        ),
        (
            2,
            "dative relative_object",
            "Die schmutzige Katze folgt einem Clown, dem mehrere mutige Lehrerinnen zuhören.",
            "The dirty cat follows a clown whom several brave teachers are listening to.",
        ),
    ],
)
def test_captions_read_by_a_speaker_of_both_languages(seed: int, construction: str, german: str, english: str) -> None:
    caption = write_caption(Dice(seed), LEXICON, tuple(construction.split()))
    assert (caption.german, caption.english) == (german, english)


def test_word_by_word_is_a_fair_dictionary(splits: dict[str, list[Caption]]) -> None:
    simple = "Ein kleiner Hund springt über die rote Mauer."
    assert captions.word_by_word(simple, source="de") == "A small dog jumps over the red wall."
    assert captions.word_by_word("The boy wants a ball, today.", source="en") == "Der Junge will ein Ball, heute."
    assert captions.word_by_word("Qwertz.", source="de") == "Qwertz."
    for source, side in (("de", "german"), ("en", "english")):
        entries = dictionary(source)
        words = set(itertools.chain(*(tokens(getattr(caption, side)) for caption in everything(splits)))) - {",", "."}
        assert {word for word in words if word not in entries and word.lower() not in entries} == set()


@pytest.mark.parametrize("source", ["de", "en"])
def test_a_dictionary_alone_scores_below_25_bleu(splits: dict[str, list[Caption]], source: str) -> None:
    pairs = [(c.german, c.english) if source == "de" else (c.english, c.german) for c in splits["test"]]
    guesses = [captions.word_by_word(sentence, source=source) for sentence, _ in pairs]
    score = sacrebleu.corpus_bleu(guesses, [[reference for _, reference in pairs]], lowercase=True).score
    assert 2 < score < 25
