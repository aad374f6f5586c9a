"""Cleaning and splitting of the user's text: what each rule leaves out, what is held out, and what is written."""

import gzip
import importlib.util
import re
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from transformer_cli import prepare
from transformer_cli.adapters.corpora import corpora
from transformer_cli.adapters.corpora.cleaning import SeenHashes, sentence_hash
from transformer_cli.adapters.corpora.corpora import LEFT_OUT_FILE, held_out_shares, open_corpus, read_captions
from transformer_cli.adapters.corpora.held_out import assign_splits, first_linked
from transformer_cli.config.schema import Config, DataConfig, HeldOutConfig, Rule
from transformer_cli.data.corpus import read_pairs
from transformer_cli.errors import DataError

GOOD = read_captions(3_000)["train"]
JAPANESE = "雪舟は15世紀後半の室町時代に活躍した水墨画家・禅僧で、画聖とも称えられる。"
PLANTED = {
    "empty": [("Ein Hund.", " "), ("", "A dog.")],
    "encoding": [("wei\ufffde Hunde", "white dogs"), ("weiße Hunde", "wh\ufffdte dogs")],
    "copies": [("Ein Hund im Park.", "ein Hund im Park. "), ("Bonn", "Bonn")],
    "markup": [
        *(("<b>Hund</b>", "dog"), ("Hund &foo;", "dog"), ("<b>1</b>", "<b>2</b>")),
        *(("Ein Hund.", "12.5 %"), ("a [[b]]", "c"), ("1", "1 a")),
    ],
    "length": [("Ein Hund.", "A dog runs over the meadow. " * 4), (f"Ein Hund {'und noch einer ' * 9}", "dogs")],
    "duplicates": [(f" {source}", target.replace(" ", "  ")) for source, target in GOOD[:5]],
    "held_out": [
        ("EIN MANN WARTET 1 STUNDE", "A man has been waiting."),
        ("Ein Mann wartet, 7 Stunde!", "He waits."),
        ("Er wartet.", "a man  WAITS"),
    ],
    "language": [(target, target + " Again.") for _, target in GOOD[5:25]]
    + [(source, JAPANESE) for source, _ in GOOD[30:40]],
}
VALID = [("Ein Mann wartet 3 Stunde.", "A man waits.")]


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., DataConfig]:
    """config(pairs, valid=pairs, **settings): a config of TSV files with these pairs."""

    def of_pairs(pairs: list[tuple[str, str]], valid: list[tuple[str, str]] | None = VALID, **more: Any) -> DataConfig:
        files = {"train": tmp_path / "train.tsv", **({"valid": tmp_path / "valid.tsv"} if valid else {})}
        for path, text in zip(files.values(), (pairs, valid or []), strict=False):
            path.write_text("".join(f"{source}\t{target}\n" for source, target in text), encoding="utf-8")
        return DataConfig.model_validate({"corpus": "files", "files": files, **more})

    return of_pairs


def clean_and_split(data: DataConfig, folder: Path | None) -> dict[str, Any]:
    return asdict(corpora.clean_and_split(open_corpus(data), folder))


def dirty() -> list[tuple[str, str]]:
    """Good pairs, with all planted pairs among them."""
    pairs = list(GOOD)
    for number, pair in enumerate(pair for planted in PLANTED.values() for pair in planted):
        pairs.insert(500 + 41 * number, pair)
    return pairs


