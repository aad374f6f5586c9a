"""What every request goes through: whose pages may ask, a line in the log, a count, an answer where something failed.

ASGI middleware, and the counts of `/metrics`: the one owner of prometheus_client. Knows no addresses.
"""

import asyncio
import ipaddress
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from urllib.parse import quote, urlsplit

import prometheus_client as prometheus
import prometheus_client.openmetrics.exposition as openmetrics
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_cli.errors import defect

MAX_LOGGED_CHARS = 100  # characters of an address in the log
REPEAT_AFTER_S = 600.0  # after which a message is written again
MAX_REQUESTS = 900  # at a time
CHUNKED_BODY = "Invalid request: its body comes in chunks; send it with a Content-Length"
TOO_MANY_REQUESTS = "too many ask at once; try again later"
SHUTTING_DOWN = "the server ends before this is answered; try again later"
UNEXPECTED_ERROR = "an error that nobody foresaw; the server's log describes it"

log = logging.getLogger(__name__)


class Metrics:
    """Counts since the server has started, as Prometheus asks for them."""

    def __init__(self, n_waiting_lines: Callable[[], int]) -> None:
        """n_waiting_lines: how many lines wait to be translated."""
        self._registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        labels = ("address", "status")
        self.requests = prometheus.Histogram("tfm_request_seconds", "Requests, by status.", labels, registry=registry)
        self.source_tokens = prometheus.Counter("tfm_source_tokens", "Tokens that were translated.", registry=registry)
        self.reloads = prometheus.Counter("tfm_reloads", "Reloads, by outcome.", ("outcome",), registry=registry)
        waiting = prometheus.Gauge("tfm_waiting_lines", "Lines that wait to be translated.", registry=registry)
        waiting.set_function(n_waiting_lines)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the counts and their type: what a client accepts, else OpenMetrics, which others can read, too."""
        accepted = accept if "text/" in accept else openmetrics.CONTENT_TYPE_LATEST
        write, content_type = prometheus.exposition.choose_encoder(accepted)
        return write(self._registry), content_type


def log_limiter() -> Callable[[str], bool]:
    """Returns a function that tells whether a message may be logged: not again within ten minutes.

    What is wrong may be wrong for each client.
    """
    said: deque[tuple[str, float]] = deque(maxlen=100)

    def may_log(what: str) -> bool:
        since = time.monotonic() - REPEAT_AFTER_S
        if is_new := all(what != other or then <= since for other, then in said.copy()):
            said.append((what, time.monotonic()))
        return is_new

    return may_log


class RequestMiddleware:
    """Refuses what the pages of other sites ask through somebody's browser, and writes a line for each request.

    A browser tells whose page asks (Origin). Where a site has let its own name point at this machine, both have the
    same name, so requests by a name that is not the server's own are refused too; an address of digits is no name. A
    proxy on the same machine may say in headers who asks it, and by which name: pages of other sites cannot add them.
    Starlette's TrustedHostMiddleware would refuse those as well, and does not answer in JSON.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        """hosts: the server's public names, or * for all; localhost is one anyway. origins: pages that may ask."""
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)
        self._n_running = 0
        self._may_log = log_limiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started = 0, time.monotonic()
        self._n_running += 1
        headers = dict(scope["headers"])
        client = (scope.get("client") or ("-",))[0]
        is_proxy = is_local_address(client)
        if is_proxy and (named := headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()):
            client = quote(named[:MAX_LOGGED_CHARS], safe=":[]")
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope  # uvicorn sends no body

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refused = self._refusal(routed, headers, is_proxy)
            if refused and refused.status_code == 411:  # an answer to somebody who still sends may be lost
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(receive(), 1.0)
            await (refused or self._app)(routed, receive, send_and_note)
        except asyncio.CancelledError:  # the server ends
            scope["app"].state.service.n_unanswered += 1
            if not status:
                await JSONResponse({"error": SHUTTING_DOWN}, 503)(scope, receive, send_and_note)
        except Exception as error:
            if self._may_log(f"{type(error)} {traceback.extract_tb(error.__traceback__)[-1]}"):
                log.error("%s", defect(error), exc_info=error)
            if not status:
                await JSONResponse({"error": UNEXPECTED_ERROR}, 500)(scope, receive, send_and_note)
        finally:
            self._n_running -= 1
            now, took = time.strftime("%Y-%m-%d %H:%M:%S"), time.monotonic() - started
            what = f"{scope['method']} {quote(scope['path'][:MAX_LOGGED_CHARS])}"
            log.info("%s %s %s %d %.0f ms", now, client, what, status, took * 1000)
            address = getattr(routed.get("route"), "path", "other")
            scope["app"].state.service.metrics.requests.labels(address, status).observe(took)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes], is_proxy: bool) -> JSONResponse | None:
        """Returns what is wrong: too many ask, in chunks, by which name, or whose page asks; None if nothing is."""
        if self._n_running > MAX_REQUESTS:
            return JSONResponse({"error": TOO_MANY_REQUESTS}, 503, {"Retry-After": "1", "Connection": "close"})
        if b"transfer-encoding" in headers:  # 11,000 chunks of a byte hold uvicorn for a third of a second
            return JSONResponse({"error": CHUNKED_BODY}, 411, {"Connection": "close"})
        host_header = (
            headers.get(b"host", b"localhost").decode("latin-1").lower()
        )  # HTTP/1.0 has none, but all browsers have
        host = _host_name(host_header)
        is_number = ":" in host or host.replace(".", "").isdecimal()  # no name ends in digits alone, or has a colon
        if not ({host, "*"} & self._hosts or host == "localhost" or host.endswith(".localhost") or is_number):
            what = f"{host_header[:MAX_LOGGED_CHARS]!r} is not a name of this server"
            remedy = f"its operator may add --allow-host {host[:MAX_LOGGED_CHARS]}"
            return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 400)
        origin = headers.get(b"origin", b"").decode("latin-1")
        own, port = scope.get("server") or ("", None)
        mine = {host_header, *self._hosts, *(f"{name}:{port}" for name in self._hosts)}
        if is_local_address(own):
            mine |= {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        if is_proxy and (named := headers.get(b"x-forwarded-host")):
            mine.add(named.decode("latin-1").lower())
        if not origin or origin.lower().partition("://")[2] in mine or {origin, "*"} & self._origins:
            return None
        what = f"pages of {origin[:MAX_LOGGED_CHARS]} may not use this server"
        remedy = f"its operator may add --cors-origin {origin[:MAX_LOGGED_CHARS]}"
        return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 403)


def _host_name(host: str) -> str:
    """Returns the name in a host and perhaps a port: tr.example.org:5000 → tr.example.org, [::1]:5000 → ::1."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_local_address(address: str) -> bool:
    """Whether an address is one of this machine that no other can reach."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
