"""The grammar behind the embedded corpus."""

import bz2
import itertools
import re

import pytest
import sacrebleu

import captions
from captions import Caption
from captions.words import dictionary
from transformer_cli.data.corpora import CAPTIONS


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
