"""The server's addresses: LibreTranslate's API, looking inside, health and the page. Knows no sockets and no signals.

What is wrong with a request is an answer {"error": "…"}: 400 for what is asked, 403 for a wrong key, 408 and 413 for a
body that is too slow or too long, 503 if too much is waiting.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response

from transformer_cli.errors import MemoryShortage, TfmError
from transformer_cli.serve import answers, description, looks
from transformer_cli.serve.directions import Directions
from transformer_cli.serve.journal import Journal
from transformer_cli.serve.limits import Limits
from transformer_cli.serve.parameters import GONE, read_parameters, text_of
from transformer_cli.serve.workers import Busy, Workers
from transformer_cli.translator import Translator

PAGE = Path(__file__).with_name("page.html")
RETRY_SECONDS = 1
PAGE_HEADERS = {  # the page loads nothing from elsewhere, and no other page may show it as a part of itself
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """What the addresses share; each finds it as `request.app.state.service`."""

    directions: Directions
    workers: Workers
    limits: Limits
    api_key: str | None
    log_text: bool


def create_app(
    translators: Sequence[Translator],
    *,
    n_workers: int = 1,
    api_key: str | None = None,
    cors_origins: Sequence[str] = (),
    limits: Limits = Limits(),
    log_text: bool = False,
) -> FastAPI:
    """Returns the ASGI application. Its workers start and end with it (its lifespan).

    translators: one for each direction, made with batches_at_a_time=1, as the workers translate side by side already.
    n_workers: how many batches are translated at a time.
    api_key: what requests that compute have to bring (None: nothing). cors_origins: the pages of other servers whose
    scripts may read answers, such as https://example.org, or * for all. Raises ConfigError.
    """
    service = Service(Directions(translators), Workers(n_workers, limits), limits, api_key, log_text)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.workers.start()
        yield
        await asyncio.to_thread(service.workers.close)

    app = FastAPI(title="tfm", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service  # no docs_url, redoc_url: those pages load from elsewhere
    app.add_middleware(Journal)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    for status in (400, 403, 404, 405, 408, 413, GONE, 503):  # by number: the router raises a class of its own
        app.add_exception_handler(status, _refused)
    _add_addresses(app)
    return app


def _add_addresses(app: FastAPI) -> None:
    for path, function, described in (
        ("/health", health, description.got(description.HEALTH)),
        ("/languages", languages, description.got(description.LANGUAGES)),
        ("/translate", translate, description.TRANSLATE),
        ("/inspect", inspect, description.INSPECT),
        ("/inspect/steps", steps, description.STEPS),
        ("/inspect/attention", attention, description.ATTENTION),
        ("/inspect/vectors", vectors, description.VECTORS),
    ):
        method = "POST" if "requestBody" in described else "GET"
        app.add_api_route(path, function, methods=[method], openapi_extra=described)
        if method == "GET":
            app.add_api_route(path, function, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/", page, methods=["GET", "HEAD"], include_in_schema=False)


async def page() -> Response:
    """The page for people."""
    return Response(PAGE.read_bytes(), media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


async def health() -> Response:
    """Whether the server answers."""
    return JSONResponse({"status": "ok"})


async def languages(request: Request) -> Response:
    """The languages, and into which ones each is translated."""
    return JSONResponse(service_of(request).directions.languages())


async def translate(request: Request) -> Response:
    """Translate a text or a list of texts, line by line."""
    service = service_of(request)
    parameters = await allowed_parameters(request)
    asked = answers.read_translate(parameters, service.directions, service.limits)
    with refusing_when_busy():
        future = service.workers.translate(asked.chosen.translator, asked.lines, asked.options, asked.settings)
    translations = await computed(request, future)
    if service.log_text:
        for translation in translations:
            log.info("%s→%s: %s → %s", asked.chosen.source, asked.chosen.target, translation.source, translation.text)
    return JSONResponse(asked.answer(translations))


async def inspect(request: Request) -> Response:
    """Look into the translation of a sentence: what `tfm inspect --json` prints."""
    return await looked(request, answers.read_inspect)


async def steps(request: Request) -> Response:
    """Translate a sentence, perhaps from given tokens on, and tell the likeliest candidates at each step."""
    return await looked(request, looks.read_steps)


async def attention(request: Request) -> Response:
    """Tell what one head attends to, or all heads of a layer together."""
    return await looked(request, looks.read_attention)


async def vectors(request: Request) -> Response:
    """Place the vectors of a sentence in the plane, before and after the encoder."""
    return await looked(request, looks.read_vectors)


async def looked(request: Request, read: Callable[[Mapping[str, Any], Directions, Limits], looks.Look]) -> Response:
    """Returns the JSON of a function that a worker calls. read: parameters → that function."""
    service = service_of(request)
    parameters = await allowed_parameters(request)
    look = read(parameters, service.directions, service.limits)
    with refusing_when_busy():
        future = service.workers.call(look)
    return Response(await computed(request, future), media_type="application/json")


def service_of(request: Request) -> Service:
    """Returns what the addresses share."""
    found: Service = request.app.state.service
    return found


async def allowed_parameters(request: Request) -> Mapping[str, Any]:
    """Returns a request's parameters, once it has shown the key, if the server has one. Raises HTTPException."""
    service = service_of(request)
    parameters = await read_parameters(request, service.limits)
    if service.api_key is not None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if kind.lower() == "bearer" else ""
        given = bearer.encode("latin-1") or text_of(parameters, "api_key", "").encode()
        if not given:
            raise HTTPException(400, "Please contact the server operator to get an API key")
        if not hmac.compare_digest(given, service.api_key.encode()):  # in a time that does not tell how far
            raise HTTPException(403, "Invalid API key")
    return parameters


@contextmanager
def refusing_when_busy() -> Iterator[None]:
    """What the workers do not accept during the block is refused: the client may try again later."""
    try:
        yield
    except Busy:
        why = "too much is waiting to be translated; try again later"
        raise HTTPException(503, why, {"Retry-After": str(RETRY_SECONDS)}) from None


async def computed(request: Request, future: "Future[Result]") -> Result:
    """Returns what workers find. If the client goes before that, the future is cancelled: nobody would read it.

    Raises HTTPException for what the workers refuse.
    """
    result = asyncio.wrap_future(future)
    leaving = asyncio.ensure_future(_client_has_gone(request))
    both: set[asyncio.Future[Any]] = {result, leaving}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise HTTPException(GONE)
        return result.result()
    except MemoryShortage as error:
        raise HTTPException(503, str(error), {"Retry-After": str(RETRY_SECONDS)}) from None
    except TfmError as error:
        raise HTTPException(400, str(error)) from None
    finally:
        leaving.cancel()
        result.cancel()


async def _client_has_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refused(_: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
