"""A server that runs in a thread of this process, and requests to it."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from transformer_cli import Translator
from transformer_cli.adapters.serve.app import create_app
from transformer_cli.adapters.serve.job_queue import JobQueue
from transformer_cli.adapters.serve.server import Server, bind, url_of

JSON = {"Content-Type": "application/json"}
PATIENCE_S = 600.0  # for what a busy machine may do slowly


@dataclass(frozen=True)
class Answer:
    """What came back: the body is JSON, or the text if it is not."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    url: str
    server: Server
    queue: JobQueue

    def connect(self) -> socket.socket:
        """A new connection."""
        where = urlsplit(self.url)
        return socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S)

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """GET, or POST if there is a body. Header names have _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.url}{path}", data=body, headers=named)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return _answer(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read(), error.headers)

    def post(self, path: str, **parameters: Any) -> Answer:
        """POST parameters as JSON."""
        return self.ask(path, json.dumps(parameters).encode(), **JSON)

    def post_form(self, path: str, **parameters: Any) -> Answer:
        """POST parameters as a form."""
        return self.ask(path, urlencode(parameters, doseq=True).encode())


@contextmanager
def running(*translators: Translator, **options: Any) -> Iterator[Running]:
    """Serve translators in a thread during the block; options as `create_app` takes them."""
    bound = bind("127.0.0.1", 0)
    app = create_app(translators, **options)
    server = Server(app, bound)
    thread = threading.Thread(target=server.run_until_signal)
    thread.start()
    try:
        yield Running(url_of(bound), server, app.state.service.queue)
    finally:
        server.should_exit = True
        thread.join()


def _answer(status: int, body: bytes, headers: Any) -> Answer:
    text = body.decode()
    is_json = headers.get("content-type") == "application/json"
    named = {name.lower(): value for name, value in headers.items()}
    return Answer(status, json.loads(text) if is_json else text, named)
