"""One file over HTTP: whole or not at all, and every way in which fetching it can fail."""

import hashlib
import io
import logging
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.data.corpora import download as module
from transformer_cli.data.corpora.download import download
from transformer_cli.errors import DownloadError

CONTENT = bytes(range(256)) * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()


@dataclass(frozen=True)
class Cut:
    """An answer of which only the first bytes come; then the server hangs up, or falls silent."""

    n_bytes: int
    silent: bool = False


class Server(ThreadingHTTPServer):
    """Answers with what `answers` holds, one after the other: a status, bytes, or a Cut; then with CONTENT."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int | bytes | Cut] = []
        self.n_requests = 0
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/raw/file.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.n_requests += 1
        answer = self.server.answers.pop(0) if self.server.answers else CONTENT
        if isinstance(answer, int):
            self.send_error(answer)
        elif isinstance(answer, bytes):
            self._send(answer, len(answer))
        else:
            if answer.n_bytes:
                self._send(CONTENT[: answer.n_bytes], len(CONTENT))
            if answer.silent:
                self.server.released.wait(10)

    def _send(self, content: bytes, promised: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no pauses."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(module, "PAUSES_S", (0.0, 0.0))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to come, in a folder that is not there yet."""
    return tmp_path / "cache" / "file.gz"


def fetch(address: str, path: Path) -> None:
    download(address, path, SUM, otherwise="pray")


def test_a_file_comes_whole_and_is_readable_by_all(
    server: Server, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fetch(server.address, path)
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["file.gz"]
    assert [each.message for each in caplog.records if each.name.startswith("transformer_cli")] == [
        f"fetching {server.address}"
    ]


def test_a_terminal_shows_a_bar(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    fetch(server.address, path)
    assert "Fetching file.gz:   0%|" in terminal.getvalue()


def test_another_file_than_expected_never_lands(server: Server, path: Path) -> None:
    server.answers = [b"<html>please log in</html>"]
    found = hashlib.sha256(server.answers[0]).hexdigest()  # type: ignore[arg-type]
    message = (
        f"^{server.address}: cannot be fetched into {path.parent}: SHA-256 is {found}, expected {SUM}; "
        "try again later, or pray$"
    )
    with pytest.raises(DownloadError, match=message):
        fetch(server.address, path)
    assert server.n_requests == 1
    assert list(path.parent.iterdir()) == []


def test_a_file_that_is_replaced_stays_until_the_new_one_is_whole(server: Server, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"old")
    server.answers = [b"other"]
    with pytest.raises(DownloadError):
        fetch(server.address, path)
    assert path.read_bytes() == b"old"
    fetch(server.address, path)
    assert path.read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server: Server, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.answers = [503, 429]
    fetch(server.address, path)
    assert path.read_bytes() == CONTENT
    assert caplog.messages == [
        f"{server.address}: HTTP 503 Service Unavailable; trying again",
        f"{server.address}: HTTP 429 Too Many Requests; trying again",
    ]


def test_an_answer_that_breaks_off_is_asked_for_again(
    server: Server, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [Cut(len(CONTENT) - 7), Cut(3)]
    fetch(server.address, path)
    assert path.read_bytes() == CONTENT
    assert caplog.messages == [f"{server.address}: the answer broke off; trying again"] * 2


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([503, 502, 500], "HTTP 500 Internal Server Error"),
        ([Cut(5)] * 3, "the answer broke off"),
        ([Cut(0)] * 3, "Remote end closed connection without response"),
        ([Cut(0, silent=True)] * 3, r"no answer for 0\.1 s"),
        ([Cut(5, silent=True)] * 3, r"no answer for 0\.1 s"),
    ],
    ids=str,
)
def test_three_attempts_are_all_and_leave_nothing(
    server: Server, path: Path, answers: list[int | bytes | Cut], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    server.answers = [*answers]
    with pytest.raises(DownloadError, match=f"{path.parent}: {reason}; try again later, or pray$"):
        fetch(server.address, path)
    assert server.n_requests == 3
    assert list(path.parent.iterdir()) == []


def test_a_file_that_is_not_there_is_asked_for_once(server: Server, path: Path) -> None:
    server.answers = [404]
    with pytest.raises(DownloadError, match="HTTP 404 Not Found; try again later, or pray"):
        fetch(server.address, path)
    assert server.n_requests == 1


def test_a_port_where_nobody_listens(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DownloadError, match=r"cannot be fetched into .*: \[Errno \d+\] Connection refused; try again"):
        fetch(f"http://127.0.0.1:{port}/file.gz", path)


def test_an_unknown_host_is_asked_for_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def no_names(*arguments: Any, **_: Any) -> None:
        asked.append(arguments[0])
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    with pytest.raises(DownloadError, match=r": the host's name is not known here \(Temporary failure in name reso"):
        fetch("https://nowhere.example/file.gz", path)
    assert asked == ["nowhere.example"]


def test_a_folder_that_cannot_be_made(server: Server, path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match=rf"cannot be fetched into {path.parent}: .*File exists"):
        fetch(server.address, path)
    assert server.n_requests == 0


def test_ctrl_c_leaves_nothing(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        assert len(list(path.parent.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("transformer_cli.system.progress.Lines.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(server.address, path)
    assert list(path.parent.iterdir()) == []
