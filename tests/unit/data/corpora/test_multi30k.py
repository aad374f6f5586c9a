"""Multi30k: what is read, where it is found, what is fetched, and every way in which that can fail."""

import gzip
import hashlib
import logging
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

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


@dataclass(frozen=True)
class Cut:
    """An answer of which only the first bytes come."""

    n_bytes: int


class Server(ThreadingHTTPServer):
    """Serves FILES under /raw/, but first what `answers` holds: a status, bytes, a Cut, or None for silence."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[int | bytes | Cut | None]] = {}
        self.requests: list[str] = []
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/raw"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/raw/")
        self.server.requests.append(name)
        answers = self.server.answers.get(name)
        answer = answers.pop(0) if answers else FILES.get(name, 404)
        if answer is None:
            self.server.released.wait(10)
        elif isinstance(answer, int):
            self.send_error(answer)
        elif isinstance(answer, Cut):
            self._send(FILES[name][: answer.n_bytes], len(FILES[name]))
        else:
            self._send(answer, len(answer))

    def _send(self, content: bytes, promised: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No named folder, no proxy, no pauses, a cache of our own, and a Multi30k of our own."""
    monkeypatch.delenv(multi30k.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(multi30k, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(multi30k, "SUMS", SUMS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(multi30k, "ADDRESS", server.address)
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


# Multi30k from the network


def test_multi30k_is_fetched_once_and_checked_at_every_use(
    server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    corpus = open_corpus(DataConfig())
    assert everything(corpus)["train"] == [("Ein Hund läuft .", "A dog runs ."), ("Zwei Männer .", "Two men .")]
    assert sorted(server.requests) == sorted(GERMAN_ENGLISH)
    assert set(caplog.messages) == {f"fetching {server.address}/{name}" for name in GERMAN_ENGLISH}
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == {name: FILES[name] for name in GERMAN_ENGLISH}
    again = open_corpus(DataConfig())
    assert again.sums == corpus.sums
    assert len(server.requests) == len(GERMAN_ENGLISH)


def test_a_damaged_file_in_the_cache_is_fetched_again(
    server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_corpus(DataConfig())
    (cache / "val.de.gz").write_bytes(b"damaged")
    server.requests.clear()
    assert list(open_corpus(DataConfig()).splits["valid"]()) == [("Ein Kind .", "A child .")]
    assert server.requests == ["val.de.gz"]
    found = hashlib.sha256(b"damaged").hexdigest()
    wanted = SUMS["val.de.gz"]
    assert caplog.messages == [f"{cache}/val.de.gz: SHA-256 is {found}, expected {wanted}; fetching it again"]


def test_a_damaged_file_in_the_cache_that_comes_damaged_again(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "train.de.gz").write_bytes(b"damaged")
    server.answers["train.de.gz"] = [b"other"]
    with pytest.raises(DownloadError, match=rf"train\.de\.gz: .* SHA-256 is {hashlib.sha256(b'other').hexdigest()}, "):
        open_corpus(DataConfig())
    assert server.requests == ["train.de.gz"]


def test_a_corrupt_download_never_lands(server: Server, cache: Path) -> None:
    server.answers["train.de.gz"] = [b"<html>please log in</html>"]
    message = (
        f"^{server.address}/train.de.gz: cannot be fetched into {cache}: SHA-256 is [0-9a-f]{{64}}, expected "
        f"{SUMS['train.de.gz']}; try again later, or name a folder that holds the files with --source-dir or "
        "TFM_MULTI30K_DIR$"
    )
    with pytest.raises(DownloadError, match=message):
        open_corpus(DataConfig())
    assert server.requests == ["train.de.gz"]
    assert list(cache.iterdir()) == []


def test_a_busy_server_is_asked_again(server: Server, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.answers["train.de.gz"] = [503, 429]
    open_corpus(DataConfig())
    assert server.requests[:4] == ["train.de.gz"] * 3 + ["train.en.gz"]
    assert (cache / "train.de.gz").read_bytes() == FILES["train.de.gz"]
    address = f"{server.address}/train.de.gz"
    assert caplog.messages == [
        f"{address}: HTTP 503 Service Unavailable; trying again",
        f"{address}: HTTP 429 Too Many Requests; trying again",
    ]


def test_three_attempts_are_all(server: Server, cache: Path) -> None:
    server.answers["train.de.gz"] = [503, 502, 500, FILES["train.de.gz"]]
    with pytest.raises(DownloadError, match=r"train\.de\.gz: cannot be fetched into .*: HTTP 500 Internal Server"):
        open_corpus(DataConfig())
    assert server.requests == ["train.de.gz"] * 3
    assert list(cache.glob("*")) == []


@pytest.mark.parametrize("name", ["train.de.gz", "test_2017_flickr.en.gz"])
def test_a_file_that_is_not_there_is_asked_for_once_even_a_test_set(server: Server, name: str) -> None:
    server.answers[name] = [404]
    with pytest.raises(DownloadError, match=rf"/{name}: cannot be fetched into .*: HTTP 404 Not Found; try again"):
        open_corpus(DataConfig())
    assert server.requests.count(name) == 1


def test_an_answer_that_breaks_off_is_asked_for_again(
    server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    n_bytes = len(FILES["train.de.gz"])
    server.answers["train.de.gz"] = [Cut(n_bytes - 7), Cut(n_bytes - 3)]
    open_corpus(DataConfig())
    assert (cache / "train.de.gz").read_bytes() == FILES["train.de.gz"]
    address = f"{server.address}/train.de.gz"
    assert caplog.messages == [
        f"{address}: the answer broke off; trying again",
        f"{address}: the answer broke off; trying again",
    ]


def test_answers_that_always_break_off_leave_nothing(server: Server, cache: Path) -> None:
    server.answers["train.de.gz"] = [Cut(5)] * 3
    with pytest.raises(DownloadError, match="the answer broke off; try again later"):
        open_corpus(DataConfig())
    assert list(cache.iterdir()) == []


def test_a_server_that_falls_silent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi30k, "TIMEOUT_S", 0.1)
    server.answers["train.de.gz"] = [None] * 3
    with pytest.raises(DownloadError, match=r"train\.de\.gz: cannot be fetched into .*: no answer for 0\.1 s; try"):
        open_corpus(DataConfig())
    assert server.requests == ["train.de.gz"] * 3


def test_a_port_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setattr(multi30k, "ADDRESS", f"http://127.0.0.1:{port}")
    with pytest.raises(DownloadError, match=r"train\.de\.gz: cannot be fetched into .*: \[Errno \d+\] .*refused"):
        open_corpus(DataConfig())


def test_an_unknown_host_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def no_names(*arguments: Any, **_: Any) -> None:
        asked.append(arguments[0])
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    with pytest.raises(DownloadError, match=r"the host's name is not known here \(Temporary failure in name res"):
        open_corpus(DataConfig())
    assert asked == ["raw.githubusercontent.com"]


def test_a_cache_that_cannot_be_written(server: Server, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match=rf"train\.de\.gz: cannot be fetched into {cache}: .*File exists"):
        open_corpus(DataConfig())
    assert server.requests == []
