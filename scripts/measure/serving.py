"""`tfm serve` under load, compared with calling Translator directly.

    cd scripts && python -m measure.serving ../exports/demo-int8 --source FILE

With an exported model of subwords, compares plain_server.py in the same run: requests/s, and the waiting time of a
short request while others send the largest requests allowed. With --through URL, `tfm serve` is already running there,
for example behind nginx.
"""

import argparse
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
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np

from measure.figures import Figure, Unavailable, alternate, say
from transformer_cli import Translator
from transformer_cli.system.terminal import format_table

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
    with _started(command, folder, environment) as server:
        yield server


@contextmanager
def _started(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A block during which a server runs that prints its address. Raises Unavailable."""
    log = folder / "serve.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stderr=file, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
        )
    try:
        deadline = time.monotonic() + START_S
        while not (found := ADDRESS.search(log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"{command[1]} did not start: {log.read_text(encoding='utf-8').strip()}")
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


WORST = {  # the requests within all limits with the most work found, by kind
    "placeholders": "\n".join([("{{ {% <% ${ %( $t( ‹? " * 170)[:3900]] * 25),
    "capitals": "\n".join([("EIN HUND LÄUFT UND ZWEI MÄNNER SPIELEN AM STRAND MIT DEM BALL " * 70)[:3990]] * 25),
    "elements": "<b>a</b> %s " * 5000,
}


def beside_plain(export: Path, sentences: Sequence[str], through: str | None = None) -> list[Figure]:
    """Measures tfm serve and plain_server.py in turns: requests/s, and the longest wait of a short request."""
    translator, figures = Translator.load(export, device="cpu"), list[Figure]()
    plain_command = [sys.executable, str(Path(__file__).with_name("plain_server.py")), str(export)]
    with ExitStack() as running:
        folders = [Path(running.enter_context(TemporaryDirectory())) for _ in range(2)]
        plain = running.enter_context(_started([*plain_command, str(os.cpu_count() or 1)], folders[1]))
        if through:
            named = urlsplit(through)
            ours = replace(plain, host=str(named.hostname), port=named.port or 80)
        else:
            ours = running.enter_context(serving(export.resolve(), folders[0]))
        for server in (ours, plain):
            _load(server, translator, sentences, max(CLIENTS), n_requests=4 * max(CLIENTS))  # warm
        for clients in CLIENTS:
            rates: dict[str, list[float]] = {"ours": [], "plain": []}
            for _ in range(3):
                for name, server in (("ours", ours), ("plain", plain)):
                    n_requests = REQUESTS[clients]
                    rates[name].append(_load(server, translator, sentences, clients, n_requests=n_requests)[0])
            name = f"{clients} client{'s' if clients > 1 else ''}, beside FastAPI + CTranslate2"
            medians = (float(np.median(rates[which])) for which in ("ours", "plain"))
            figures.append(Figure("serve", name, "requests/s", *medians))
        for kind, text in WORST.items():
            for n_others in (1, 8):
                taken = _load_beside(ours, translator, sentences, text, n_others, is_html=kind == "elements")
                name = f"a short request behind {n_others} × {kind}"
                figures.append(Figure("serve", f"{name}: median", "ms", float(np.median(taken)) * 1000))
                figures.append(Figure("serve", f"{name}: longest", "ms", max(taken) * 1000))
    return figures


def _load_beside(
    server: Server, translator: Translator, sentences: Sequence[str], text: str, n_others: int, *, is_html: bool
) -> list[float]:
    """Returns the seconds of consecutive short requests while others each send one long text."""
    data = translator.run.config.data
    asked = {"q": text, "source": data.source, "target": data.target, "format": "html" if is_html else "text"}

    def ask() -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=600)
        connection.request("POST", "/translate", json.dumps(asked), {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            assert answer.status in (200, 503), answer.read()
        connection.close()

    others = [threading.Thread(target=ask) for _ in range(n_others)]
    for other in others:
        other.start()
    taken = list[float]()
    while any(other.is_alive() for other in others):
        taken += _load(server, translator, sentences, 1, n_requests=1)[1]
        time.sleep(0.05)
    return taken


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


def main() -> None:
    """Measures an exported model, and prints a table."""
    parser = argparse.ArgumentParser(description="tfm serve beside a plain FastAPI + CTranslate2 program.")
    parser.add_argument("export", type=Path, help="an exported model of subwords")
    parser.add_argument("--source", type=Path, required=True, help="a file with a sentence on each line")
    parser.add_argument("--through", help="where tfm serve runs already, such as http://127.0.0.1:8080 of nginx")
    options = parser.parse_args()
    sentences = options.source.read_text(encoding="utf-8").splitlines()[:500]
    rows = [("", "unit", "tfm serve", "plain", "ratio")]
    for each in beside_plain(options.export, sentences, options.through):
        beside = ("", "") if each.ratio is None else (f"{each.reference:.4g}", f"{each.ratio:.2f}")
        rows.append((each.name, each.unit, f"{each.ours:.4g}", *beside))
    print(f"load {os.getloadavg()[0]:.1f}\n{format_table(rows)}")


if __name__ == "__main__":
    main()