def test_clean_each_rule_leaves_out_exactly_its_planted_pairs(
    config: Callable[..., DataConfig], tmp_path: Path
) -> None:
    facts = clean_and_split(config(dirty(), clean=get_args(Rule)), tmp_path)
    assert facts["left_out"] == {rule: len(planted) for rule, planted in PLANTED.items()}
    assert facts["splits"] == {"train": len(GOOD), "valid": 1}
    assert facts["read"] == len(dirty())
    assert list(read_pairs(tmp_path, "train")) == GOOD
    place = dirty().index(PLANTED["markup"][0]) + 1
    assert facts["examples"]["markup"][0] == [f"{tmp_path}/train.tsv: line {place}", "<b>Hund</b>", "dog"]
    with gzip.open(tmp_path / LEFT_OUT_FILE, "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    assert {rule: [(row[3], row[4]) for row in rows if row[0] == rule] for rule in PLANTED} == PLANTED
    assert ["markup", f"{tmp_path}/train.tsv", f"line {place}", "<b>Hund</b>", "dog"] in rows


@pytest.mark.parametrize("rule", ["encoding", "copies", "markup", "length", "duplicates", "held_out", "language"])
def test_clean_rule_that_is_off_leaves_nothing_out(config: Callable[..., DataConfig], rule: str) -> None:
    others = [each for each in get_args(Rule) if each not in (rule, "language")]  # this rule is slow to start
    facts = clean_and_split(config([*GOOD[:100], *PLANTED[rule]], clean=others), None)
    assert rule not in facts["left_out"]
    assert facts["splits"]["train"] >= 100 + len(PLANTED[rule]) / 2  # another rule may leave out some of them


def test_clean_long_pair_is_left_out_of_train_refused_in_valid(config: Callable[..., DataConfig]) -> None:
    long = ("a " * 2_001, "b")
    assert clean_and_split(config([*GOOD[:3], long]), None)["left_out"]["too long"] == 1
    with pytest.raises(DataError, match=r"valid\.tsv: line 1 has more than 4,000 characters"):
        clean_and_split(config(GOOD[:3], valid=[long]), None)


def test_clean_shared_markup_stays_and_entities_are_decoded(config: Callable[..., DataConfig], tmp_path: Path) -> None:
    pairs = [
        ("<b>Ja</b>", "<b>OK</b>"),
        ("„{{name}}“ löschen?", "Delete “{{name}}”?"),
        ("Was ist&#10;ein&amp;apos;s?", "Cats &amp; dogs"),
        ("&lt;i&gt;Hund&lt;/i&gt;", "<i>dog</i>"),
        ("Klick <a href='x'>hier</a><br/>", "Click <a href='x'>here</a><br/>"),
    ]
    facts = clean_and_split(config(pairs, clean=["markup"]), tmp_path)
    assert (facts["left_out"], facts["entities_decoded"]) == ({}, 2)
    decoded = [("Was ist ein's?", "Cats & dogs"), ("<i>Hund</i>", "<i>dog</i>")]
    assert list(read_pairs(tmp_path, "train")) == [*pairs[:2], *decoded, pairs[4]]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "mac_roman"])
def test_clean_wrong_encodings_are_mended_and_counted(
    encoding: str, config: Callable[..., DataConfig], tmp_path: Path
) -> None:
    good = [("zwölf Männer", "twelve men"), ("“Quoted”, naïve", "à la carte, “ça va”"), ("¿Qué? 5 €", "What? €5")]
    misread = [(one.encode().decode(encoding), other.encode().decode(encoding)) for one, other in good[::2]]
    facts = clean_and_split(config([good[1], *misread], clean=["encoding"]), tmp_path)
    assert (facts["left_out"], facts["encoding_mended"]) == ({}, 2)
    assert list(read_pairs(tmp_path, "train")) == [good[1], good[0], good[2]]


