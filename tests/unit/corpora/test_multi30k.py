"""Multi30k: what is read, where it is found, how it is fetched, and every way in which that can fail."""

import gzip
import hashlib
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DataConfig
from transformer_cli.corpora import multi30k
from transformer_cli.corpora.corpora import Corpus, open_corpus
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
GERMAN_ENGLISH = {name for name in FILES if ".cs." not in name}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No named folder, no proxy, no pauses, a cache of our own, and a Multi30k of our own."""
    monkeypatch.delenv(multi30k.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(multi30k, "sums", lambda: SUMS)
    monkeypatch.setattr(multi30k, "PAUSE_S", 0.0)


@dataclass(frozen=True)
class Cut:
    """An answer of which only the first bytes come; then the server hangs up, or falls silent."""

    n_bytes: int
    silent: bool = False


class Server(ThreadingHTTPServer):
    """Answers with what `answers` holds, one after the other: a status, bytes, or a Cut; then with our Multi30k."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int | bytes | Cut] = []
        self.asked: list[str] = []
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path[1:])
        content = FILES[self.path[1:]]
        answer = self.server.answers.pop(0) if self.server.answers else content
        if isinstance(answer, int):
            self.send_error(answer)
        elif isinstance(answer, bytes):
            self._send(answer, len(answer))
        else:
            if answer.n_bytes:
                self._send(content[: answer.n_bytes], len(content))
            if answer.silent:
                self.server.released.wait(10)

    def _send(self, content: bytes, promised: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Where Multi30k is fetched from."""
    with Server() as server:
        monkeypatch.setattr(multi30k, "ADDRESS", server.address)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


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


def read(corpus: Corpus, split: str) -> list[tuple[str, str]]:
    return [(source, target) for source, target, _ in corpus.splits[split](lambda *_: None)]


def everything(corpus: Corpus) -> dict[str, list[tuple[str, str]]]:
    return {split: read(corpus, split) for split in corpus.splits}


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


def test_multi30k_in_the_other_direction_swaps_the_sides(folder: Path) -> None:
    corpus = open_corpus(DataConfig(source="en", target="de"), source_dir=folder)
    assert read(corpus, "valid") == [("A child .", "Ein Kind .")]


def test_a_test_set_that_a_pair_does_not_have_is_not_missed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = open_corpus(DataConfig(source="en", target="cs"), source_dir=folder)
    assert list(corpus.splits) == ["train", "valid", "test_2016_flickr"]
    assert not caplog.records


def test_test_sets_that_the_folder_lacks_are_left_out_and_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "test_2016_flickr.de.gz").unlink()
    (folder / "test_2017_flickr.de.gz").unlink()
    (folder / "test_2017_flickr.en.gz").unlink()
    corpus = open_corpus(DataConfig(), source_dir=folder)
    assert list(corpus.splits) == ["train", "valid"]
    assert not any(name.startswith("test") for name in corpus.sums)
    assert caplog.messages == [f"{folder} lacks test_2016_flickr, test_2017_flickr: left out"]


def test_the_environment_names_the_folder_and_the_argument_outranks_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(folder))
    assert read(open_corpus(DataConfig()), "valid") == [("Ein Kind .", "A child .")]
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(tmp_path / "nowhere"))
    assert read(open_corpus(DataConfig(), source_dir=folder), "valid") == [("Ein Kind .", "A child .")]


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(DataError, match=rf"^{nowhere}: no such folder; --source-dir must name one that holds"):
        open_corpus(DataConfig(), source_dir=nowhere)
    with pytest.raises(DataError, match=r"^~nobody-at-all/a: no such folder; --source-dir must name one that holds"):
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


# Multi30k from the cache


def test_multi30k_is_fetched_once(server: Server, cache: Path) -> None:
    corpus = open_corpus(DataConfig())
    assert everything(corpus)["train"] == [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")]
    assert sorted(server.asked) == sorted(GERMAN_ENGLISH)
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == {name: FILES[name] for name in GERMAN_ENGLISH}
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o644}  # a cache may be shared
    assert open_corpus(DataConfig()).sums == corpus.sums
    assert len(server.asked) == len(GERMAN_ENGLISH)


def test_a_file_in_the_cache_is_checked_at_every_use_and_replaced_by_a_whole_one(
    server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_corpus(DataConfig())
    (cache / "val.de.gz").write_bytes(b"damaged")
    server.asked.clear()
    server.answers = [b"other"]
    with pytest.raises(DownloadError):
        open_corpus(DataConfig())
    assert (cache / "val.de.gz").read_bytes() == b"damaged"
    assert read(open_corpus(DataConfig()), "valid") == [("Ein Kind .", "A child .")]
    assert server.asked == ["val.de.gz"] * 2
    found, wanted = hashlib.sha256(b"damaged").hexdigest(), SUMS["val.de.gz"]
    assert caplog.messages == [f"{cache}/val.de.gz: SHA-256 is {found}, expected {wanted}; fetching it again"] * 2


def test_a_server_is_asked_again_where_that_may_help(server: Server) -> None:
    server.answers = [503, 429]
    assert everything(open_corpus(DataConfig()))["valid"] == [("Ein Kind .", "A child .")]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([404], "404 Client Error: Not Found"),
        ([b"<html>please log in</html>"], f"SHA-256 is [0-9a-f]{{64}}, expected {SUMS['train.de.gz']}"),
        ([503, 502, 500], "500 Server Error"),
        ([Cut(5)], "IncompleteRead"),
        ([Cut(0)] * 3, "Remote end closed connection without response"),
        ([Cut(0, silent=True)] * 3, "timed out"),
        ([Cut(5, silent=True)], "timed out"),
    ],
    ids=str,
)
def test_a_download_that_fails_leaves_nothing(
    server: Server, cache: Path, answers: list[int | bytes | Cut], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi30k, "TIMEOUT_S", 0.1)
    server.answers = [*answers]
    with pytest.raises(DownloadError, match=f"cannot be fetched into {cache}: .*{reason}.*; try again later"):
        open_corpus(DataConfig())
    assert len(server.asked) == len(answers)
    assert list(cache.iterdir()) == []


def test_without_a_network_one_line_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setattr(multi30k, "ADDRESS", address)
    message = (
        rf"^{address}/train\.de\.gz: cannot be fetched into {cache}: \[Errno \d+\] Connection refused; "
        r"try again later, or use a folder that holds the files \(--source-dir FOLDER or TFM_MULTI30K_DIR\), text of "
        r"your own \(data\.corpus: files with data\.files, .*\), or the embedded .* corpus \(--config demo-captions\)$"
    )
    with pytest.raises(DownloadError, match=message):
        open_corpus(DataConfig())
    assert load_config("demo-captions").data.corpus == "captions"
    assert list(cache.iterdir()) == []


def test_ctrl_c_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        assert len(list(cache.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("tqdm.tqdm.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_corpus(DataConfig())
    assert list(cache.iterdir()) == []
