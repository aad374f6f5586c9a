"""ASGI middleware for every request: host and origin checks, the access log, metrics, and answers to failures.

The one owner of prometheus_client. Knows no routes.
"""

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import lru_cache
from urllib.parse import quote

import prometheus_client as prometheus
import prometheus_client.openmetrics.exposition as openmetrics
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_cli.errors import defect

MAX_LOGGED_CHARS = 100  # of a path or a client's name
CHUNKED_BODY = "Invalid request: its body comes in chunks; send it with a Content-Length"
TOO_MANY_REQUESTS = "too many requests at once; try again later"
SHUTTING_DOWN = "the server is shutting down; try again later"
_HOST = re.compile(r"\[([^\]]*)\]|([^:]*)")  # of a header, without its port: [::1]:5000, tr.example.org:5000
UNEXPECTED_ERROR = "an unexpected error; the server's log describes it"

log = logging.getLogger(__name__)


class Metrics:
    """Metrics since the start of the server, for Prometheus."""

    def __init__(self, n_waiting_lines: Callable[[], int]) -> None:
        """n_waiting_lines: returns how many lines are waiting to be translated."""
        self._registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        labels = ("address", "status")
        self.requests = prometheus.Histogram("tfm_request_seconds", "Requests, by status.", labels, registry=registry)
        self.source_tokens = prometheus.Counter("tfm_source_tokens", "Tokens that were translated.", registry=registry)
        self.reloads = prometheus.Counter("tfm_reloads", "Reloads, by outcome.", ("outcome",), registry=registry)
        for outcome in ("done", "failed"):  # from the start, so that the first failure is an increase
            self.reloads.labels(outcome)
        waiting = prometheus.Gauge("tfm_waiting_lines", "Lines that wait to be translated.", registry=registry)
        waiting.set_function(n_waiting_lines)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics and their content type: one that the client accepts, otherwise OpenMetrics."""
        accepted = accept if "text/" in accept else openmetrics.CONTENT_TYPE_LATEST
        write, content_type = prometheus.exposition.choose_encoder(accepted)
        return write(self._registry), content_type


class RequestMiddleware:
    """Refuses requests from other sites' pages, logs and counts each request, and answers if something fails.

    The Origin header names the site of the page that sends a request. A site may have its own name point at this
    machine (DNS rebinding), so a Host that is not a name of this server is refused too; numeric addresses are allowed.
    A proxy on this machine may name its client and its own host in X-Forwarded-For and X-Forwarded-Host, which pages
    cannot set. Starlette's TrustedHostMiddleware refuses numeric addresses, and does not answer in JSON.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], max_requests: int) -> None:
        """hosts: the server's names besides localhost, or * for any. origins: sites whose pages may send requests."""
        self._app = app
        self._max_requests = max_requests
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)
        self._n_running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started = 0, time.monotonic()
        self._n_running += 1
        headers = dict(scope["headers"])
        client = (scope.get("client") or ("-",))[0]
        is_proxy = is_local_address(client)
        if is_proxy and (forwarded := headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()):
            client = quote(forwarded[:MAX_LOGGED_CHARS], safe=":[]")

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refused = self._refusal(scope, headers, is_proxy)
            if refused and refused.status_code == 411:  # a client that is still sending may miss the answer
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(receive(), 1.0)
            await (refused or self._app)(scope, receive, send_and_note)
        except asyncio.CancelledError:  # the server is shutting down
            scope["app"].state.service.n_unanswered += 1
            if not status:
                await JSONResponse({"error": SHUTTING_DOWN}, 503)(scope, receive, send_and_note)
        except Exception as error:
            log.error("%s", defect(error), exc_info=error)
            if not status:
                await JSONResponse({"error": UNEXPECTED_ERROR}, 500)(scope, receive, send_and_note)
        finally:
            self._n_running -= 1
            now, took = time.strftime("%Y-%m-%d %H:%M:%S"), time.monotonic() - started
            path = scope["app"].state.paths.get(scope.get("endpoint"), "other")
            shown = path if "{" in path else quote(scope["path"][:MAX_LOGGED_CHARS])  # the name of a document is secret
            log.info("%s %s %s %s %d %.0f ms", now, client, scope["method"], shown, status, took * 1000)
            scope["app"].state.service.metrics.requests.labels(path, status).observe(took)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes], is_proxy: bool) -> JSONResponse | None:
        """Returns the refusal of a request: too many are running, or its path or headers are wrong; None: accepted."""
        if self._n_running > self._max_requests:
            return JSONResponse({"error": TOO_MANY_REQUESTS}, 503, {"Retry-After": "1", "Connection": "close"})
        if not scope["path"].isprintable():  # Starlette takes "/metrics\n" for /metrics; a proxy's rule may not
            return JSONResponse({"error": "Not Found"}, 404)
        if b"transfer-encoding" in headers:  # 11,000 chunks of one byte block uvicorn for a third of a second
            return JSONResponse({"error": CHUNKED_BODY}, 411, {"Connection": "close"})
        host_header = headers.get(b"host", b"localhost").decode("latin-1").lower()  # all browsers send one
        in_brackets, name = _HOST.match(host_header).groups(default="")  # type: ignore[union-attr]
        host = in_brackets or name.rstrip(".")
        is_number = ":" in host or host.replace(".", "").isdecimal()  # host names have letters and no colon
        if not ({host, "*"} & self._hosts or host == "localhost" or host.endswith(".localhost") or is_number):
            what = f"{host_header[:MAX_LOGGED_CHARS]!r} is not a name of this server"
            remedy = f"its operator may add --allow-host {host[:MAX_LOGGED_CHARS]}"
            return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 400)
        origin = headers.get(b"origin", b"").decode("latin-1")
        address, port = scope.get("server") or ("", None)
        own_hosts = {host_header, *self._hosts, *(f"{name}:{port}" for name in self._hosts)}
        if is_local_address(address):
            own_hosts |= {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        if is_proxy and (forwarded := headers.get(b"x-forwarded-host")):
            own_hosts.add(forwarded.decode("latin-1").lower())
        if not origin or origin.lower().partition("://")[2] in own_hosts or {origin, "*"} & self._origins:
            return None
        what = f"pages of {origin[:MAX_LOGGED_CHARS]} may not use this server"
        remedy = f"its operator may add --cors-origin {origin[:MAX_LOGGED_CHARS]}"
        return JSONResponse({"error": f"Invalid request: {what}; {remedy}"}, 403)


@lru_cache(1000)
def is_local_address(address: str) -> bool:
    """Whether an address is a loopback address, which other machines cannot reach."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
