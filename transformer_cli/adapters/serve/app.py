"""The server's routes: LibreTranslate's API, inspection, health and the page. Knows no sockets and no signals.

A refused request is answered by {"error": "…"} with 400 for wrong parameters, 403 for a wrong key or another site's
page, 408 and 413 for a body that is too slow or too long, and 503 if the server is busy.
"""

import asyncio
import gc
import logging
import re
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.routing import Route

from transformer_cli.adapters.serve import request_bodies as bodies
from transformer_cli.adapters.serve.documents import KeptFiles, translate_document
from transformer_cli.adapters.serve.job_queue import FunctionJob, JobQueue, ServerBusy
from transformer_cli.adapters.serve.languages import Directions
from transformer_cli.adapters.serve.middleware import Metrics, RequestMiddleware, is_local_address
from transformer_cli.adapters.serve.parsed_request import parse, submit
from transformer_cli.adapters.serve.request_bodies import Limits, body_schema, read_body, refuse_over_limit
from transformer_cli.errors import DataError, MemoryShortage, TfmError, defect
from transformer_cli.search.protocols import BeforeStep, never_stop
from transformer_cli.translate import Translator

PAGE = Path(__file__).with_name("page.html")
INLINE_CHARACTERS = 1000  # of a request that is parsed and answered at once: another thread would take longer
WATCH_DELAY_S = 0.05  # until a client is watched: most have their answer before

Result = TypeVar("Result")

log = logging.getLogger(__name__)
# with 4XX, FastAPI does not describe status 422, which never occurs
router = APIRouter(responses={"4XX": {"description": 'The error: {"error": "…"}'}})


class Service:
    """What the routes share, as `request.app.state.service`."""

    def __init__(self, translators: Sequence[Translator], n_workers: int, limits: Limits, api_key: str | None) -> None:
        """See `create_app`."""
        self.directions = Directions(translators)
        self.limits, self.api_key = limits, api_key
        self.queue = JobQueue(n_workers, limits)
        self.text_queue = JobQueue(1, limits)
        """where the texts of long requests are parsed, and their answers are written, one at a time"""
        self.file_queue = JobQueue(1, limits)
        """the same for documents, whose batches are jobs of `queue`"""
        self.metrics = Metrics(lambda: self.queue.n_waiting_lines)
        self.inspections = threading.Semaphore(limits.inspections)
        self.parsing_lock = asyncio.Lock()
        """held while a larger body is parsed"""
        self.n_body_bytes = 0
        """bytes of all bodies that are arriving or not parsed yet"""
        self.kept_files = KeptFiles()
        self.n_unanswered = 0
        """requests that were cut off by the server's shutdown"""

    def reload_loop(self, requests: "SimpleQueue[bool]", open_runs: Callable[[], Sequence[Translator]]) -> None:
        """Reload the runs for each True in the queue, until False.

        Running requests keep their models. If a run cannot be opened, logs an error and keeps the loaded models.
        """
        while requests.get():
            try:
                self.directions = Directions(open_runs())
            except Exception as error:
                why, traced = (error, None) if isinstance(error, TfmError) else (defect(error), error)
                log.error("not reloaded: %s; the server keeps the models it has", why, exc_info=traced)
                self.metrics.reloads.labels("failed").inc()
            else:
                freeze_memory()
                log.info("reloaded")
                self.metrics.reloads.labels("done").inc()


def freeze_memory() -> None:
    """Collect garbage, then exempt the remaining objects from later collections, during which all threads stop."""
    gc.unfreeze()
    gc.collect()  # the traceback of a failed request may hold earlier models
    gc.freeze()


