"""`tfm serve` under load, compared with calling Translator directly."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli import Translator

CLIENTS = (1, 8, 64)
REQUESTS = {1: 200, 8: 1000, 64: 2000}  # for each number of clients
START_S = 600.0
ADDRESS = re.compile(r"^serving at http://([\d.]+):(\d+)", re.MULTILINE)


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
    tfm = [sys.executable, "-m", "transformer_cli"]
    command = [*tfm, "serve", "--run", str(run), "--port", "0", "--device", "cpu", *options]
    log = folder / "serve.log"
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

    def ask() -> None:
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

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if len(taken) < n_requests:
        raise Unavailable(f"{n_requests - len(taken)} of {n_requests} requests were not answered")
    return n_requests / seconds, taken
