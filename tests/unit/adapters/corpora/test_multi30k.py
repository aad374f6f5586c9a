"""Multi30k: where it is found, what is read, how it is downloaded, and how that can fail."""

import gzip
import hashlib
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.adapters.corpora import multi30k
from transformer_cli.adapters.corpora.corpora import OpenedCorpus, open_corpus
from transformer_cli.config.schema import DataConfig
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
    """No named folder, no proxy, no pauses, a separate cache, and a small Multi30k."""
    monkeypatch.delenv(multi30k.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(multi30k, "checksums", lambda: SUMS)
    monkeypatch.setattr(multi30k, "BACKOFF_FACTOR", 0.0)


class Server(ThreadingHTTPServer):
    """Gives the answers in `answers` one after the other, then the files of the small Multi30k.

    An answer is a status, content, the length of a truncated file ("5"), or one after which the server hangs ("5 …").
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int | bytes | str] = []
        self.asked: list[str] = []
        self.released = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path[1:])
        content = FILES[self.path[1:]]
        answer = self.server.answers.pop(0) if self.server.answers else content
        if isinstance(answer, int):
            self.send_error(answer)
            return
        n_bytes = int(answer.split()[0]) if isinstance(answer, str) else len(answer)
        if n_bytes:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) if isinstance(answer, str) else n_bytes))
            self.end_headers()
            self.wfile.write((content if isinstance(answer, str) else answer)[:n_bytes])
        if isinstance(answer, str) and "…" in answer:
            self.server.released.wait(600)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server from which Multi30k is downloaded."""
    with Server() as server:
        monkeypatch.setattr(multi30k, "ADDRESS", f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the whole small Multi30k."""
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tfm" / "multi30k"


def read(corpus: OpenedCorpus, split: str) -> list[tuple[str, str]]:
    return [(source, target) for source, target, _ in corpus.splits[split](lambda *_: None)]


def everything(corpus: OpenedCorpus) -> dict[str, list[tuple[str, str]]]:
    return {split: read(corpus, split) for split in corpus.splits}


def test_multi30k_folder_gives_pairs_checksums_and_splits(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(DataConfig(), multi30k_dir=folder)
    assert everything(corpus) == {
        "train": [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")],
        "valid": [("Ein Kind .", "A child .")],
        "test_2016_flickr": [("Eine Frau .", "A woman .")],
        "test_2017_flickr": [("Ein Boot .", "A boat .")],
    }
    assert list(corpus.splits) == ["train", "valid", "test_2016_flickr", "test_2017_flickr"]
    assert corpus.checksums == {name: SUMS[name] for name in GERMAN_ENGLISH}
    swapped = open_corpus(DataConfig(source="en", target="cs"), multi30k_dir=folder)  # Czech has no test set of 2017
    assert (list(swapped.splits), read(swapped, "valid")) == ([*corpus.splits][:3], [("A child .", "Dítě .")])
    assert not caplog.records
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(folder))
    assert everything(open_corpus(DataConfig())) == everything(corpus)
    monkeypatch.setenv("TFM_MULTI30K_DIR", str(tmp_path / "nowhere"))  # the argument overrides it
    assert everything(open_corpus(DataConfig(), multi30k_dir=folder)) == everything(corpus)


def test_multi30k_folder_without_test_sets_warns_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("test_2016_flickr.de.gz", "test_2017_flickr.de.gz", "test_2017_flickr.en.gz"):
        (folder / name).unlink()
    corpus = open_corpus(DataConfig(), multi30k_dir=folder)
    assert list(corpus.splits) == ["train", "valid"]
    assert not any(name.startswith("test") for name in corpus.checksums)
    assert caplog.messages == [f"{folder} lacks test_2016_flickr, test_2017_flickr; left out"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train.de.gz", None, r"FOLDER/train\.de\.gz: no such file; get it from https://raw\..*/train\.de\.gz$"),
        ("val.en.gz", b"x", f"FOLDER/val.en.gz: SHA-256 is 2d71.*, expected {SUMS['val.en.gz']}; get it from https"),
        ("test_2016_flickr.de.gz", b"x", "FOLDER/test_2016_flickr.de.gz: SHA-256 is 2d71"),
    ],
)
def test_multi30k_missing_or_changed_file_is_refused(folder: Path, name: str, content: bytes | None, said: str) -> None:
    open_corpus(DataConfig(), multi30k_dir=folder)
    (folder / name).unlink()
    if content:
        (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=f"^{said.replace('FOLDER', str(folder))}"):
        open_corpus(DataConfig(), multi30k_dir=folder)


def test_multi30k_missing_folder_error_names_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^~nobody-at-all/a: no such folder; --multi30k-dir must name one with"):
        open_corpus(DataConfig(), multi30k_dir=Path("~nobody-at-all/a"))
    monkeypatch.setenv("TFM_MULTI30K_DIR", "/nowhere")
    with pytest.raises(DataError, match=r"^/nowhere: no such folder; TFM_MULTI30K_DIR must name one with"):
        open_corpus(DataConfig())


def test_multi30k_is_downloaded_once_and_again_if_damaged(
    server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [503, 429]  # after these, the download is tried again
    corpus = open_corpus(DataConfig())
    assert everything(corpus)["train"] == [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")]
    assert sorted({*server.asked}) == sorted(GERMAN_ENGLISH)
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == {name: FILES[name] for name in GERMAN_ENGLISH}
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o644}  # a cache may be shared
    server.asked.clear()
    assert open_corpus(DataConfig()).checksums == corpus.checksums
    assert server.asked == []
    (cache / "val.de.gz").write_bytes(b"damaged")
    server.answers = [b"other"]
    with pytest.raises(DownloadError):
        open_corpus(DataConfig())
    assert (cache / "val.de.gz").read_bytes() == b"damaged"
    assert everything(open_corpus(DataConfig())) == everything(corpus)
    assert server.asked == ["val.de.gz"] * 2
    found, wanted = hashlib.sha256(b"damaged").hexdigest(), SUMS["val.de.gz"]
    assert caplog.messages == [f"{cache}/val.de.gz: SHA-256 is {found}, expected {wanted}; downloading it again"] * 2


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([404], "404 Client Error: Not Found"),
        ([b"<html>please log in</html>"], f"SHA-256 is [0-9a-f]{{64}}, expected {SUMS['train.de.gz']}"),
        *(([503, 502, 500], "500 Server Error"), (["5"], "IncompleteRead"), (["0 …"] * 3, "timed out")),
        (["5 …"], "timed out"),
    ],
    ids=str,
)
def test_multi30k_failed_download_leaves_no_file(
    server: Server, cache: Path, answers: list[int | bytes | str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "timed out":
        monkeypatch.setattr(multi30k, "TIMEOUT_S", 0.1)
    server.answers = [*answers]
    remedy = r"try again later, or use a folder .*\(--multi30k-dir FOLDER or TFM_M.*\), .* \(--config demo-captions\)$"
    with pytest.raises(DownloadError, match=f"cannot be downloaded into {cache}: .*{reason}.*; {remedy}"):
        open_corpus(DataConfig())
    assert len(server.asked) == len(answers)
    assert list(cache.iterdir()) == []


def test_multi30k_interrupted_download_leaves_no_file(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        assert len(list(cache.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("tqdm.tqdm.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_corpus(DataConfig())
    assert list(cache.iterdir()) == []