def create_app(
    translators: Sequence[Translator],
    *,
    n_workers: int = 1,
    api_key: str | None = None,
    hosts: Collection[str] = (),
    cors_origins: Sequence[str] = (),
    limits: Limits = Limits(),
) -> FastAPI:
    """Returns the ASGI application, whose lifespan starts and ends the workers.

    translators: one for each pair of languages. n_workers: how many batches are translated at a time. api_key: needed
    by requests that compute (None: not needed). hosts: names of this server, or * for any; localhost and numeric
    addresses are always allowed. cors_origins: sites whose pages may send requests, such as https://example.org, or *
    for any. Raises ConfigError.
    """
    service = Service(translators, n_workers, limits, api_key)
    queues = (service.queue, service.text_queue, service.file_queue)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for each in queues:
            each.start()
        yield
        for each in reversed(queues):
            await asyncio.to_thread(each.close)

    handlers: dict[Any, Any] = dict.fromkeys((HTTPException, ValidationError, TfmError), _error_response)
    app = FastAPI(
        title="tfm",
        lifespan=lifespan,
        exception_handlers=handlers,
        docs_url=None,  # FastAPI's pages load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(RequestMiddleware, hosts=hosts, origins=cors_origins, max_requests=limits.requests)
    described = [each for each in router.routes if isinstance(each, Route)]
    # FastAPI's own routes, which describe these to /openapi.json, take as long as all else of a short request
    app.routes[:0] = [*(Route(each.path, each.endpoint, methods=each.methods) for each in described), *described]
    app.state.paths = {each.endpoint: each.path for each in described}
    return app


# Routes are searched in this order, so the one with the most requests comes first.
@router.post("/translate", openapi_extra=body_schema(bodies.TranslateBody))
async def translate(request: Request) -> Response:
    """Translate a text or a list of texts, line by line; or HTML, block by block."""
    body = await read_body(request, bodies.TranslateBody)
    service: Service = request.app.state.service
    size = body.n_characters

    async def prepared(function: Callable[[BeforeStep], Result]) -> Result:
        if size <= INLINE_CHARACTERS:
            return function(never_stop)
        job = FunctionJob(function, cost=min(size, service.limits.characters))
        return await _wait_for_result(request, service.text_queue.add(job))

    parsed = await prepared(partial(parse, body, service.directions, service.limits))
    translations = await _wait_for_result(request, submit(parsed, service.queue)) if parsed.sentences else []
    service.metrics.source_tokens.inc(sum(len(each.source_tokens) for each in translations))
    return await prepared(lambda before_step: JSONResponse(parsed.answer(translations)))


@router.get("/", include_in_schema=False)
async def page(_: Request) -> Response:
    """The page. It loads nothing, runs only its own script, and no other page may embed it."""
    written = PAGE.read_bytes()
    script, style = (_csp_hashes(tag, written) for tag in (b"script", b"style"))
    headers = {
        "Content-Security-Policy": f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(written, media_type="text/html; charset=utf-8", headers=headers)


def _csp_hashes(tag: bytes, written: bytes) -> str:
    """Returns the sources for a Content-Security-Policy that allow the page's <script> or <style>."""
    texts = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), written, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(sha256(text).digest()).decode()}'" for text in texts)


@router.get("/health")
async def health(request: Request) -> JSONResponse:
    """Say that the server is running, with which models, and since when."""
    return JSONResponse({"status": "ok", "models": request.app.state.service.directions.models()})


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    counts: Metrics = request.app.state.service.metrics
    text, content_type = counts.text(request.headers.get("accept", ""))
    return Response(text, headers={"Content-Type": content_type})


@router.get("/languages")
async def languages(request: Request) -> JSONResponse:
    """The languages, each with its target languages."""
    return JSONResponse(request.app.state.service.directions.languages())


@router.post("/translate_file", openapi_extra=body_schema(bodies.FileBody, bodies.MULTIPART))
async def translate_file(request: Request) -> Response:
    """Translate a document. Returns the address where it can be downloaded for ten minutes, and what to check in it."""
    body = await read_body(request, bodies.FileBody)
    service: Service = request.app.state.service
    service.kept_files.refuse_if_full()
    translating = partial(translate_document, body, service.directions, service.queue, service.limits)
    job = FunctionJob(translating, cost=min(len(body.file[1]), service.limits.characters))
    name, content, about = await _wait_for_result(request, service.file_queue.add(job))
    by_proxy = request.headers if is_local_address((request.client or ("",))[0]) else {}
    host = f"{by_proxy.get('x-forwarded-proto', 'http')}://{by_proxy.get('x-forwarded-host', request.url.netloc)}"
    url = f"{host}/download_file/{quote(service.kept_files.keep(name, content))}"
    return JSONResponse({"translatedFileUrl": url, **about})


