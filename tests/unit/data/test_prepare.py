"""From text to a dataset: what stands in the files, when they are made, and when not."""

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aligned import AlignedFiles
from outcomes import power_cut
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data import dataset as dataset_module
from transformer_cli.data import encoding
from transformer_cli.data import make_dataset as module
from transformer_cli.data.corpus import read_pairs
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.make_dataset import PreparedDataset, make_dataset
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.runs.run import Run
from transformer_cli.text.lengths import LengthBounds
from transformer_cli.text.vocabulary import SPECIALS

# fmt: off
TEXT = {
    "train": (["Ein Hund.", "Ein Mann", "Zwei Hunde."], ["A dog.", "A man, a dog", "Two dogs."]),
    "valid": (["Ein Hund rennt."], ["A dog runs."]),  # "hund" would be frequent enough if validation counted
    "test": (["Mann"], ["  Man\ra\u2028dog\x85"]),
}
IDS = {  # source: . 4, ein 5; target: a 4, . 5, dog 6; all else is seen once
    "train": ([[5, 0, 4], [5, 0], [0, 0, 4]], [[4, 6, 5], [4, 0, 0, 4, 6], [0, 0, 5]]),
    "valid": ([[5, 0, 0, 4]], [[4, 6, 0, 5]]),
    "test": ([[0]], [[0, 4, 6]]),
}
# fmt: on
class Workshop:
    """Own files in a folder, and the datasets made from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        for split, sides in TEXT.items():
            self.write(split, *sides)

    def write(self, split: str, source: Sequence[str], target: Sequence[str]) -> None:
        for side, lines in (("source", source), ("target", target)):
            self.path(split, side).write_bytes("".join(f"{line}\n" for line in lines).encode())

    def path(self, split: str, side: str) -> Path:
        return self.folder / f"{split}.{side}"

    def config(self, **settings: Any) -> Config:
        files = {split: {side: self.path(split, side) for side in ("source", "target")} for split in TEXT}
        return Config(data=DataConfig.model_validate({"corpus": "files", "files": files, **settings}))

    def prepare(self, **settings: Any) -> PreparedDataset:
        config = self.config(**settings)
        return make_dataset(config, AlignedFiles(config.data), data_dir=self.data_dir)

    def datasets(self) -> list[str]:
        return sorted(path.name for path in self.data_dir.iterdir())


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def sentences(folder: Path) -> dict[str, tuple[list[list[int]], list[list[int]]]]:
    """The ids of all splits, read without `Dataset`."""
    found = {}
    for split in TEXT:
        sides = []
        for side in ("source", "target"):
            ids = np.load(folder / f"{split}.{side}.ids.npy")
            offsets = np.load(folder / f"{split}.{side}.offsets.npy")
            assert (ids.dtype, offsets.dtype) == (np.int32, np.int64)
            assert (offsets[0], offsets[-1]) == (0, len(ids))
            sides.append([ids[a:b].tolist() for a, b in pairwise(offsets)])
        found[split] = (sides[0], sides[1])
    return found


@pytest.mark.parametrize("block", [4, dataset_module.IDS_PER_BLOCK])
def test_prepare_ids_come_from_the_training_vocabulary(
    workshop: Workshop, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_module, "IDS_PER_BLOCK", block)
    prepared = workshop.prepare()
    dataset = Dataset.open(prepared.folder)
    assert prepared.created
    codecs = dataset.codecs
    assert codecs.source.tokens(range(len(codecs.source))) == [*SPECIALS, ".", "ein"]
    assert codecs.target.tokens(range(len(codecs.target))) == [*SPECIALS, "a", ".", "dog"]
    assert sentences(prepared.folder) == IDS


def test_prepare_manifest_counts_sentences_tokens_unknown_words(workshop: Workshop) -> None:
    prepared = workshop.prepare()
    manifest = prepared.manifest
    assert prepared.folder.name == f"files.de-en-{manifest['fingerprint']}"
    assert manifest["vocabulary"] == {"source": 6, "target": 7}
    assert list(manifest["splits"]) == ["train", "valid", "test"]
    assert manifest["splits"]["train"] == {
        "sentences": 3,
        "source": {"tokens": 8, "unknown_rate": 4 / 8, "longest": 3},
        "target": {"tokens": 11, "unknown_rate": 4 / 11, "longest": 5},
    }
    assert manifest["splits"]["test"]["source"] == {"tokens": 1, "unknown_rate": 1.0, "longest": 1}
    none = {"pairs": 0, "sources": 0, "references": 0}
    assert manifest["overlap"] == {"valid": none, "test": none}
    assert set(manifest["sources"]) == {f"{split}.{side}" for split in TEXT for side in ("source", "target")}


def test_run_keeps_the_lengths_of_each_target_language(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_LENGTHS", 2)
    source = ["<2en> Hunde", "Ein Hund.", "<2en> Mann", "Hunde", "<2fr> Hund"]
    workshop.write("train", source, ["dogs in parks", "dogs.", "men in parks", "dog", "chien"])
    dataset = Dataset.open(workshop.prepare().folder)
    run = Run.open(Run.create(workshop.folder / "run", workshop.config(), dataset).folder)
    english = LengthBounds.fit([(5, 13), (4, 12)])
    assert run.metadata.lengths == {"<2en>": english, "": LengthBounds.fit([(9, 5), (5, 3)])}


def test_prepare_manifest_counts_detokenized_lines(workshop: Workshop) -> None:
    workshop.write("valid", ["Hund"] * 4, ["A  dog.", "A dog .", "A DOG\u2028dog", "A do\u0301g."])
    assert workshop.prepare().manifest["detokenizer"] == {"valid_restored": 2 / 4}  # the last one is not NFC


def test_prepare_pinned_fingerprint_of_other_text_is_refused(workshop: Workshop) -> None:
    fingerprint = workshop.prepare().manifest["fingerprint"]
    assert not workshop.prepare(fingerprint=fingerprint).created
    workshop.write("test", ["Zwei Hunde."], ["Two dogs."])
    said = rf"^data.fingerprint: {fingerprint} names another dataset: this text, .*, has [0-9a-f]{{8}};"
    with pytest.raises(DataError, match=said):
        workshop.prepare(fingerprint=fingerprint)
    assert len(workshop.datasets()) == 1


def test_make_dataset_uses_a_read_only_one(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    made = workshop.prepare()

    def refuse(path: Path) -> None:
        raise PermissionError(path)

    monkeypatch.setattr("os.utime", refuse)
    assert workshop.prepare() == PreparedDataset(made.folder, made.manifest, created=False)


def test_prepare_keeps_text_verbatim(workshop: Workshop) -> None:
    dataset = Dataset.open(workshop.prepare().folder)
    kept = {split: (dataset.text(split, "source"), dataset.text(split, "target")) for split in TEXT}
    assert kept == TEXT


def test_prepare_joint_vocabulary_counts_both_sides(workshop: Workshop) -> None:
    workshop.write("train", ["a b b", "x"], ["a c", "y y"])
    prepared = workshop.prepare(joint_vocabulary=True)
    contents = {(prepared.folder / f"{side}.vocab.txt").read_text() for side in ("source", "target")}
    assert contents == {"".join(f"{token}\n" for token in (*SPECIALS, "a", "b", "y"))}
    assert sentences(prepared.folder)["train"] == ([[4, 5, 5], [0]], [[4, 0], [6, 6]])


def test_make_dataset_is_the_same_for_any_number_of_processes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PAIRS_PER_CHUNK", 9)
    monkeypatch.setattr(encoding, "MIN_PAIRS_FOR_WORKERS", 20)
    config = load_config(corpus / "tiny.yaml")
    made = {}
    for cores in (1, 2):
        monkeypatch.setattr(encoding, "available_cores", lambda cores=cores: cores)
        folder = make_dataset(config, AlignedFiles(config.data), data_dir=tmp_path / str(cores)).folder
        made[cores] = {path.relative_to(tmp_path / str(cores)): path.read_bytes() for path in folder.iterdir()}
    assert made[1] == made[2]


def test_prepare_vocabulary_without_words_warns(workshop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    workshop.prepare(min_freq=3)
    message = "the source vocabulary is empty: no word occurs 3 times; lower data.min_freq"
    assert caplog.record_tuples == [("transformer_cli.data.encoding", logging.WARNING, message)]


def test_prepare_max_words_limits_both_vocabularies(workshop: Workshop) -> None:
    unlimited, limited = workshop.prepare(min_freq=1), workshop.prepare(min_freq=1, max_words=2)
    assert limited.created
    assert "max_words" not in unlimited.manifest["settings"]
    assert limited.manifest["settings"]["max_words"] == 2
    assert limited.manifest["vocabulary"] == {"source": len(SPECIALS) + 2, "target": len(SPECIALS) + 2}


@pytest.mark.parametrize(("joint", "named"), [(False, ["source", "target"]), (True, ["joint"])])
def test_prepare_huge_vocabulary_warns(
    workshop: Workshop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, joint: bool, named: list[str]
) -> None:
    monkeypatch.setattr(encoding, "LARGE_VOCABULARY", 3)
    workshop.prepare(min_freq=1, joint_vocabulary=joint)
    said = [message for message in caplog.messages if "data.tokens: subwords" in message]
    assert [message.split()[1] for message in said] == named
    caplog.clear()
    workshop.prepare(min_freq=1, joint_vocabulary=joint, max_words=3)
    assert caplog.messages == []


def test_prepare_warns_of_overlap_at_every_call(workshop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    workshop.write("test", ["Mann", "Ein Hund."], ["man", "A dog."])
    message = (
        "also in the training text: test 1 of 2 pairs (1 source, 1 reference); a model may know them by heart, so "
        "their scores say little about new text; take them out of the training text, and prepare again"
    )
    for created in (True, False):
        assert workshop.prepare().created is created
        assert caplog.record_tuples == [("transformer_cli.data.make_dataset", logging.WARNING, message)]
        caplog.clear()


@pytest.mark.parametrize("settings", [{"lowercase": False}, {"min_freq": 1}, {"skip_empty": True}], ids=str)
def test_make_dataset_with_another_setting_makes_another(workshop: Workshop, settings: dict[str, Any]) -> None:
    first, second = workshop.prepare(), workshop.prepare(**settings)
    assert second.created
    assert workshop.datasets() == sorted([first.folder.name, second.folder.name])
    assert first.manifest["fingerprint"] != second.manifest["fingerprint"]


def test_make_dataset_ignores_unrelated_settings(workshop: Workshop) -> None:
    workshop.prepare()
    assert not workshop.prepare(captions={"sentences": 500}).created


@pytest.mark.parametrize(("split", "side"), [("train", "source"), ("test", "target")])
def test_make_dataset_of_other_text_makes_another(workshop: Workshop, split: str, side: str) -> None:
    first = workshop.prepare()
    path = workshop.path(split, side)
    path.write_bytes(path.read_bytes().replace(b"an", b"on"))
    second = workshop.prepare()
    assert second.created
    assert workshop.datasets() == sorted([first.folder.name, second.folder.name])


@pytest.mark.parametrize("file", ["source.vocab.txt", "manifest.json", "SHA256SUMS"])
def test_make_dataset_interrupted_leaves_no_folder(workshop: Workshop, file: str) -> None:
    with power_cut(workshop.data_dir, file):
        workshop.prepare()
    assert workshop.datasets() == []
    assert workshop.prepare().created


@pytest.mark.parametrize(
    ("settings", "source", "error"),
    [({}, "one\ntwo\n", DataError), ({}, b"\xff\n", DataError), ({"target": "qq"}, "one\n", ConfigError)],
)
def test_make_dataset_failed_leaves_no_folder(
    workshop: Workshop, settings: dict[str, Any], source: str | bytes, error: type[Exception]
) -> None:
    workshop.path("test", "source").write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(error):
        workshop.prepare(**settings)
    assert workshop.datasets() == []


def test_make_dataset_twice_at_once_keeps_the_first(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = encoding.encode_by_words

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "encode_by_words", encode)
        assert workshop.prepare().created
        return encode(*arguments)

    monkeypatch.setattr(module, "encode_by_words", overtaken)
    prepared = workshop.prepare()
    assert not prepared.created
    assert workshop.datasets() == [prepared.folder.name]


def test_prepare_folder_without_manifest_says_where_it_may_be(workshop: Workshop) -> None:
    folder = workshop.prepare().folder
    (folder / "manifest.json").unlink()
    remedy = "copy it from .*; if it is lost for good, delete the folder and run `tfm prepare` again"
    with pytest.raises(DataError, match=f"^{folder}: not a dataset: {folder}/manifest.json: missing; {remedy}$"):
        workshop.prepare()


def test_prepare_for_an_unknown_language_leaves_nothing(workshop: Workshop) -> None:
    with pytest.raises(ConfigError, match="to: fr: the model has only one target language"):
        workshop.prepare(to="fr")
    assert workshop.datasets() == []


def test_prepare_both_directions_adds_training_pairs_the_other_way_round(workshop: Workshop) -> None:
    pairs = [("<2en> Hunde", "dogs"), ("Ein Hund\u2028.", " A dog."), ("Zwei Männer", "Two men"), ("<2de> dog", "Hund")]
    workshop.write("train", *zip(*pairs, strict=True))
    subwords = {"tokens": "subwords", "subwords": {"vocab_size": 300}, "joint_vocabulary": True}
    prepared = workshop.prepare(**subwords, both_directions=True)
    swapped = [("<2de>  A dog.", "Ein Hund\u2028."), ("<2de> Two men", "Zwei Männer")]
    assert [*read_pairs(prepared.folder, "train")] == pairs + swapped
    assert [prepared.manifest["splits"][split]["sentences"] for split in TEXT] == [6, 1, 1]
    dataset = Dataset.open(prepared.folder)
    rows = [("train", row) for row in range(6)] + [("valid", 0)]
    firsts = [dataset.split(split).source[row][:1].tolist() for split, row in rows]
    english, german = (dataset.codecs.source.encode(token).ids[:1] for token in ("<2en>", "<2de>"))
    assert firsts == [english, english, english, german, german, german, english]
    assert prepared.folder.name not in (workshop.prepare(**subwords).folder.name, workshop.prepare().folder.name)


def test_prepare_counts_a_side_without_tokens(workshop: Workshop) -> None:
    workshop.write("test", ["\u200b"], ["Man"])
    assert workshop.prepare().manifest["splits"]["test"]["source"] == {"tokens": 0, "unknown_rate": 0.0, "longest": 0}
