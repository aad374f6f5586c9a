"""The server's addresses: LibreTranslate's API, looking inside, health and the page. Knows no sockets and no signals.

What is wrong with a request is an answer {"error": "…"}: 400 for what is asked, 403 for a wrong key or another site's
page, 408 and 413 for a body that is too slow or too long, 503 if too much is waiting.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response

from transformer_cli.errors import MemoryShortage, TfmError
from transformer_cli.serve import answers
from transformer_cli.serve.gate import Guard, Journal, Receive, Send
from transformer_cli.serve.languages import Directions
from transformer_cli.serve.questions import (
    GONE,
    Asked,
    AttentionQuestion,
    DetectQuestion,
    Limits,
    Question,
    SentenceQuestion,
    TranslateQuestion,
    form_of,
    read,
)
from transformer_cli.serve.workers import Busy, Ending, Workers
from transformer_cli.translator import Translator

PAGE = Path(__file__).with_name("page.html")
RETRY = {"Retry-After": "1"}
PIECE = 1 << 16  # bytes of a long answer that are written at a time
PAGE_HEADERS = {  # the page loads nothing from elsewhere, and no other page may show it as a part of itself
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.Failure, "description": why}
    for status, why in (
        (400, "What is asked is wrong, or there is no key."),
        (403, "The key is wrong, or the page of another site asks."),
        (408, "The body did not come in time."),
        (413, "The body is too long."),
        (503, "Too much is waiting; try again after the seconds of Retry-After."),
    )
}

Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass
class Service:
    """What the addresses share; each finds it as `request.app.state.service`."""

    directions: Directions
    workers: Workers
    limits: Limits
    api_key: str | None
    log_text: bool
    n_looks: int = 0
    """sentences that are looked into, and answers about them that have not been read"""
    is_giving_up: bool = False
    n_lost: int = 0
    """requests without a proper answer, because the server had to end"""

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Hold one of the few places for long answers during the block. Raises Busy."""
        if self.n_looks >= self.limits.looks:
            raise Busy
        self.n_looks += 1
        try:
            yield
        finally:
            self.n_looks -= 1

    def give_up(self) -> None:
        """Compute nothing more: who still waits is told so."""
        self.is_giving_up = True
        self.workers.abandon()

    def note_end(self, status: int) -> None:
        """Count an answer that is none."""
        self.n_lost += self.is_giving_up and (status == 0 or status >= 500)