@router.get("/download_file/{name}")
async def download_file(request: Request) -> Response:
    """Download a translated document."""
    content = request.app.state.service.kept_files.content(name := request.path_params["name"])
    if content is None:
        raise HTTPException(404, "Not Found")
    disposition = f"attachment; filename*=UTF-8''{quote(name.partition('.')[2])}"
    headers = {"Content-Disposition": disposition, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.post("/detect", openapi_extra=body_schema(bodies.TextBody))
async def detect(request: Request) -> Response:
    """Detect the source language of a text, or of a list of texts together; the likeliest first."""
    body = await read_body(request, bodies.TextBody)
    service: Service = request.app.state.service
    text = " ".join(body.texts)
    refuse_over_limit(len(text), service.limits.characters, "characters")
    found = service.directions.detect(text)
    return JSONResponse([{"confidence": confidence, "language": language} for language, confidence in found])


@router.post("/inspect/steps", openapi_extra=body_schema(bodies.InspectBody))
async def steps(request: Request) -> Response:
    """Translate a sentence, perhaps after given tokens, and list the likeliest candidates at each step."""
    body = await read_body(request, bodies.InspectBody)
    return await _inspect(request, body, lambda inspection, *found: inspection.steps_record(*found))


@router.post("/inspect/attention", openapi_extra=body_schema(bodies.AttentionBody))
async def attention(request: Request) -> Response:
    """Return the attention weights of one head, or the mean over all heads of a layer."""
    body = await read_body(request, bodies.AttentionBody)
    which = body.kind, body.layer, body.head
    return await _inspect(request, body, lambda inspection, *found: inspection.attention_record(*found, *which))


@router.post("/inspect/vectors", openapi_extra=body_schema(bodies.InspectBody))
async def vectors(request: Request) -> Response:
    """Return the vectors of a sentence before and after the encoder, projected onto a plane."""
    body = await read_body(request, bodies.InspectBody)
    return await _inspect(request, body, lambda inspection, *found: inspection.vectors_record(*found))


async def _inspect(request: Request, body: bodies.InspectBody, describe: Callable[..., dict[str, Any]]) -> Response:
    """Translate a sentence after its prefix in a worker, and return a description of the translation as JSON.

    describe: gets the module study/inspection.py, the translator and the translation.
    """
    service: Service = request.app.state.service
    refuse_over_limit(body.n_characters, service.limits.characters, "characters")
    chosen, _, _ = service.directions.choose(body.source, body.target, body.q)
    with_terms = await asyncio.to_thread(chosen.with_terms, body.glossary)
    translator = with_terms.with_options(return_scores=True, return_attention=True)
    if translator.run.exported:
        raise DataError("an exported model cannot be inspected; /languages lists the inspectable languages")

    def compute(before_step: BeforeStep) -> bytes:
        from transformer_cli.adapters.study import inspection  # imports torch

        stoppable, max_tokens = translator.with_callback(before_step), service.limits.inspected_tokens
        translation = inspection.translate_from(stoppable, body.q, body.prefix, max_tokens=max_tokens)
        return bytes(JSONResponse(describe(inspection, translator, translation)).body)

    if not service.inspections.acquire(blocking=False):
        raise ServerBusy("too many sentences are being inspected; try again later")
    job = FunctionJob(compute, n_lines=service.limits.inspection_lines)
    try:
        answer = await _wait_for_result(request, service.queue.add(job))
    except BaseException:
        service.inspections.release()
        raise
    # streamed, because the background task then runs only when the client has read the answer
    released = BackgroundTask(service.inspections.release)
    return StreamingResponse(iter([answer]), media_type="application/json", background=released)


async def _wait_for_result(request: Request, future: "Future[Result]") -> Result:
    """Returns a job's result. If the client disconnects first, cancels the future and raises HTTPException."""
    result, watching = asyncio.wrap_future(future), set[asyncio.Future[Any]]()
    try:
        await asyncio.wait({result}, timeout=WATCH_DELAY_S)
        if not result.done():
            watching = {asyncio.create_task(_disconnected(request))}
            await asyncio.wait({result, *watching}, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise HTTPException(bodies.CLIENT_CLOSED, "gone")
        return result.result()
    finally:
        for each in (result, *watching):
            each.cancel()  # without effect if it is done


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _error_response(_: Request, error: Any) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, ServerBusy | MemoryShortage):
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    message = bodies.validation_message(error) if isinstance(error, ValidationError) else str(error)
    return JSONResponse({"error": message}, 400)
