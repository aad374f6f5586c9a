"""The process that serves: its socket, its signals and what it does about clients that are slow or speak no HTTP.

The one owner of uvicorn. Knows no addresses and no translation.
"""

import asyncio
import ipaddress
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer_cli.errors import ConfigError
from transformer_cli.system import signals
from transformer_cli.system.progress import LineHandler

BACKLOG = 1024  # connections that wait until they are accepted
HEAD_SECONDS = 10.0  # for the head of a request, from its first byte or from when the client has connected
KEEP_SECONDS = 75  # for an idle connection, as nginx keeps it: a client may be about to ask just when it is closed
READ_SECONDS = 60.0  # for a client to read an answer
ENDING_SECONDS = 60  # for what runs when a signal arrives

log = logging.getLogger(__name__)


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address but does not accept connections yet. Raises ConfigError.

    port: 0 lets the system choose one.
    """
    where = f"--host {host} --port {port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{where}: {reason}; give an address of this machine, such as 127.0.0.1") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise ConfigError(f"{where}: {error.strerror or error}; choose another port or address") from None
    return found


def url_of(bound: socket.socket) -> str:
    """Returns the address of the server that will listen there."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_local(bound: socket.socket) -> bool:
    """Whether only this machine can reach the server."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


class Server(uvicorn.Server):
    """Serves an ASGI application until it is told to stop."""

    signal_number: int | None = None
    """the signal that told it so"""

    def __init__(self, app: Any, bound: socket.socket) -> None:
        self._bound = bound
        bound.listen(BACKLOG)  # from now on clients wait, instead of being refused
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="on",
                loop="asyncio",
                backlog=BACKLOG,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_SECONDS,
                timeout_graceful_shutdown=ENDING_SECONDS,
            )
        )

    def run_until_signal(self) -> int | None:
        """Serve. Returns the signal that ended it, once all that was asked before has been answered."""
        _quiet()
        watch = signals.current_watch()
        with nullcontext() if watch is None else watch.listening(_Stop(self)):
            self.run(sockets=[self._bound])
        return self.signal_number

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `transformer_cli.system.signals`."""
        yield


class _Stop:
    """What becomes of a signal while a server runs. See `signals.Listener`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def signal_number(self) -> int | None:
        """The first signal; from then on the server accepts nothing more, and ends."""
        return self._server.signal_number

    @signal_number.setter
    def signal_number(self, number: int | None) -> None:
        self._server.signal_number = number
        self._server.should_exit = True

    def rescue(self) -> str | None:
        """Wait: what runs will be answered."""
        return None

    def last_words(self) -> str:
        """Returns what is said at a second signal."""
        return "stopped at once by a second signal; some requests have no answer"


class _Protocol(H11Protocol):
    """HTTP/1.1 that answers in JSON even to what is not HTTP, and does not wait for ever."""

    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Read what has come, and wait only for a while for the rest of a head, or of a body that nobody wants."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._unwatch_head()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Go on to the next request; drop a client that does not read this answer."""
        super().on_response_complete()
        if self._unread_timer is not None:
            self._unread_timer.cancel()  # it was for an earlier answer
        if self.transport.get_write_buffer_size():
            self._unread_timer = self.loop.call_later(READ_SECONDS, self._drop_unread)

    def send_400_response(self, msg: str) -> None:
        """Answer to what is not HTTP."""
        body = json.dumps({"error": f"Invalid request: {msg}"}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        with suppress(h11.LocalProtocolError):  # an answer has begun already
            answer: list[Any] = [h11.Response(status_code=400, headers=headers), h11.Data(data=body)]
            for event in (*answer, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch_head(self) -> None:
        is_idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]  # between two requests
        if self.cycle is not None and (is_idle or not self.cycle.response_complete):
            self._unwatch_head()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _unwatch_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _drop_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def _quiet() -> None:
    """Let uvicorn and asyncio say only what is wrong with the server, on one line each."""
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what is wrong with a form is in its answer
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [LineHandler()]
        logger.setLevel(logging.ERROR)
        logger.propagate = False
