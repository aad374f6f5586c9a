"""The corpora of the user's files and of the captions: what is read, and how it can fail."""

import gc
import gzip
import hashlib
import os
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from transformer_cli import prepare
from transformer_cli.adapters.corpora.corpora import OpenedCorpus, clean_and_split, open_corpus, read_captions
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig, FilePair
from transformer_cli.data.corpus import read_pairs
from transformer_cli.errors import DataError


def own(tmp_path: Path, *, skip_empty: bool = False, **contents: str | bytes) -> DataConfig:
    """A config with files of the given contents, as in `train_source=…`; the others have one sentence."""
    sides: dict[str, dict[str, Path]] = {}
    for split in dict.fromkeys(["train", "valid", *(key.rsplit("_", 1)[0] for key in contents)]):
        for side in ("source", "target"):
            content = contents.get(f"{split}_{side}", "one\n")
            path = tmp_path / f"{split}.{side}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            sides.setdefault(split, {})[side] = path
    return DataConfig.model_validate({"corpus": "files", "files": sides, "skip_empty": skip_empty})


def pairs(corpus: OpenedCorpus, split: str) -> list[tuple[str, str]]:
    return [(source, target) for source, target, _ in corpus.splits[split](lambda *_: None)]


def write(data: DataConfig, folder: Path) -> dict[str, Any]:
    return asdict(clean_and_split(open_corpus(data), folder))


def test_open_corpus_files_returns_splits_in_order_and_checksums(tmp_path: Path) -> None:
    data = own(tmp_path, news_source="n\n", news_target="N\n", train_source="a\nb\n", train_target="A\nB\n")
    assert data.files is not None
    shuffled = {split: data.files[split] for split in ("news", "valid", "train")}
    data = data.model_copy(update={"files": {**shuffled, "again": data.files["news"]}})
    corpus = open_corpus(data)
    assert {split: pairs(corpus, split) for split in corpus.splits} == {
        "train": [("a", "A"), ("b", "B")],
        "valid": [("one", "one")],
        "news": [("n", "N")],
        "again": [("n", "N")],
    }
    sizes = {"train": 2, "valid": 1, "news": 1, "again": 1}  # in this order, whatever the order of the files
    assert list(write(data, tmp_path)["splits"].items()) == list(sizes.items())
    assert set(corpus.checksums) == {f"{split}.{side}" for split in corpus.splits for side in ("source", "target")}
    assert corpus.checksums["train.source"] == hashlib.sha256(b"a\nb\n").hexdigest()


@pytest.mark.parametrize(("split", "side"), [("train", "source"), ("valid", "target"), ("news", "source")])
def test_open_corpus_missing_file_is_named_in_the_error(tmp_path: Path, split: str, side: str) -> None:
    data = own(tmp_path, news_source="n\n")
    path = tmp_path / f"{split}.{side}"
    path.unlink()
    with pytest.raises(DataError, match=rf"^data\.files\.{split}\.{side}: {path}: no such file; correct the path; "):
        open_corpus(data)


