"""What every request goes through: whose pages may ask, a line in the log, a count, an answer where something failed.

ASGI middleware. Knows no addresses.
"""

import asyncio
import logging
import time
import traceback
from collections import deque
from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_cli.errors import defect

LONGEST = 100  # characters of an address in the log
SELDOM_SECONDS = 600.0  # after which a message is written again
ENDING = "the server ends before this is answered; try again later"
APOLOGY = "an error that nobody foresaw; the server's log describes it"

log = logging.getLogger(__name__)


class Seldom:
    """Tells what may be said: not again within ten minutes, because what is wrong may be wrong for each client."""

    def __init__(self) -> None:
        self._said: deque[tuple[str, float]] = deque(maxlen=100)

    def __call__(self, what: str) -> bool:
        """Whether this may be said, which is noted."""
        since = time.monotonic() - SELDOM_SECONDS
        if is_new := all(what != other or then <= since for other, then in self._said.copy()):
            self._said.append((what, time.monotonic()))
        return is_new


class Gate:
    """Refuses what the pages of other sites ask through somebody's browser, and writes a line for each request.

    A browser tells whose page asks (Origin). Where a site has let its own name point at this machine, both have the
    same name, so requests by a name that is not the server's own are refused too; an address of digits is no name.
    Starlette's TrustedHostMiddleware would refuse those as well, and does not answer in JSON.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        """hosts: the server's public names, or * for all; localhost is one anyway. origins: pages that may ask."""
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)
        self._may_say = Seldom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started = 0, time.monotonic()

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await (self._refused(dict(scope["headers"])) or self._app)(scope, receive, noting)
        except asyncio.CancelledError:  # the server ends
            scope["app"].state.service.n_lost += 1
            if not status:
                await JSONResponse({"error": ENDING}, 503)(scope, receive, noting)
        except Exception as error:
            if self._may_say(f"{type(error)} {traceback.extract_tb(error.__traceback__)[-1]}"):
                log.error("%s", defect(error), exc_info=error)
            if not status:
                await JSONResponse({"error": APOLOGY}, 500)(scope, receive, noting)
        finally:
            now, client = time.strftime("%Y-%m-%d %H:%M:%S"), (scope.get("client") or ("-",))[0]
            what, took = f"{scope['method']} {scope['path'][:LONGEST]}", time.monotonic() - started
            log.info("%s %s %s %d %.0f ms", now, client, what, status, took * 1000)
            address = getattr(scope.get("route"), "path", "other")
            scope["app"].state.service.metrics.requests.labels(address, status).observe(took)

    def _refused(self, headers: dict[bytes, bytes]) -> JSONResponse | None:
        """Returns what is wrong with whose page asks, or by which name; None if nothing is."""
        asked = headers.get(b"host", b"localhost").decode("latin-1").lower()  # HTTP/1.0 has none, but all browsers have
        host = _name(asked)
        is_number = ":" in host or host.replace(".", "").isdecimal()  # no name ends in digits alone, or has a colon
        if not ({host, "*"} & self._hosts or host == "localhost" or host.endswith(".localhost") or is_number):
            what = f"{asked[:LONGEST]!r} is not a name of this server"
            remedy = f"its operator may add --allow-host {host[:LONGEST]}"
            return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 400)
        origin = headers.get(b"origin", b"").decode("latin-1")
        address = origin.lower().partition("://")[2]
        is_own = address == asked or _name(address) in self._hosts  # a proxy asks by another name than its clients
        if not origin or is_own or {origin, "*"} & self._origins:
            return None
        what = f"pages of {origin[:LONGEST]} may not use this server"
        remedy = f"its operator may add --cors-origin {origin[:LONGEST]}"
        return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 403)


def _name(host: str) -> str:
    """Returns the name in a host and perhaps a port: tr.example.org:5000 → tr.example.org, [::1]:5000 → ::1."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
