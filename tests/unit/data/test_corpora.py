"""Corpora: what is read, where it is found, what is fetched, and every way in which that can fail."""

import gc
import gzip
import hashlib
import logging
import re
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.schema import DataConfig
from transformer_cli.data import captions, corpora
from transformer_cli.data.corpora import Corpus, open_corpus
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
PUBLISHED = dict(corpora.MULTI30K_SUMS)  # the tests put SUMS in its place
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
    monkeypatch.delenv(corpora.MULTI30K_FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(corpora, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(corpora, "MULTI30K_SUMS", SUMS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(corpora, "MULTI30K_ADDRESS", server.address)
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


def own(tmp_path: Path, *, skip_empty: bool = False, **contents: str | bytes) -> DataConfig:
    """A config whose files hold what is given as `train_source=…`, text or bytes; the others hold one sentence."""
    sides: dict[str, dict[str, Path]] = {}
    for split in dict.fromkeys(["train", "valid", *(key.rsplit("_", 1)[0] for key in contents)]):
        for side in ("source", "target"):
            content = contents.get(f"{split}_{side}", "one\n")
            path = tmp_path / f"{split}.{side}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            sides.setdefault(split, {})[side] = path
    return DataConfig.model_validate({"corpus": "files", "files": sides, "skip_empty": skip_empty})


def read(data: DataConfig, split: str = "train") -> list[tuple[str, str]]:
    return list(open_corpus(data).splits[split]())


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
    names = {"train", "val", *corpora.MULTI30K_TESTS}
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
    monkeypatch.setattr(corpora, "TIMEOUT_S", 0.1)
    server.answers["train.de.gz"] = [None] * 3
    with pytest.raises(DownloadError, match=r"train\.de\.gz: cannot be fetched into .*: no answer for 0\.1 s; try"):
        open_corpus(DataConfig())
    assert server.requests == ["train.de.gz"] * 3


def test_a_port_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setattr(corpora, "MULTI30K_ADDRESS", f"http://127.0.0.1:{port}")
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


# Your own files


def test_own_files_give_splits_in_order_and_sums_without_paths(tmp_path: Path) -> None:
    data = own(tmp_path, news_source="n\n", news_target="N\n", train_source="a\nb\n", train_target="A\nB\n")
    assert data.files is not None
    shuffled = {split: data.files[split] for split in ("news", "valid", "train")}
    corpus = open_corpus(data.model_copy(update={"files": {**shuffled, "again": data.files["news"]}}))
    assert everything(corpus) == {
        "train": [("a", "A"), ("b", "B")],
        "valid": [("one", "one")],
        "news": [("n", "N")],
        "again": [("n", "N")],
    }
    assert list(corpus.splits) == ["train", "valid", "news", "again"]
    assert set(corpus.sums) == {f"{split}.{side}" for split in corpus.splits for side in ("source", "target")}
    assert corpus.sums["train.source"] == hashlib.sha256(b"a\nb\n").hexdigest()
    assert corpus.sizes == {"train": 2, "valid": 1, "news": 1, "again": 1}
    assert corpus.left_out == ()


def test_own_files_may_be_gzip_on_one_side(tmp_path: Path) -> None:
    data = own(tmp_path, train_source="a\nb\n", train_target="A\nB\n")
    assert data.files is not None
    packed = tmp_path / "train.source.gz"
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    pair = data.files["train"].model_copy(update={"source": packed})
    data = data.model_copy(update={"files": {**data.files, "train": pair}})
    assert read(data) == [("a", "A"), ("b", "B")]
    assert set(open_corpus(data).sizes) == {"valid"}  # what is packed is not counted


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\nb\r", ["a", "b"]),
        ("a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        (" a \n\tb\n", [" a ", "\tb"]),
        ("a\u2028a\x85a\n\x0bb\x0cb\x1cb\n", ["a\u2028a\x85a", "\x0bb\x0cb\x1cb"]),
        ("😀 日本語\nß\n", ["😀 日本語", "ß"]),
    ],
)
def test_lines_end_at_line_feeds_and_nowhere_else(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert read(own(tmp_path, train_source=text, train_target="1\n2\n")) == list(zip(lines, "12", strict=True))


@pytest.mark.parametrize(("split", "side"), [("train", "source"), ("valid", "target"), ("news", "source")])
def test_an_own_file_that_is_not_there(tmp_path: Path, split: str, side: str) -> None:
    data = own(tmp_path, news_source="n\n")
    path = tmp_path / f"{split}.{side}"
    path.unlink()
    with pytest.raises(DataError, match=rf"^data\.files\.{split}\.{side}: {path}: no such file; correct the path in"):
        open_corpus(data)


def test_an_own_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    data = own(tmp_path)
    monkeypatch.setattr(corpora, "sha256", refuse)
    message = f"^{tmp_path}/train.source: cannot be read: Permission denied; correct the path or the permissions$"
    with pytest.raises(DataError, match=message):
        open_corpus(data)


def test_an_own_file_that_goes_away_before_it_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(own(tmp_path))
    (tmp_path / "train.target").unlink()
    with pytest.raises(DataError, match=rf"^{tmp_path}/train\.target: cannot be read: No such file or directory; "):
        list(corpus.splits["train"]())


@pytest.mark.parametrize(
    ("content", "line", "byte", "value"),
    [(b"a\nb\xe4r\n", 2, 2, "0xe4"), (b"\x1f\x8b\x08\n", 1, 2, "0x8b"), (b"a\nb\nc\xc3\n", 3, 2, "0xc3")],
)
def test_text_that_is_not_utf_8(tmp_path: Path, content: bytes, line: int, byte: int, value: str) -> None:
    data = own(tmp_path, train_source="a\nb\nc\n", train_target=content)
    message = rf"^{tmp_path}/train\.target: line {line}: byte {byte} of the line is {value}, which is not UTF-8; "
    with pytest.raises(DataError, match=message + "convert the file"):
        read(data)


@pytest.mark.parametrize(("n_source", "n_target"), [(3, 5), (5, 3), (0, 2), (2, 0)])
def test_sides_that_are_out_of_step(tmp_path: Path, n_source: int, n_target: int) -> None:
    data = own(tmp_path, train_source="a\n" * n_source, train_target="b\n" * n_target)
    message = rf"^{tmp_path}/train\.source has {n_source} lines, {tmp_path}/train\.target has {n_target}; line n must"
    with pytest.raises(DataError, match=message):
        read(data)


@pytest.mark.parametrize(
    ("source", "target", "side", "line"),
    [("a\n\n", "A\nB\n", "source", 2), ("a\n", " \t\u00a0\n", "target", 1), ("a\n\r\n", "A\n\n", "source", 2)],
)
def test_an_empty_side(tmp_path: Path, source: str, target: str, side: str, line: int) -> None:
    message = rf"^{tmp_path}/train\.{side}: line {line} is empty; mend it, or set data\.skip_empty: true to leave"
    with pytest.raises(DataError, match=message):
        read(own(tmp_path, train_source=source, train_target=target))


def test_empty_sides_may_be_skipped_and_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = own(tmp_path, skip_empty=True, train_source="a\n\nc\nd\n", train_target="A\nB\n \nD\n")
    new_pass = open_corpus(data).splits["train"]
    assert list(new_pass()) == [("a", "A"), ("d", "D")]
    source, target = tmp_path / "train.source", tmp_path / "train.target"
    assert caplog.messages == [f"{source} and {target}: pairs with an empty side left out: 2, the first in line 2"]


def test_nothing_is_said_where_nothing_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read(own(tmp_path, skip_empty=True)) == [("one", "one")]
    assert not caplog.records


@pytest.mark.parametrize(("split", "text"), [("train", ""), ("valid", ""), ("train", "\n \n")])
def test_a_split_without_a_pair(tmp_path: Path, split: str, text: str) -> None:
    data = own(tmp_path, skip_empty=True, **{f"{split}_source": text, f"{split}_target": text})
    message = rf"^{tmp_path}/{split}\.source and {tmp_path}/{split}\.target: not one pair of sentences; a split needs"
    with pytest.raises(DataError, match=message):
        read(data, split)


LONG = gzip.compress("".join(f"line {n * n}\n" for n in range(20000)).encode())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"plain text\n", "Not a gzipped file"),
        (LONG[: len(LONG) // 2], "Compressed file ended before the end-of-stream marker"),
        (LONG[:2000] + bytes(100) + LONG[2100:], r"Error -\d while decompressing|CRC check failed"),
        (LONG[:-8] + bytes(8), "CRC check failed"),
    ],
)
def test_gzip_that_is_damaged(tmp_path: Path, content: bytes, reason: str) -> None:
    data = own(tmp_path, train_target="".join(f"{n}\n" for n in range(20000)))
    assert data.files is not None
    packed = tmp_path / "packed.gz"
    packed.write_bytes(content)
    pair = data.files["train"].model_copy(update={"source": packed})
    message = rf"^{packed}: not a whole gzip file \(({reason}).*\); copy it again, or take \.gz off its name$"
    with pytest.raises(DataError, match=message):
        read(data.model_copy(update={"files": {**data.files, "train": pair}}))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_pass_dropped_half_way_closes_its_files(tmp_path: Path, suffix: str) -> None:
    text = b"a\n" * 100_000
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(text) if suffix else text)
    pair = {"source": path, "target": path}
    data = DataConfig.model_validate({"corpus": "files", "files": {"train": pair, "valid": pair}})
    pairs = open_corpus(data).splits["train"]()
    assert next(pairs) == ("a", "a")
    del pairs
    gc.collect()  # an open file would be a ResourceWarning, and so an error


def test_no_pass_holds_a_file_in_memory(tmp_path: Path) -> None:
    n_lines = 50_000
    data = own(tmp_path, train_source="a sentence of thirty letters...\n" * n_lines, train_target="b\n" * n_lines)
    new_pass = open_corpus(data).splits["train"]
    tracemalloc.start()
    try:
        assert sum(1 for _ in new_pass()) == n_lines
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # bytes; the file has 1.6 million
    finally:
        tracemalloc.stop()


def test_a_folder_for_multi30k_is_ignored_elsewhere_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_corpus(own(tmp_path), source_dir=tmp_path)
    assert caplog.messages == [f"--source-dir {tmp_path} is ignored: it is for corpus: multi30k, not files"]


# The embedded captions


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_captions_come_in_either_direction_with_one_sum(source: str, target: str) -> None:
    settings = {"corpus": "captions", "source": source, "target": target, "captions": {"sentences": 100, "seed": 3}}
    corpus = open_corpus(DataConfig.model_validate(settings))
    written = captions.write(100, 3)
    step = 1 if source == "de" else -1
    assert everything(corpus) == {split: [pair[::step] for pair in pairs] for split, pairs in written.items()}
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert corpus.sizes == {split: len(pairs) for split, pairs in written.items()}
    text = "".join(f"{split}\t{de}\t{en}\n" for split, pairs in written.items() for de, en in pairs)
    assert corpus.sums == {"captions": hashlib.sha256(text.encode()).hexdigest()}
    assert list(corpus.splits["valid"]()) == list(corpus.splits["valid"]())
