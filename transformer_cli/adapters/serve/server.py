"""The server process: its socket, signals and log. The one owner of uvicorn. Knows no routes and no translation.

Connections without a request are closed here: the socket records accepted connections, and the wrapped application
records their requests. The operating system closes a connection whose client does not read its answer.

nginx in front of it (docs/operating.md) closes idle connections, waits for slow clients and buffers bodies. The server
does the same (see also `Limits.body_timeout_s` and `Limits.all_bodies_bytes`), because many servers run without a
proxy on one machine or in a trusted network, where one broken client must not stop them.
"""

import asyncio
import logging
import math
import os
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_cli.errors import ConfigError
from transformer_cli.system import signals
from transformer_cli.system.progress import LineHandler

BACKLOG = 1024  # connections that wait to be accepted
MAX_CONNECTIONS = 900  # at a time; most systems let a process open 1,024 files
CHECK_INTERVAL_S = 1.0  # between two checks for idle connections
HEADER_TIMEOUT_S = 10  # for a request's header to arrive
READ_BYTES = 1 << 12  # at a time: 700 chunks of one byte, which are parsed at once while other requests wait
KEEP_ALIVE_S = 130  # for an idle connection; longer than a proxy's 60 to 120, which must be the first to close it
READ_TIMEOUT_S = 60.0  # for a client to read more of its answer
SHUTDOWN_TIMEOUT_S = 60  # for running requests, after a signal
LAST_REQUESTS_S = 1.0  # after a signal, in which open connections may still bring a request

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Connection:
    accepted: socket.socket
    deadline: float
    """when its next request must have arrived; infinite while a request is answered"""


class _AcceptedSocket(socket.socket):
    def recv(self, size: int, flags: int = 0, /) -> bytes:
        return super().recv(min(size, READ_BYTES), flags)


class ListeningSocket(socket.socket):
    """A socket that records the connections that asyncio accepts."""

    def __init__(self, *arguments: int) -> None:
        super().__init__(*arguments)
        self.connections: dict[Any, _Connection] = {}
        """by the client's host and port; some are closed"""

    def accept(self) -> tuple[socket.socket, Any]:
        plain, client = super().accept()
        accepted = _AcceptedSocket(fileno=plain.detach())
        self.connections[client[:2]] = _Connection(accepted, monotonic() + HEADER_TIMEOUT_S)
        return accepted, client


def bind(host: str, port: int) -> ListeningSocket:
    """Returns a socket that is bound to an address but not listening. port: 0 for any free one. Raises ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_error:
            bound = on_error.enter_context(ListeningSocket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            on_error.pop_all()
        return bound
    except (OSError, UnicodeError) as error:
        what = f"--host {host} --port {port}: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(f"{what}; choose another port or address of this machine") from None


def url_of(bound: socket.socket) -> str:
    """Returns the URL of the server on this socket."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def notify_systemd() -> None:
    """Tell systemd that the server is ready, if its unit has Type=notify; see sd_notify(3)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto(b"READY=1", address.replace("@", "\0", 1) if address[0] == "@" else address)


class Server(uvicorn.Server):
    """Serves an ASGI application until a stop signal."""

    def __init__(self, app: ASGIApp, bound: ListeningSocket) -> None:
        self._app = app
        self._bound = bound
        self._signal_number: int | None = None
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(READ_TIMEOUT_S * 1000))
        bound.listen(BACKLOG)  # from now on clients wait instead of being refused
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
                proxy_headers=False,  # the middleware reads them
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
            )
        )

    def run_until_signal(self) -> int | None:
        """Serve until a signal, then finish running requests. Returns the signal's number."""
        for name in ("uvicorn.error", "asyncio"):  # log their errors, but nothing else that they say
            logger = logging.getLogger(name)
            logger.handlers = logging.getLogger("transformer_cli").handlers or [LineHandler()]
            logger.setLevel(logging.ERROR)
            logger.propagate = False
        handler = signals.current_stop_handler()
        with nullcontext() if handler is None else handler.with_listener(self._request_shutdown):
            self.run(sockets=[self._bound])
        return self._signal_number

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `transformer_cli.system.signals`."""
        yield

    async def _track_requests(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application and record when each connection's next request is due."""
        if scope["type"] == "lifespan":
            closing = asyncio.create_task(self._close_idle_connections())
            await self._app(scope, receive, send)
            closing.cancel()
            return
        connection = self._bound.connections.get(scope["client"]) or _Connection(self._bound, 0.0)  # it was reset
        connection.deadline = math.inf

        async def send_and_close(message: Message) -> None:
            if self.should_exit and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, receive, send_and_close)
        finally:
            connection.deadline = monotonic() + KEEP_ALIVE_S + HEADER_TIMEOUT_S

    async def _close_idle_connections(self) -> None:
        """Once a second, close connections without a request in time, and the oldest ones if there are too many."""
        has_warned, connections = False, self._bound.connections
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            for client in [client for client, each in connections.items() if each.accepted.fileno() < 0]:
                del connections[client]
            idle = [each for each in connections.values() if each.deadline < math.inf]
            idle.sort(key=lambda each: each.deadline)
            n_late = sum(each.deadline < monotonic() for each in idle)
            for each in idle[: max(n_late, len(connections) - MAX_CONNECTIONS)]:
                with suppress(OSError):  # the client is gone
                    each.accepted.shutdown(socket.SHUT_RDWR)  # asyncio then closes it
                if not has_warned:
                    log.warning("connections without a request are closed after %d seconds", HEADER_TIMEOUT_S)
                    has_warned = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections that wait, and no more; answer their requests; end when the running ones are done.

        A client that keeps its connection may be sending a request when the signal comes. So connections stay open for
        a moment, and close after their next answer.
        """
        deadline, n_quiet_turns = monotonic() + LAST_REQUESTS_S, 0
        self._bound.listen(0)  # no more may wait
        while n_quiet_turns < 3 and monotonic() < deadline:  # asyncio needs two turns for a connection
            n_quiet_turns = 0 if select.select([self._bound], [], [], 0)[0] else n_quiet_turns + 1
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        while monotonic() < deadline and self.server_state.connections:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def _request_shutdown(self, signal_number: int) -> None:
        """Begin to shut down, and let every answer from now on close its connection."""
        self._signal_number = signal_number
        self.should_exit = True
