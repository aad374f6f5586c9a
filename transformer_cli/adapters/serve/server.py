"""The process that serves: its socket, its signals, its log. The one owner of uvicorn, by its public options.

A connection on which no request comes is closed here: the socket notes whom it accepts, and the application is wrapped
to note who asks. The system itself ends a connection whose client reads no answer. Knows no addresses and no
translation.

nginx, as docs/operating.md has it, would take over: closing idle connections, waiting for slow senders and readers,
and holding bodies until they are whole (Limits.body_timeout_s, Limits.bodies). All of that stands here anyway, because
many servers run without a proxy, on one machine or in a trusted network, where one broken client must not stop them.
"""

import asyncio
import logging
import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from time import monotonic
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from transformer_cli.adapters.serve.middleware import log_limiter
from transformer_cli.errors import ConfigError
from transformer_cli.system import signals
from transformer_cli.system.progress import LineHandler

BACKLOG = 1024  # connections that wait until they are accepted
MAX_CONNECTIONS = 900  # at a time; most systems let a process open 1,024 files
CHECK_INTERVAL_S = 1.0  # between two inspections at connections
HEADER_TIMEOUT_S = 10  # until the head of a request has come
RECEIVE_BUFFER_BYTES = (
    1 << 15
)  # bytes that a client may send ahead: what comes in one go is parsed in one go, and others wait
KEEP_ALIVE_S = 30  # for an idle connection
READ_TIMEOUT_S = 60.0  # for a client to read more of an answer
SHUTDOWN_TIMEOUT_S = 60  # for what runs when a signal arrives
MAX_QUEUED_LOG_LINES = 10_000  # that wait to be written: more than all requests together may have (Limits.waiting)

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Connection:
    accepted: socket.socket
    deadline: float
    """until when its next request must have come; infinite while one is answered"""


class ListeningSocket(socket.socket):
    """A socket that notes the connections that asyncio accepts by it."""

    def __init__(self, *arguments: int) -> None:
        super().__init__(*arguments)
        self.connections: dict[Any, _Connection] = {}
        """by their clients' host and port; some are closed"""

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, client = super().accept()
        self.connections[client[:2]] = _Connection(accepted, monotonic() + HEADER_TIMEOUT_S)
        return accepted, client


def bind(host: str, port: int) -> ListeningSocket:
    """Returns a socket that is bound to an address but does not accept connections yet. Raises ConfigError.

    port: 0 lets the system choose one.
    """
    where = f"--host {host} --port {port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as until_bound:
            found = until_bound.enter_context(ListeningSocket(family, kind, protocol))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            found.bind(address)
            until_bound.pop_all()
        return found
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{where}: {reason}; choose another port or address of this machine") from None


def url_of(bound: socket.socket) -> str:
    """Returns the address of the server that will listen there."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def notify_systemd() -> None:
    """Tell systemd that the server is ready, if it has started it with Type=notify; see sd_notify(3)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto(b"READY=1", address.replace("@", "\0", 1) if address[0] == "@" else address)


class Server(uvicorn.Server):
    """Serves an ASGI application until a signal tells it to stop."""

    def __init__(self, app: ASGIApp, bound: ListeningSocket) -> None:
        self._app = app
        self._bound = bound
        self._signal_number: int | None = None
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections have it from the socket that accepts them
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(READ_TIMEOUT_S * 1000))
        bound.listen(BACKLOG)  # from now on clients wait, instead of being refused
        super().__init__(
            uvicorn.Config(
                self._track_requests,
                interface="asgi3",
                http="h11",
                ws="none",
                lifespan="on",
                loop="asyncio",
                backlog=BACKLOG,
                log_config=None,
                proxy_headers=False,  # the gate reads them
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
            )
        )

    def run_until_signal(self) -> int | None:
        """Serve. Returns the signal that ended it, once what was asked before has been answered, or is lost."""
        _limit_library_logs()
        handler = signals.current_stop_handler()
        with nullcontext() if handler is None else handler.with_listener(self._request_shutdown):
            self.run(sockets=[self._bound])
        return self._signal_number

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `transformer_cli.system.signals`."""
        yield

    async def _track_requests(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application; as long as it lives, connections are watched."""
        if scope["type"] == "lifespan":
            watch = asyncio.create_task(self._close_idle_connections())
            await self._app(scope, receive, send)
            watch.cancel()
            return
        connection = self._bound.connections.get(scope["client"]) or _Connection(self._bound, 0.0)  # it was reset
        connection.deadline = math.inf
        try:
            await self._app(scope, receive, send)
        finally:
            connection.deadline = monotonic() + KEEP_ALIVE_S + HEADER_TIMEOUT_S

    async def _close_idle_connections(self) -> None:
        """Once a second, close connections on which no request has come in time; if there are too many, the oldest."""
        may_log, connections = log_limiter(), self._bound.connections
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            for client in [client for client, each in connections.items() if each.accepted.fileno() < 0]:
                del connections[client]
            idle = [each for each in connections.values() if each.deadline < math.inf]
            idle.sort(key=lambda each: each.deadline)
            n_late = sum(each.deadline < monotonic() for each in idle)
            for each in idle[: max(n_late, len(connections) - MAX_CONNECTIONS)]:
                with suppress(OSError):  # the client has gone
                    each.accepted.shutdown(socket.SHUT_RDWR)  # asyncio sees that, and closes it
                if may_log("idle"):
                    log.warning("connections on which no request comes are closed after %d seconds", HEADER_TIMEOUT_S)

    def _request_shutdown(self, signal_number: int) -> None:
        """Accept nothing more, and end when what runs has been answered."""
        self._signal_number = signal_number
        self.should_exit = True


class _BoundedQueueHandler(QueueHandler):
    """Keeps lines for a thread that writes them. If nobody reads them, they are dropped."""

    def enqueue(self, record: logging.LogRecord) -> None:
        assert isinstance(self.queue, SimpleQueue)
        if self.queue.qsize() < MAX_QUEUED_LOG_LINES:
            self.queue.put_nowait(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns the record as it is, with its error: it stays in this process."""
        return record


@contextmanager
def nonblocking_log(seconds: float = 2.0) -> Iterator[None]:
    """During the block nobody waits for the log's reader; at its end, for so many seconds at most."""
    package = logging.getLogger("transformer_cli")
    before, lines = package.handlers, SimpleQueue[logging.LogRecord]()
    listener = QueueListener(lines, *before)
    package.handlers = [_BoundedQueueHandler(lines)]
    listener.start()
    try:
        yield
    finally:
        ending = threading.Thread(target=listener.stop, daemon=True)  # waits until all is written
        ending.start()
        ending.join(seconds)
        handler = signals.current_stop_handler()
        if ending.is_alive() and handler is not None and handler.number is not None:
            os._exit(128 + handler.number)  # the thread holds the log's lock: whoever writes now would wait for ever
        package.handlers = before


def _limit_library_logs() -> None:
    """Let uvicorn and asyncio say only what is wrong with the server, on one line each, and seldom."""
    may_log = log_limiter()

    def is_new(record: logging.LogRecord) -> bool:  # what is wrong here is wrong for each of a thousand clients
        first_line = record.getMessage().partition("\n")[0]  # asyncio names the connection on the others
        return may_log(f"{first_line} {record.exc_info and record.exc_info[0]}")

    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = logging.getLogger("transformer_cli").handlers or [LineHandler()]
        logger.filters = [is_new]
        logger.setLevel(logging.ERROR)
        logger.propagate = False
