"""Multi30k: what is read, where it is found, what is fetched, and every way in which that can fail."""

import gzip
import hashlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpora import Corpus, multi30k, open_corpus
from transformer_cli.errors import DataError, DownloadError

TEXTS = {
    "train.de.gz": "Ein Hund läuft .\nZwei Männer .\n",
    "train.en.gz": "A dog runs .\nTwo men .\n",
    "train.cs.gz": "Pes běží .\nDva muži .\n",
    "val.de.gz": "Ein Kind .\n",
    "val.en.gz": "A child .\n",
    "val.cs.gz": "Dítě .\n",
    "test_2016_flickr.de.gz": "Eine Frau .\n",
    "test_2016_flickr.en.gz": "A woman .\n",
    "test_2016_flickr.cs.gz": "Žena .\n",
    "test_2017_flickr.de.gz": "Ein Boot .\n",
    "test_2017_flickr.en.gz": "A boat .\n",
}
FILES = {name: gzip.compress(text.encode(), mtime=0) for name, text in TEXTS.items()}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
PUBLISHED = dict(multi30k.SUMS)  # the tests put SUMS in its place
GERMAN_ENGLISH = {name for name in FILES if ".cs." not in name}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No named folder, no proxy, a cache of our own, and a Multi30k of our own."""
    monkeypatch.delenv(multi30k.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(multi30k, "SUMS", SUMS)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A network that always works; what is fetched from it."""
    addresses = []

    def download(address: str, path: Path, expected: str, *, otherwise: str) -> None:
        assert expected == SUMS[path.name]
        addresses.append(address)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[path.name])

    monkeypatch.setattr(multi30k, "download", download)
    return addresses


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all of our Multi30k."""
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tfm" / "multi30k"


def everything(corpus: Corpus) -> dict[str, list[tuple[str, str]]]:
    return {split: list(new_pass()) for split, new_pass in corpus.splits.items()}


# Multi30k from a folder


def test_multi30k_from_a_folder_gives_pairs_sums_and_the_order_of_splits(folder: Path) -> None:
    corpus = open_corpus(DataConfig(), source_dir=folder)
    assert everything(corpus) == {
        "train": [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")],
        "valid": [("Ein Kind .", "A child .")],
        "test_2016_flickr": [("Eine Frau .", "A woman .")],
        "test_2017_flickr": [("Ein Boot .", "A boat .")],
    }
    assert list(corpus.splits) == ["train", "valid", "test_2016_flickr", "test_2017_flickr"]
    assert corpus.sums == {name: SUMS[name] for name in GERMAN_ENGLISH}
    assert corpus.left_out == ()


def test_multi30k_in_the_other_direction_swaps_the_sides(folder: Path) -> None:
    corpus = open_corpus(DataConfig(source="en", target="de"), source_dir=folder)
    assert list(corpus.splits["valid"]()) == [("A child .", "Ein Kind .")]


def test_every_pass_is_fresh(folder: Path) -> None:
    new_pass = open_corpus(DataConfig(), source_dir=folder).splits["train"]
    first, second = new_pass(), new_pass()
    assert next(first) == next(second)
    assert list(first) == list(second) != []


def test_a_test_set_that_a_pair_does_not_have_is_not_missed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = open_corpus(DataConfig(source="en", target="cs"), source_dir=folder)
    assert list(corpus.splits) == ["train", "valid", "test_2016_flickr"]
    assert corpus.left_out == ()
    assert not caplog.records


def test_test_sets_that_the_folder_lacks_are_left_out_and_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "test_2016_flickr.de.gz").unlink()
    (folder / "test_2017_flickr.de.gz").unlink()
    (folder / "test_2017_flickr.en.gz").unlink()
    corpus = open_corpus(DataConfig(), source_dir=folder)
    assert corpus.left_out == ("test_2016_flickr", "test_2017_flickr")
    assert list(corpus.splits) == ["train", "valid"]
    assert not any(name.startswith("test") for name in corpus.sums)
    assert caplog.messages == [f"{folder} lacks test_2016_flickr, test_2017_flickr: left out"]


def test_the_environment_names_the_folder_and_the_argument_outranks_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(folder))
    assert list(open_corpus(DataConfig()).splits["valid"]()) == [("Ein Kind .", "A child .")]
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(tmp_path / "nowhere"))
    assert list(open_corpus(DataConfig(), source_dir=folder).splits["valid"]()) == [("Ein Kind .", "A child .")]


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(DataError, match=rf"^{nowhere}: no such folder; --source-dir must name one that holds"):
        open_corpus(DataConfig(), source_dir=nowhere)
    with pytest.raises(DataError, match=r"^~nobody-at-all/a: .* --source-dir must name a folder that holds"):
        open_corpus(DataConfig(), source_dir=Path("~nobody-at-all/a"))
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(nowhere))
    with pytest.raises(DataError, match=rf"^{nowhere}: no such folder; TFM_MULTI30K_DIR must name one that holds"):
        open_corpus(DataConfig())


@pytest.mark.parametrize("name", ["train.de.gz", "train.en.gz", "val.de.gz", "val.en.gz"])
def test_a_folder_without_a_file_that_is_needed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"^{folder}: lacks {name}; get it from https://raw\..*/{name}$"):
        open_corpus(DataConfig(), source_dir=folder)


@pytest.mark.parametrize("name", ["val.en.gz", "test_2016_flickr.de.gz"])
def test_a_file_in_the_folder_is_checked_at_every_use(folder: Path, name: str) -> None:
    open_corpus(DataConfig(), source_dir=folder)
    (folder / name).write_bytes(b"damaged")
    found = hashlib.sha256(b"damaged").hexdigest()
    message = f"^{folder}/{name}: SHA-256 is {found}, expected {SUMS[name]}; get it again from https://raw"
    with pytest.raises(DataError, match=message):
        open_corpus(DataConfig(), source_dir=folder)


def test_the_real_table_has_each_file_of_each_pair_of_languages() -> None:
    names = {"train", "val", *multi30k.TESTS}
    expected = {f"{name}.{language}.gz" for name in names for language in ("de", "en", "fr", "cs")}
    assert set(PUBLISHED) == expected - {"test_2017_flickr.cs.gz", "test_2017_mscoco.cs.gz"}
    assert all(re.fullmatch("[0-9a-f]{64}", found) for found in PUBLISHED.values())
    assert len(set(PUBLISHED.values())) == len(PUBLISHED) == 22


# Multi30k from the cache


def test_multi30k_is_fetched_once(fetched: list[str], cache: Path) -> None:
    corpus = open_corpus(DataConfig())
    assert everything(corpus)["train"] == [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")]
    assert sorted(fetched) == sorted(f"{multi30k.ADDRESS}/{name}" for name in GERMAN_ENGLISH)
    assert {path.name for path in cache.iterdir()} == GERMAN_ENGLISH
    assert open_corpus(DataConfig()).sums == corpus.sums
    assert len(fetched) == len(GERMAN_ENGLISH)


def test_a_file_in_the_cache_is_checked_at_every_use_and_fetched_again_if_it_is_damaged(
    fetched: list[str], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_corpus(DataConfig())
    (cache / "val.de.gz").write_bytes(b"damaged")
    fetched.clear()
    assert list(open_corpus(DataConfig()).splits["valid"]()) == [("Ein Kind .", "A child .")]
    assert fetched == [f"{multi30k.ADDRESS}/val.de.gz"]
    found = hashlib.sha256(b"damaged").hexdigest()
    wanted = SUMS["val.de.gz"]
    assert caplog.messages == [f"{cache}/val.de.gz: SHA-256 is {found}, expected {wanted}; fetching it again"]


def test_without_a_network_one_line_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setattr(multi30k, "ADDRESS", address)
    monkeypatch.setattr("transformer_cli.data.corpora.download.PAUSES_S", ())
    message = (
        rf"^{address}/train\.de\.gz: cannot be fetched into {cache}: \[Errno \d+\] Connection refused; "
        r"try again later, or use a folder that holds the files \(--source-dir FOLDER or TFM_MULTI30K_DIR\), text of "
        r"your own \(data\.corpus: files with data\.files, .*\), or the embedded .* corpus \(--config demo-captions\)$"
    )
    with pytest.raises(DownloadError, match=message):
        open_corpus(DataConfig())
    assert load_config("demo-captions").data.corpus == "captions"
    assert list(cache.iterdir()) == []


def test_what_is_in_the_cache_needs_no_library_for_the_network(cache: Path) -> None:
    cache.mkdir(parents=True)
    for name, content in FILES.items():
        (cache / name).write_bytes(content)
    probe = (
        "import sys, platformdirs; from pathlib import Path; from transformer_cli.data.corpora import multi30k as m; "
        f"m.SUMS = {SUMS!r}; platformdirs.user_cache_dir = lambda name: Path({str(cache.parents[1])!r}, name); "
        "from transformer_cli.config.schema import DataConfig; m.open_multi30k(DataConfig()); "
        "print(*{'requests', 'urllib3'} & set(sys.modules))"
    )
    environment = {key: value for key, value in os.environ.items() if key != multi30k.FOLDER_VARIABLE}
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("\n", "")
