"""The process that serves: its socket, its signals, its log, and what it does about clients that are slow or too many.

The one owner of uvicorn, which has no time limit for the head of a request and no bound on idle connections. Knows no
addresses and no translation.
"""

import asyncio
import ipaddress
import logging
import os
import resource
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer_cli.errors import ConfigError
from transformer_cli.serve.gate import Seldom
from transformer_cli.system import signals
from transformer_cli.system.progress import LineHandler

BACKLOG = 1024  # connections that wait until they are accepted
ACCEPTED = 4  # of them at a time: asyncio takes no notice of a bound before it has accepted so many
MOST_CONNECTIONS = 4096
SPARE_FILES = 20  # for all but connections, and for connections that are being closed
HEAD_SECONDS = 10.0  # for the head of a request, from its first byte or from when the client has connected
KEEP_SECONDS = 30  # for an idle connection
READ_SECONDS = 60.0  # for a client to read an answer
ENDING_SECONDS = 60  # for what runs when a signal arrives
LOG_LINES = 10_000  # that wait to be written: more than all requests together may have (Limits.waiting)
LOG_SECONDS = 0.1  # between two looks whether some wait


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address but does not accept connections yet. Raises ConfigError.

    port: 0 lets the system choose one.
    """
    where = f"--host {host} --port {port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as until_bound:
            found = until_bound.enter_context(socket.socket(family, kind, protocol))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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


def is_local(bound: socket.socket) -> bool:
    """Whether only this machine can reach the server."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


class Server(uvicorn.Server):
    """Serves an ASGI application until a signal tells it to stop."""

    def __init__(self, app: Any, bound: socket.socket) -> None:
        """app: what `create_app` returns."""
        self._bound = bound
        self._signal_number: int | None = None
        bound.listen(BACKLOG)  # from now on clients wait, instead of being refused
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(_Protocol, _most_connections()),  # type: ignore[arg-type]  # it is only called
                ws="none",
                lifespan="on",
                loop="asyncio",
                backlog=ACCEPTED,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_SECONDS,
                timeout_graceful_shutdown=ENDING_SECONDS,
            )
        )

    def run_until_signal(self) -> int | None:
        """Serve. Returns the signal that ended it, once what was asked before has been answered, or is lost."""
        _quiet()
        watch = signals.current_watch()
        with nullcontext() if watch is None else watch.telling(self._end):
            self.run(sockets=[self._bound])
        return self._signal_number

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets)
        self._bound.listen(BACKLOG)  # asyncio lets no more wait than it accepts at a time

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `transformer_cli.system.signals`."""
        yield

    def _end(self, signal_number: int) -> None:
        """Accept nothing more, and end when what runs has been answered."""
        self._signal_number = signal_number
        self.should_exit = True


class _Protocol(H11Protocol):
    """HTTP/1.1 that does not wait for ever, and has not too many clients."""

    _idle_since: float

    def __init__(self, most: int, *arguments: Any, **named: Any) -> None:
        """most: how many connections there may be."""
        super().__init__(*arguments, **named)
        self._most = most
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request. If there are too many connections, close the one that has been idle longest."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that the unread timer runs for every byte that is not read
        self._idle_since = self.loop.time()
        living: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        if len(living) > self._most:
            idle = [each for each in living if each.is_idle]  # at least this one
            min(idle, key=lambda each: each._idle_since).transport.abort()
        self._watch_head()

    @property
    def is_idle(self) -> bool:
        """Whether no answer is owed: there is no whole request."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Read what has come, and wait only for a while for the rest of a head, or of a body that nobody wants."""
        super().data_received(data)
        self._watch_head()

    def _watch_head(self) -> None:
        is_between = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]  # between two requests
        if self.cycle is not None and (is_between or not self.cycle.response_complete):
            self._unwatch("head")
        elif "head" not in self._timers:
            self._timers["head"] = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _unwatch(self, what: str) -> None:
        if (timer := self._timers.pop(what, None)) is not None:
            timer.cancel()

    def pause_writing(self) -> None:
        """Drop a client that does not read its answer."""
        super().pause_writing()
        self._timers["answer"] = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        self._unwatch("answer")
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._unwatch("head")
        self._unwatch("answer")
        super().connection_lost(exc)


def _most_connections() -> int:
    """Returns how many connections the process may have, by the files that it may open and has open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, most - len(os.listdir("/dev/fd")) - SPARE_FILES))


class Waiting(logging.Handler):
    """Keeps lines for a thread that writes them. If nobody reads them, they are dropped."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        super().__init__()
        self._handlers = handlers
        self._records: deque[logging.LogRecord] = deque()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line until it can be written."""
        if len(self._records) < LOG_LINES:
            self._records.append(record)

    def finish(self, seconds: float) -> bool:
        """Wait for a while until all is written. Returns whether it is."""
        self._is_over.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _write(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_over.wait(LOG_SECONDS)  # a thread that wakes for each line would slow the server down
            while self._records:
                record = self._records.popleft()
                for handler in self._handlers:
                    handler.handle(record)


@contextmanager
def log_that_never_waits(seconds: float = 2.0) -> Iterator[None]:
    """During the block nobody waits for the log's reader; at its end, for so many seconds at most."""
    package = logging.getLogger("transformer_cli")
    before = package.handlers
    waiting = Waiting(before)
    package.handlers = [waiting]
    try:
        yield
    finally:
        watch = signals.current_watch()
        if not waiting.finish(seconds) and watch is not None and watch.number is not None:
            os._exit(128 + watch.number)  # the thread holds the log's lock: whoever writes now would wait for ever
        package.handlers = before


def _quiet() -> None:
    """Let uvicorn and asyncio say only what is wrong with the server, on one line each, and seldom."""
    may_say = Seldom()

    def is_new(record: logging.LogRecord) -> bool:  # what is wrong here is wrong for each of a thousand clients
        first_line = record.getMessage().partition("\n")[0]  # asyncio names the connection on the others
        return may_say(f"{first_line} {record.exc_info and record.exc_info[0]}")

    for name in ("python_multipart", "python_multipart.multipart"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what is wrong with a form is in its answer
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = logging.getLogger("transformer_cli").handlers or [LineHandler()]
        logger.filters = [is_new]
        logger.setLevel(logging.ERROR)
        logger.propagate = False
