"""From text to a dataset of subwords: what pieces are learned from, what stands in the files, and a run's codecs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aligned import AlignedFiles
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data import encoding
from transformer_cli.data import make_dataset as module
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.data.encoding import sample_pairs
from transformer_cli.data.make_dataset import PreparedDataset, make_dataset
from transformer_cli.errors import ConfigError, DataError, MissingFile
from transformer_cli.text.codec import SubwordCodec, codec_checksums
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION, train_subwords

Make = Callable[..., PreparedDataset]
SPLITS = ("train", "valid", "test")


@pytest.fixture
def config(corpus: Path) -> Callable[..., Config]:
    """config(*overrides): the tiny corpus by subwords."""

    def read(*overrides: str) -> Config:
        return load_config(corpus / "tiny.yaml", ["data.tokens=subwords", "data.subwords.vocab_size=330", *overrides])

    return read


@pytest.fixture
def make(config: Callable[..., Config], tmp_path: Path) -> Make:
    """make(*overrides): prepare it in a folder of the test's own. data.tokenizer_from is a folder."""

    def make(*overrides: str) -> PreparedDataset:
        wanted = config(*overrides)
        codec_dir = Path(wanted.data.tokenizer_from) if wanted.data.tokenizer_from else None
        return make_dataset(wanted, AlignedFiles(wanted.data), data_dir=tmp_path / "data", codec_dir=codec_dir)

    return make


