"""`tfm serve` under load, beside Translator called directly; an export also beside the plainest server of its model.

The latter by `PYTHONPATH=.:scripts python -m measure.serving EXPORT TEXT`: requests/s, in turns.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli.compute.threads import count_threads
from transformer_cli.translator import Translator

CLIENTS = (1, 8, 64)
REQUESTS = {1: 200, 8: 1000, 64: 2000}  # for each number of clients
START_S = 600.0
ADDRESS = re.compile(r"^serving at http://([\d.]+):(\d+)", re.MULTILINE)

PLAIN = """\
import socket, sys
import ctranslate2, fastapi, pydantic, sentencepiece, uvicorn
folder, threads = sys.argv[1], int(sys.argv[2])
model = ctranslate2.Translator(folder, inter_threads=threads, intra_threads=1)
source, target = (
    sentencepiece.SentencePieceProcessor(f"{folder}/{side}.subwords.model") for side in ("source", "target")
)
app = fastapi.FastAPI()
class Question(pydantic.BaseModel):
    q: str
@app.post("/translate")
def translate(asked: Question):
    (found,) = model.translate_batch([source.encode(asked.q, out_type=str)], beam_size=1)
    return {"translatedText": target.decode(found.hypotheses[0])}
listening = socket.socket(proto=socket.IPPROTO_TCP)  # so that asyncio sets TCP_NODELAY
listening.bind(("127.0.0.1", 0))
print(f"serving at http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, http="h11", log_level="error")).run(sockets=[listening])
"""


@dataclass(frozen=True)
class Server:
    """A `tfm serve` that runs, and what it says."""

    host: str
    port: int
    process: "subprocess.Popen[bytes]"
    log: Path


@contextmanager
def serving(
    run: Path, folder: Path, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[Server]:
    """Serve a run in a process of its own during the block; its log is in `folder`. Raises Unavailable."""
    command = ["-m", "transformer_cli", "serve", "--run", str(run), "--port", "0", "--device", "cpu", *options]
    with started(command, folder / "serve.log", environment) as server:
        yield server


@contextmanager
def started(arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run Python with arguments that make it serve during the block. Raises Unavailable."""
    command = [sys.executable, *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stderr=file, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
        )
    try:
        deadline = time.monotonic() + START_S
        while not (found := ADDRESS.search(log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"tfm serve did not start: {log.read_text(encoding='utf-8').strip()}")
            time.sleep(0.05)
        yield Server(found[1], int(found[2]), process, log)
    finally:
        process.terminate()
        process.wait(120)


def serving_speed(translator: Translator, sentences: Sequence[str], *, rounds: int = 3) -> list[Figure]:
    """Requests/s of one sentence each, and how long they take, for several numbers of clients."""
    say("serve: Translator called directly")
    translator.translations(sentences)
    (seconds,) = alternate([lambda: translator.translations(sentences)], rounds=rounds)
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
    """Let clients ask, each its next question when it has its answer. Returns requests/s and the seconds of each."""
    data = translator.run.config.data
    numbers = iter(range(n_requests))
    taken: list[float] = []
    lock = threading.Lock()

    def ask() -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            asked = {"q": sentences[number % len(sentences)], "source": data.source, "target": data.target}
            started = time.perf_counter()
            connection.request("POST", "/translate", json.dumps(asked), {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                assert answer.status == 200, answer.read()
                answer.read()
            taken.append(time.perf_counter() - started)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return n_requests / (time.perf_counter() - started), taken


def main(folder: str, text: str, turns: int = 5) -> None:
    """Print the requests/s of an export and of the plain server, of each turn, with 1, 8 and 64 clients."""
    translator = Translator.load(folder, device="cpu")
    sentences = Path(text).read_text(encoding="utf-8").splitlines()[:500]
    with TemporaryDirectory() as logs, ExitStack() as running:
        plain = ["-c", PLAIN, folder, str(count_threads())]
        servers = {
            "tfm": running.enter_context(serving(Path(folder), Path(logs))),
            "plain": running.enter_context(started(plain, Path(logs) / "plain.log")),
        }
        for clients in CLIENTS:
            rates: dict[str, list[float]] = {name: [] for name in servers}
            for _ in range(turns):
                for name, server in servers.items():
                    _load(server, translator, sentences, clients, n_requests=4 * clients)  # warm
                    rates[name].append(_load(server, translator, sentences, clients, n_requests=300)[0])
            told = [f"{name} {np.median(each):.0f} ({min(each):.0f}–{max(each):.0f})" for name, each in rates.items()]
            print(f"{clients} clients, requests/s, median (range) of {turns} turns: {', '.join(told)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
