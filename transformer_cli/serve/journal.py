"""One line in the log for each request, without its text; and an answer where something failed that nobody foresaw."""

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

from transformer_cli.system import reports

LONGEST = 100  # characters of an address in the log

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)


class Journal:
    """Wraps an ASGI application."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._reported: set[tuple[type[Exception], int]] = set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        started = monotonic()

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:
            self._report(error)
            if not status:
                await _send_apology(noting)
        finally:
            milliseconds = (monotonic() - started) * 1000
            log.info("%s %s %d %.0f ms", scope["method"], scope["path"][:LONGEST], status, milliseconds)

    def _report(self, error: Exception) -> None:
        """Write a report, once for each kind and place of an error: a client may repeat it a thousand times."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = (type(error), trace.tb_lineno if trace else 0)
        if where not in self._reported:
            self._reported.add(where)
            log.error("%s", reports.tell(error))


async def _send_apology(send: Send) -> None:
    body = json.dumps({"error": "an error that nobody foresaw; the server's log names a file that describes it"})
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