@pytest.mark.parametrize("path", ["pipe.txt", "/dev/zero", ""])
def test_open_corpus_path_that_is_not_a_file_is_refused(tmp_path: Path, path: str) -> None:
    data = own(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    pair = FilePair(source=tmp_path / "train.source", target=tmp_path / path)
    remedy = "correct the path; text is read several times, so it must be in a file"
    with pytest.raises(DataError) as told:
        open_corpus(data.model_copy(update={"files": {**(data.files or {}), "train": pair}}))
    assert str(told.value) == f"data.files.train.target: {tmp_path / path}: not a file; {remedy}"


def test_clean_and_split_empty_side_is_refused_or_skipped(tmp_path: Path) -> None:
    sides: dict[str, Any] = {"train_source": "a\n\nc\nd\n", "train_target": "A\nB\n \nD\n"}
    with pytest.raises(DataError, match=r"train\.source: line 2 is empty"):
        write(own(tmp_path, **sides), tmp_path)
    facts = write(own(tmp_path, skip_empty=True, **sides), tmp_path)
    assert list(read_pairs(tmp_path, "train")) == [("a", "A"), ("d", "D")]
    examples = [[f"{tmp_path}/train.source: line 2", "", "B"], [f"{tmp_path}/train.source: line 3", "c", " "]]
    assert (facts["left_out"], facts["examples"]) == ({"empty": 2}, {"empty": examples})


@pytest.mark.parametrize(("split", "text"), [("train", ""), ("valid", ""), ("train", "\n \n")])
def test_clean_and_split_split_without_pairs_is_refused(tmp_path: Path, split: str, text: str) -> None:
    data = own(tmp_path, skip_empty=True, **{f"{split}_source": text, f"{split}_target": text})
    with pytest.raises(DataError, match=rf"^data\.files\.{split}: no sentence pairs left.*; a split needs"):
        write(data, tmp_path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_corpus_abandoned_pass_closes_its_files(tmp_path: Path, suffix: str) -> None:
    text = b"a\n" * 100_000
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(text) if suffix else text)
    pair = {"source": path, "target": path}
    data = DataConfig.model_validate({"corpus": "files", "files": {"train": pair, "valid": pair}})
    pairs = open_corpus(data).splits["train"](lambda *_: None)
    assert next(pairs)[:2] == ("a", "a")
    del pairs
    gc.collect()  # an open file would be a ResourceWarning, and so an error


def test_corpus_pass_does_not_load_a_whole_file(tmp_path: Path) -> None:
    n_lines = 25_000
    data = own(tmp_path, train_source="a sentence of thirty letters...\n" * n_lines, train_target="b\n" * n_lines)
    corpus = open_corpus(data)
    tracemalloc.start()
    try:
        assert clean_and_split(corpus, tmp_path).splits["train"] == n_lines
        assert tracemalloc.get_traced_memory()[1] < 600_000  # bytes; the file has 800,000
    finally:
        tracemalloc.stop()


def test_open_corpus_unneeded_multi30k_dir_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_corpus(own(tmp_path), multi30k_dir=tmp_path)
    assert caplog.messages == [f"--multi30k-dir {tmp_path} is ignored: it applies to corpus multi30k, not to files"]


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_captions_both_directions_have_the_same_checksum(source: str, target: str) -> None:
    settings = {"corpus": "captions", "source": source, "target": target, "captions": {"sentences": 100}}
    data = DataConfig.model_validate(settings)
    corpus = open_corpus(data)
    written = read_captions(100)
    step = 1 if source == "de" else -1
    expected = {split: [pair[::step] for pair in written[split]] for split in ("train", "valid", "test")}
    assert {split: pairs(corpus, split) for split in corpus.splits} == expected
    assert [*corpus.splits] == [*expected]
    text = "".join(f"{split}\t{de}\t{en}\n" for split, pairs in written.items() for de, en in pairs)
    assert corpus.checksums == {"captions": hashlib.sha256(text.encode()).hexdigest()}


def test_captions_larger_train_begins_with_the_smaller_one() -> None:
    small, most = read_captions(100), read_captions(20_000)
    assert [len(pairs) for pairs in most.values()] == [20_000, 500, 500]
    assert most["train"][:100] == small["train"]
    assert (most["valid"], most["test"]) == (small["valid"], small["test"])


def test_captions_splits_share_no_sentence() -> None:
    splits = {split: list(zip(*pairs, strict=True)) for split, pairs in read_captions(20_000).items()}
    for german_or_english in (0, 1):
        learned = set(splits["train"][german_or_english])
        assert learned.isdisjoint(splits["valid"][german_or_english] + splits["test"][german_or_english])


def test_prepare_corpus_gives_the_dataset_of_the_fixtures(corpus: Path, project: Path, tmp_path: Path) -> None:
    folder = prepare(load_config(corpus / "tiny.yaml"), data_dir=tmp_path).folder
    made, found = (
        {each.name: each.read_bytes() for each in (path / folder.name).iterdir()}
        for path in (project / "data", tmp_path)
    )
    assert found == made