def text(corpus: Path, split: str, language: str) -> list[str]:
    return (corpus / f"{split}.{language}").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize(
    ("n", "kept"), [(4, [0, 1, 2, 3]), (5, [0, 2, 4]), (8, [0, 2, 4, 6]), (9, [0, 4, 8]), (18, [0, 8, 16])]
)
def test_sample_pairs_halves_until_few_enough(n: int, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MAX_SUBWORD_PAIRS", 4)
    pairs = [(f"s{number}", f"T{number}") for number in range(n)]
    assert sample_pairs(iter(pairs), DataConfig(lowercase=False), size=0) == [pairs[number] for number in kept]
    assert sample_pairs(iter(pairs[:1]), DataConfig(lowercase=True), size=1) == [("s0", "t0")]
    monkeypatch.setattr(encoding, "MAX_SUBWORD_CHARACTERS", 8)  # of two pairs
    assert sample_pairs(iter(pairs[:3]), DataConfig(lowercase=False), size=0) == [pairs[0], pairs[2]]


def test_prepare_subwords_too_few_for_one_side_names_it(make: Make) -> None:
    said = r"^data\.subwords\.vocab_size: 262 is too small .*; set it to \d+ or more \(de\)$"
    with pytest.raises(ConfigError, match=said):
        make("data.subwords.vocab_size=262")


def test_prepare_subwords_encodes_every_split(make: Make, corpus: Path) -> None:
    dataset = Dataset.open(make().folder)
    for split in SPLITS:
        encoded = dataset.split(split)
        for name, language in (("source", "de"), ("target", "en")):
            side, codec, lines = getattr(encoded, name), getattr(dataset.codecs, name), dataset.text(split, name)
            assert lines == text(corpus, split, language)
            assert [side[row].tolist() for row in range(len(side))] == [codec.encode(line).ids for line in lines]
            assert [codec.decode(side[row].tolist()) for row in range(len(side))] == lines


def test_prepare_subwords_are_learned_from_train(make: Make, corpus: Path) -> None:
    codecs = Dataset.open(make().folder).codecs
    model = train_subwords(text(corpus, "train", "de"), vocab_size=330, algorithm="bpe")
    assert codecs.source == SubwordCodec(model, language="de")
    assert codecs.target != codecs.source


def test_prepare_joint_subwords_are_one_model(make: Make, corpus: Path) -> None:
    folder = make("data.joint_vocabulary=true", "data.lowercase=true").folder
    both = [line.lower() for language in ("de", "en") for line in text(corpus, "train", language)]
    model = train_subwords(both, vocab_size=330, algorithm="bpe")
    assert [(folder / f"{side}.subwords.model").read_bytes() for side in ("source", "target")] == [model, model]


def test_prepare_subwords_manifest_names_the_library(make: Make) -> None:
    manifest = make("data.subwords.algorithm=unigram", "data.subwords.vocab_size=300").manifest
    library = {"library": "sentencepiece", "version": SENTENCEPIECE_VERSION}
    assert manifest["tokenizer"] == {**library, "algorithm": "unigram"}
    assert manifest["vocabulary"] == {"source": 300, "target": 300}
    assert manifest["settings"]["subwords"] == {"vocab_size": 300, "algorithm": "unigram"}
    assert {manifest["splits"][split][side]["unknown_rate"] for split in SPLITS for side in ("source", "target")} == {0}


def test_prepare_subwords_fingerprint_depends_on_settings(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make()
    assert not make().created
    changes = (("data.subwords.vocab_size=331",), ("data.lowercase=true",), ("data.tokens=words", "data.subwords={}"))
    others = [make(*change) for change in changes]
    monkeypatch.setattr(module, "SENTENCEPIECE_VERSION", "0.0")
    others.append(make())
    assert [each.created for each in others] == [True] * 4
    pinned = first.manifest["fingerprint"]
    said = rf"^data.fingerprint: {pinned} names another dataset: this text, cut by SentencePiece 0\.0, has "
    with pytest.raises(DataError, match=said):
        make(f"data.fingerprint={pinned}")


@pytest.mark.parametrize("tokens", ["subwords", "words"])
def test_prepare_like_encodes_with_the_codecs_of_the_run(
    make: Make, config: Callable[..., Config], tokens: str, tmp_path: Path
) -> None:
    own = [f"data.tokens={tokens}", *(["data.subwords={}"] if tokens == "words" else [])]
    first = make(*own)
    runs = [tmp_path / "a run", tmp_path / "moved"]
    for folder in runs:
        Dataset.open(first.folder).codecs.save(folder)
    text_of = {side: tmp_path / f"own.{side}" for side in ("source", "target")}
    for side, path in text_of.items():
        path.write_text("Hund Quokka\n" if side == "source" else "dog quokka\n")
    files = json.dumps({split: {side: str(path) for side, path in text_of.items()} for split in SPLITS})
    second = make(*own, f"data.files={files}", f"data.tokenizer_from={runs[0]}")
    assert not make(*own, f"data.files={files}", f"data.tokenizer_from={runs[1]}").created
    dataset = Dataset.open(second.folder)
    for folder in (first.folder, second.folder):
        assert dataset.manifest["codec"] == codec_checksums(folder, config(*own).data)
    assert dataset.split("train").source[0].tolist() == dataset.codecs.source.encode("Hund Quokka").ids
    wanted = config(*own, f"data.files={files}", f"data.tokenizer_from={runs[1]}").data
    assert find_dataset(wanted, tmp_path / "data", runs[1]) == second.folder
    without = config(*own, f"data.files={files}").data
    with pytest.raises(DataError, match="no dataset files de→en with these settings"):
        find_dataset(without, tmp_path / "data")


def test_find_dataset_with_fingerprint_needs_no_run(make: Make, config: Callable[..., Config], tmp_path: Path) -> None:
    codec_dir = tmp_path / "a run"
    Dataset.open(make("data.lowercase=true").folder).codecs.save(codec_dir)
    made = make("data.lowercase=true", f"data.tokenizer_from={codec_dir}")
    assert set(made.manifest["codec"]) == {"source.subwords.model", "target.subwords.model"}
    codec_dir.rename(tmp_path / "gone")
    pinned = f"data.fingerprint={made.manifest['fingerprint']}"
    wanted = config("data.lowercase=true", f"data.tokenizer_from={codec_dir}", pinned).data
    assert find_dataset(wanted, tmp_path / "data") == made.folder
    with pytest.raises(MissingFile, match=f"^{re.escape(str(codec_dir))}/source.subwords.model: missing"):
        make("data.lowercase=true", f"data.tokenizer_from={codec_dir}")