def create_app(
    translators: Sequence[Translator],
    *,
    n_workers: int = 1,
    api_key: str | None = None,
    hosts: Collection[str] = (),
    cors_origins: Sequence[str] = (),
    limits: Limits = Limits(),
    log_text: bool = False,
) -> FastAPI:
    """Returns the ASGI application. Its workers start and end with it (its lifespan).

    translators: one for each direction, made with batches_at_a_time=1, as the workers translate side by side already.
    n_workers: how many batches are translated at a time. api_key: what requests that compute have to bring (None:
    nothing). hosts: names that clients may call the server by, or * for all; localhost and addresses of digits need not
    be named. cors_origins: the pages of other servers that may ask, such as https://example.org, or * for all. Raises
    ConfigError.
    """
    service = Service(Directions(translators), Workers(n_workers, limits), limits, api_key, log_text)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.workers.start()
        yield
        await asyncio.to_thread(service.workers.close)

    app = FastAPI(title="tfm", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service  # no docs_url, redoc_url: those pages load from elsewhere
    app.add_middleware(Guard, hosts=hosts, origins=cors_origins)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Journal, ended=service.note_end)
    for status in (400, 403, 404, 405, 408, 413, GONE, 503):  # by number: the router raises a class of its own
        app.add_exception_handler(status, _refused)
    for path, got in (("/health", health), ("/languages", languages)):
        app.add_api_route(path, got, response_class=JSONResponse)
        app.add_api_route(path, got, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/", page, methods=["GET", "HEAD"], include_in_schema=False)
    posted: tuple[tuple[str, Any, type[Question], Any], ...] = (
        ("/translate", translate, TranslateQuestion, answers.Translated),
        ("/detect", detect, DetectQuestion, list[answers.Detected]),
        ("/inspect", inspect, AttentionQuestion, dict[str, Any]),
        ("/inspect/steps", steps, SentenceQuestion, dict[str, Any]),
        ("/inspect/attention", attention, AttentionQuestion, dict[str, Any]),
        ("/inspect/vectors", vectors, SentenceQuestion, dict[str, Any]),
    )
    for path, function, question, answer in posted:
        described = {200: {"model": answer}, **ERRORS}
        app.add_api_route(path, function, methods=["POST"], responses=described, openapi_extra=form_of(question))
    return app


async def page() -> Response:
    """The page for people."""
    return Response(PAGE.read_bytes(), media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


async def health() -> Response:
    """Whether the server answers."""
    return JSONResponse({"status": "ok"})


async def languages(request: Request) -> Response:
    """The languages, and into which ones each is translated."""
    return JSONResponse(_service(request).directions.languages())


async def translate(request: Request) -> Response:
    """Translate a text or a list of texts, line by line."""
    service = _service(request)
    asked = answers.read_translate(await _asked(request, TranslateQuestion), service.directions, service.limits)
    with _refusing():
        future = service.workers.translate(asked.chosen.translator, asked.lines, asked.options, asked.settings)
        translations = await _computed(request, future)
    if service.log_text:
        for translation in translations:
            log.info("%s→%s: %s → %s", asked.chosen.source, asked.chosen.target, translation.source, translation.text)
    return Response(asked.answer(translations), media_type="application/json")


async def detect(request: Request) -> Response:
    """Tell the one language that is translated: there is nothing that could detect another."""
    await _asked(request, DetectQuestion)
    with _refusing():
        language = _service(request).directions.only_source()
    return JSONResponse([{"confidence": 100.0, "language": language}])


async def inspect(request: Request) -> Response:
    """Look into the translation of a sentence: `tfm inspect --json` for one kind of attention, in 4 digits."""
    return await _looked(request, AttentionQuestion, answers.read_inspect)


async def steps(request: Request) -> Response:
    """Translate a sentence, perhaps from given tokens on, and tell the likeliest candidates at each step."""
    return await _looked(request, SentenceQuestion, answers.read_steps)


async def attention(request: Request) -> Response:
    """Tell what one head attends to, or all heads of a layer together."""
    return await _looked(request, AttentionQuestion, answers.read_attention)


async def vectors(request: Request) -> Response:
    """Place the vectors of a sentence in the plane, before and after the encoder."""
    return await _looked(request, SentenceQuestion, answers.read_vectors)


async def _looked(
    request: Request, model: type[Asked], read_look: Callable[[Asked, Directions, Limits], answers.Look]
) -> Response:
    """Returns the JSON of a function that a worker calls. read_look: question → that function."""
    service = _service(request)
    look = read_look(await _asked(request, model), service.directions, service.limits)
    with _refusing(), ExitStack() as held:
        held.enter_context(service.looking())
        body = await _computed(request, service.workers.call(look, service.limits.look_lines))
        return _Long(body, held.pop_all())


class _Long(Response):
    """JSON that is written as fast as its client reads it, so that only `PIECE` more bytes of it are in memory."""

    def __init__(self, body: bytes, held: ExitStack) -> None:
        """held: what is given back when the client has read all, or has gone."""
        super().__init__(body, media_type="application/json")
        self._held = held

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        with self._held:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, len(self.body), PIECE):
                piece = self.body[at : at + PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": at + PIECE < len(self.body)})


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def _asked(request: Request, model: type[Asked]) -> Asked:
    """Returns what a request asks for, if it has the key. Raises HTTPException.

    A right key in the header is enough; a wrong one there may be a proxy's, so the one in the body counts then.
    """
    service = _service(request)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    in_header = token.encode("latin-1").strip() if kind.lower() == "bearer" else b""
    asked = await read(request, model, service.limits)
    if service.api_key is None or _is_key(in_header, service.api_key):
        return asked
    given = (asked.api_key or "").encode()
    if not given and not in_header:
        raise HTTPException(400, "Please contact the server operator to get an API key")
    if not _is_key(given, service.api_key):
        raise HTTPException(403, "Invalid API key")
    return asked


def _is_key(given: bytes, key: str) -> bool:
    return hmac.compare_digest(given, key.encode())  # in a time that does not tell how far


@contextmanager
def _refusing() -> Iterator[None]:
    """What the workers do not accept during the block, or refuse, becomes an answer."""
    try:
        yield
    except Busy:
        raise HTTPException(503, "too much is waiting to be translated; try again later", RETRY) from None
    except Ending:
        raise HTTPException(503, "the server ends before this is answered; try again later", RETRY) from None
    except MemoryShortage as error:
        raise HTTPException(503, str(error), RETRY) from None
    except TfmError as error:
        raise HTTPException(400, str(error)) from None


async def _computed(request: Request, future: "Future[Result]") -> Result:
    """Returns what workers find. If the client goes before that, the future is cancelled: nobody would read it."""
    result = asyncio.wrap_future(future)
    leaving = asyncio.ensure_future(_client_has_gone(request))
    both: set[asyncio.Future[Any]] = {result, leaving}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise HTTPException(GONE, "gone")
        return result.result()
    finally:
        leaving.cancel()
        result.cancel()


async def _client_has_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refused(_: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
