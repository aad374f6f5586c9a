"""`tfm serve` under load, compared with calling Translator directly, and with a plain program."""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli import Translator
from transformer_cli.compute.devices import int8_sums_overflow

CLIENTS = (1, 8, 64)
REQUESTS = {1: 200, 8: 1000, 64: 2000}  # for each number of clients
START_S = 600.0
SHORT = "Ein Hund läuft am Strand."
# What serves an export of subwords without tfm: no queue, no batches, no limits, no log.
PLAIN = """\
import sys

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

folder, compute_type = sys.argv[1:]
model = ctranslate2.Translator(folder, compute_type=compute_type, inter_threads=2, intra_threads=1)
source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{side}.subwords.model") for side in ("source", "target")
)
app = FastAPI()


class Body(BaseModel):
    q: str
    source: str
    target: str


@app.post("/translate")
def translate(body: Body) -> dict[str, str]:
    pieces = [source.encode(body.q, out_type=str)]
    suppressed = [["<pad>"], ["<sos>"]]
    (found,) = model.translate_batch(pieces, beam_size=1, suppress_sequences=suppressed, max_decoding_length=200)
    return {"translatedText": target.decode(found.hypotheses[0])}


uvicorn.run(app, port=0, access_log=False)
"""
ADDRESS = re.compile(r"^(?:serving at|.* running on) http://([\d.]+):(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Server:
    """A running `tfm serve`, and its log."""

    host: str
    port: int
    process: "subprocess.Popen[bytes]"
    log: Path


@contextmanager
def serving(
    run: Path, folder: Path, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[Server]:
    """A block during which a process serves a run, with its log in `folder`. Raises Unavailable."""
    command = [sys.executable, "-m", "transformer_cli", "serve", "--run", str(run), "--port", "0", "--device", "cpu"]
    yield from _server([*command, *options], folder / "serve.log", {**os.environ, **(environment or {})})


@contextmanager
def serving_plainly(run: Path, folder: Path) -> Iterator[Server]:
    """A block during which PLAIN serves an export, with its log in `folder`. Raises Unavailable."""
    if not (run / "model.bin").exists() or not (run / "source.subwords.model").exists():
        raise Unavailable(f"{run} is not an export of a run of subwords; name one with --run")
    compute_type = "float32" if int8_sums_overflow() else "default"
    yield from _server([sys.executable, "-c", PLAIN, str(run), compute_type], folder / "plain.log")


def _server(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Starts a server, yields it once its log names its address, and ends it afterwards. Raises Unavailable."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file, stdin=subprocess.DEVNULL, env=environment)
    try:
        deadline = time.monotonic() + START_S
        while not (found := ADDRESS.search(log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"a server did not start: {log.read_text(encoding='utf-8').strip()}")
            time.sleep(0.05)
        yield Server(found[1], int(found[2]), process, log)
    finally:
        process.terminate()
        process.wait(120)


def request_time(run: Path, *, rounds: int = 5) -> list[Figure]:
    """Measures the server's processor time per short request, in turns with the plain program.

    run: an export of subwords, with greedy search. Linux only (/proc).
    """
    translator, figures = Translator(run), []
    with TemporaryDirectory() as folder, ExitStack() as servers:
        both = [servers.enter_context(start(run, Path(folder))) for start in (serving, serving_plainly)]
        for clients in CLIENTS:
            say(f"requests: {clients} clients")
            used: list[list[float]] = [[], []]
            for _ in range(rounds + 1):
                for server, found in zip(both, used, strict=True):
                    before, n_requests = _processor_seconds(server), REQUESTS[clients] // 2
                    _load(server, translator, [SHORT], clients, n_requests=n_requests)
                    found.append(1000 * (_processor_seconds(server) - before) / n_requests)
            ours, plain = (statistics.median(found[1:]) for found in used)  # the first round is for warming up
            figures.append(Figure("requests", f"processor time, {clients} clients", "ms", ours, plain))
    return figures


def _processor_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serving_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 3) -> list[Figure]:
    """Measures requests/s with one sentence each, and their latency, for several numbers of clients."""
    say("serve: Translator called directly")
    translator.translate_detailed(sentences)
    (seconds,) = alternate([lambda: translator.translate_detailed(sentences)], rounds=rounds)
    direct = len(sentences) / seconds
    figures = []
    with TemporaryDirectory() as folder, serving(translator.run.folder.resolve(), Path(folder)) as server:
        for clients in CLIENTS:
            name = f"{clients} client{'s' if clients > 1 else ''}"
            say(f"serve: {name}")
            _load(server, translator, sentences, clients, n_requests=4 * clients)  # warm
            rate, taken = _load(server, translator, sentences, clients, n_requests=REQUESTS[clients])
            figures.append(Figure("serve", f"{name}, beside one batch", "requests/s", rate, direct))
            for share in (50, 99):
                figures.append(Figure("serve", f"{name}: p{share}", "ms", float(np.percentile(taken, share)) * 1000))
    return figures


def _load(
    server: Server, translator: Translator, sentences: Sequence[str], clients: int, *, n_requests: int
) -> tuple[float, list[float]]:
    """Lets clients send requests, each after the previous answer. Returns requests/s and the seconds of each.

    Raises Unavailable if one is not answered.
    """
    data = translator.run.config.data
    numbers = iter(range(n_requests))  # each goes to one client
    taken: list[float] = []

    def ask(_: int) -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        for number in numbers:
            asked = {"q": sentences[number % len(sentences)], "source": data.source, "target": data.target}
            started = time.perf_counter()
            connection.request("POST", "/translate", json.dumps(asked), {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                assert answer.status == 200, answer.read()
                answer.read()
            taken.append(time.perf_counter() - started)
        connection.close()

    started = time.perf_counter()
    try:
        with ThreadPoolExecutor(clients) as pool:
            deque(pool.map(ask, range(clients)), 0)
    except (OSError, http.client.HTTPException, AssertionError) as error:
        raise Unavailable(f"a request was not answered: {error!r}") from error
    return n_requests / (time.perf_counter() - started), taken