def test_clean_without_py3langid_logs_it_and_skips_the_rule(
    config: Callable[..., DataConfig], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = config([*GOOD[:50], *PLANTED["language"]], clean=["language"])
    with_rule = open_corpus(data).rules
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    caplog.set_level("INFO")
    assert clean_and_split(data, None)["left_out"] == {}
    message = caplog.messages[0]
    assert message.startswith("languages are not checked without py3langid; install it")
    assert open_corpus(data).rules != with_rule  # so this is another dataset


def test_clean_language_unknown_to_py3langid_is_not_checked(
    config: Callable[..., DataConfig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    facts = clean_and_split(config(PLANTED["language"], source="xx", clean=["language"]), None)
    assert facts["left_out"]["language"] == 10  # those with Japanese on the English side
    assert caplog.messages[:1] == ["text in xx is not checked for its language: py3langid does not know it"]


def test_clean_language_warns_of_text_whose_sides_are_swapped(
    config: Callable[..., DataConfig], caplog: pytest.LogCaptureFixture
) -> None:
    swapped = [(target, source) for source, target in GOOD[50:100]]
    facts = clean_and_split(config([*GOOD[:50], *swapped], clean=["language"]), None)
    assert facts["swapped"] == facts["left_out"]["language"] > 40
    (message,) = caplog.messages
    assert re.match(r"(?:4\d|50) % of the pairs are left out because their sides are swapped \(such as", message)
    caplog.clear()
    clean_and_split(config([*GOOD[:50], *swapped[:5]], clean=["language"]), None)
    assert caplog.messages == []


def test_clean_nothing_left_raises_with_the_reasons(config: Callable[..., DataConfig]) -> None:
    said = r"^data\.files\.train: no sentence pairs left \(left out: copies 2, such as '.+'\); check the sides"
    with pytest.raises(DataError, match=said):
        clean_and_split(config(PLANTED["copies"], clean=["copies"]), None)
    with pytest.raises(DataError, match=r"valid: 1e-06 of 3 pairs: no sentence pairs left; give more text that"):
        clean_and_split(config(GOOD[:3], valid=None, held_out={"valid": 1e-6}), None)
    one = next(pair for pair in GOOD if sentence_hash(pair[0], "de") < 0.4 * 2**64)
    data = config([one], valid=None, held_out={"valid": 0.4})
    with pytest.raises(DataError, match=r"^data\.files\.train: no sentence pairs left; give more text that"):
        clean_and_split(data, None)


def test_clean_and_split_logs_the_first_pair_of_each_file(
    config: Callable[..., DataConfig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clean_and_split(config([*PLANTED["copies"], *GOOD[:3]], clean=["copies"]), None)
    (message,) = caplog.messages
    assert message.partition(": line ")[2].startswith(f"3: {GOOD[0][0][:40]}")


def test_held_out_sentences_stay_when_text_grows(config: Callable[..., DataConfig], tmp_path: Path) -> None:
    shares = {"valid": 0.05, "test": 0.02}
    splits = {}
    for n_pairs in (1_000, 3_000):
        upper = [(source.upper().replace(" ", "  "), target) for source, target in GOOD[:n_pairs]]
        facts = clean_and_split(config([*GOOD[:n_pairs], *upper], valid=None, held_out=shares), tmp_path)
        splits[n_pairs] = {split: [source for source, _ in read_pairs(tmp_path, split)] for split in facts["splits"]}
        prints = [{sentence_hash(source, "de") for source in found} for found in splits[n_pairs].values()]
        assert sum(map(len, prints)) == len(set.union(*prints)) == n_pairs
        assert [round(len(each) / n_pairs, 2) for each in prints[1:]] == pytest.approx(list(shares.values()), abs=0.02)
    for split in ("valid", "test"):
        assert set(splits[1_000][split]) < set(splits[3_000][split])


def test_held_out_targets_and_sources_are_not_in_train(config: Callable[..., DataConfig], tmp_path: Path) -> None:
    versions = [(f"{source} {word}", target) for word in ("Eins.", "Oder so.", "Ja!") for source, target in GOOD[:300]]
    others = [(source, f"{target} Version {word}") for word in "ab" for source, target in GOOD[300:600]]
    headings = [(f"Thema {word}", "Subject") for word in "ABCDEFGHIJKLMNOPQRSTU"]  # 21 pairs
    pairs = [*versions, *others, *headings]
    data = config(pairs, valid=None, held_out={"valid": 0.1, "test": 0.1})
    facts = clean_and_split(data, tmp_path)
    assert facts == clean_and_split(data, None)
    assert 0 < facts["kept_together"] < 400
    found = {split: list(read_pairs(tmp_path, split)) for split in facts["splits"]}
    assert {split: len(each) for split, each in found.items()} == facts["splits"]
    assert sorted(chain(*found.values())) == sorted(pairs)
    for side in (0, 1):
        texts = [{pair[side] for pair in each} for each in found.values()]
        assert sum(map(len, texts)) == len(set.union(*texts))
        assert all(len(each) > 50 for each in texts)
    assert set(headings) < set(found["train"])


def test_tagged_directions_are_cleaned_and_held_out_as_one(config: Callable[..., DataConfig], tmp_path: Path) -> None:
    """The pair "<2de> A dog", "Ein Hund" stays with "<2en> Ein Hund", "A dog", and is in the right languages."""
    pairs = [each for s, t in GOOD[:500] for each in ((f"<2en> {s}", t), (f">>deu<< {t}", s))]
    data = config(pairs, valid=None, held_out={"valid": 0.1}, clean=["language"])
    facts = clean_and_split(data, tmp_path)
    assert facts["left_out"].get("language", 0) < 20
    assert facts["splits"]["valid"] > 60
    pairs_of = (read_pairs(tmp_path, split) for split in ("train", "valid"))
    texts = [{side for source, target in found for side in (source.split(maxsplit=1)[1], target)} for found in pairs_of]
    assert texts[0].isdisjoint(texts[1])


def test_assign_splits_larger_share_adds_to_the_smaller_one(config: Callable[..., DataConfig]) -> None:
    sources, targets = np.random.default_rng(0).integers(0, 2**64, (2, 3_000), np.uint64)
    few, many = (assign_splits(sources, targets, config([], held_out={"test": share}))[0] for share in (0.01, 0.05))
    assert 0 < (few == 2).sum() < (many == 2).sum()
    assert (many[few == 2] == 2).all()


@pytest.mark.parametrize("values", [2, 30, 60, 1_000])
def test_first_linked_agrees_with_graph_walk(values: int) -> None:
    sources, targets = np.random.default_rng(0).integers(0, values, (2, 60), np.uint64)
    for first, found in enumerate(first_linked(sources, targets)):
        linked, size = {first}, 0
        while len(linked) > size:
            size, sides = len(linked), [{side[pair] for pair in linked} for side in (sources, targets)]
            linked = {pair for pair in range(60) if sources[pair] in sides[0] or targets[pair] in sides[1]}
        assert found == min(linked)
    assert first_linked(np.array([1, 2, 3, 3]), np.array([7, 8, 9, 7])).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("n_pairs", "valid", "test"),
    [(2, 0.4, 0.0), (30, 0.17, 0.0), (3_000, 0.02, 0.02), (200_000, 0.005, 0.005), (30_000_000, 3.3e-5, 3.3e-5)],
)
def test_held_out_shares_by_number_of_pairs(n_pairs: int, valid: float, test: float) -> None:
    data = DataConfig.model_validate({"corpus": "files", "files": {"train": "x"}, "held_out": {"valid": 0.1}})
    shares = held_out_shares(n_pairs, data)
    assert (shares.valid, shares.test) == (valid, test)
    own = data.model_copy(update={"files": {"valid": Path("x"), "test": Path("x")}})
    initial = HeldOutConfig(valid=0.01, test=0.39)  # those of a run, whose held-out pairs may be in the text again
    tuned = held_out_shares(n_pairs, data, initial)
    assert tuned == HeldOutConfig(valid=max(0.01, valid, min(0.1, float(f"{100 / n_pairs:.2g}"))), test=0.39)
    assert held_out_shares(n_pairs, own, initial) == HeldOutConfig()


def test_prepare_subwords_counts_each_left_out_pair_once(config: Callable[..., DataConfig], tmp_path: Path) -> None:
    settings = {"tokens": "subwords", "subwords": {"vocab_size": 330}, "skip_empty": True}
    data = config([*GOOD[:200], (" ", "gone")], valid=[*VALID, ("gone", "")], **settings)
    manifest = prepare(Config(data=data), data_dir=tmp_path / "data").manifest
    assert manifest["cleaning"]["left_out"]["empty"] == 2
    assert manifest["splits"]["train"]["sentences"] == 200


@pytest.mark.parametrize(
    ("one", "other"),
    [("Seite 12.", "seite 7"), ("Cafe\u0301", "CAFÉ!"), ("Straße", "STRASSE"), ("ein Hund", "ein\u00adHund")],
)
def test_sentence_hash_near_copies_share_it(one: str, other: str) -> None:
    assert sentence_hash(one, "de") == sentence_hash(other, "de")
    assert sentence_hash(one, "de") != sentence_hash(f"{one} nicht", "de")


def test_seen_hashes_agrees_with_a_set() -> None:
    chance = np.random.default_rng(0)
    seen, known = SeenHashes(), set[int]()
    for _ in range(200):
        numbers = chance.integers(0, 60_000, chance.integers(1, 900)).astype(np.uint64)
        expected = []
        for number in numbers.tolist():
            expected.append(number not in known)
            known.add(number)
        assert seen.add(numbers).tolist() == expected
