"""Stress test of `tfm serve`: 64 clients send 10,000 requests, a sixth of them hostile.

`make hammer` first trains a small model in a few seconds. Each answer must be the translation of its own request, each
error JSON with the right status; the server must stay alive, exit properly, and not grow in memory. In the first tenth
of the requests all clients are honest; later no honest one may wait longer than ten times the 99th percentile of that
time. The server reloads its run (SIGHUP) 20 times, once while the run is damaged. It has a glossary, and some requests
have their own: their answers must be those of a translator with these terms. --requests N sends fewer. Linux only
(/proc).
"""

import argparse
import html
import http.client
import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np
import torch

from measure.figures import say
from measure.serving import Server, serving
from transformer_cli import Translator, prepare
from transformer_cli.api import train
from transformer_cli.config.load import load_config
from transformer_cli.system.terminal import format_table
from transformer_cli.text.sentences import sentence_spans
from transformer_cli.text.vocabulary import SPECIALS

torch.set_num_threads(1)  # the server needs the cores

CONFIG = [
    *("name=hammer", "data.corpus=captions", "data.captions.sentences=2000", "training.epochs=2"),
    *("model.positions=sinusoidal", "model.max_length=null"),  # so that a line may be long, and takes long
    *("model.d_model=64", "model.num_heads=2", "model.num_encoder_layers=1", "model.num_decoder_layers=1"),
    *("model.d_ff=128", "training.learning_rate=5e-3", "training.precision=float32"),
]
CLIENTS, RELOADS, SENTENCES = 64, 20, 300
KEY = "geheim"
WRONG_KEYS = ("x", f"{KEY}x", "\0", "ß" * 1000)
MIB = 1 << 20
GROWTH = 1.1  # maximum, relative to the memory after a third of the requests
WAIT = 10.0  # maximum, relative to the 99th percentile with honest clients only
IDLE = 40  # maximum number of connections without a request
MAX_LOG_BYTES = MIB
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}


@dataclass
class Found:
    """Counts of the answers."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of request, status or what else became of it) → how many"""
    wrong: list[str] = field(default_factory=list)
    """what should not have been"""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """kind of an honest request → how long each took"""
    idle: list[socket.socket] = field(default_factory=list)
    """connections on which nothing is sent"""
    memory: list[int] = field(default_factory=list)
    """bytes of the server, sampled"""
    asked: int = 0


@dataclass(frozen=True)
class Known:
    """Requests and their expected answers."""

    language: tuple[str, str]
    answers: dict[str, str]
    """sentence → its translation"""
    termed: list[tuple[str, dict[str, str], str]]
    """sentences, a glossary for each, and the translation with it"""


@dataclass
class Client:
    """A client in a thread."""

    server: Server
    known: Known
    found: Found
    chance: random.Random
    connection: http.client.HTTPConnection

    def some(self, least: int, most: int, *, with_nul: bool = True) -> list[str]:
        """Returns some of the sentences (the one that is a NUL is hard to find in other text)."""
        sentences = [each for each in self.known.answers if with_nul or each != "\0"]
        return self.chance.choices(sentences, k=self.chance.randint(least, most))

    def one(self) -> str:
        """Requests the translation of a sentence."""
        (q,) = self.some(1, 1)
        return self.check(self.ask(q=q), self.known.answers[q])

    def several(self) -> str:
        """Requests several sentences at once."""
        q = self.some(2, 20)
        return self.check(self.ask(q=q), [self.known.answers[each] for each in q])

    def lines(self) -> str:
        """Requests a text of several lines, with blank ones and NULs among them."""
        q = self.some(5, 5)
        return self.check(self.ask(q="\n\n".join(q)), "\n\n".join(self.known.answers[each] for each in q))

    def paragraph(self) -> str:
        """Requests a line of several sentences."""
        q = self.some(2, 6, with_nul=False)
        text = "  ".join(q)
        if [text[start:end] for start, end in sentence_spans(text, self.known.language[0])] != q:
            return self.one()  # random words may look like an abbreviation
        return self.check(self.ask(q=text), "  ".join(self.known.answers[each] for each in q))

    def markup(self) -> str:
        """Requests an HTML document."""
        q = [each for each in self.some(3, 3, with_nul=False) if " ".join(each.split()) == each]

        def document(texts: Iterable[str]) -> str:
            return "<ul class=a>\n" + "".join(f"<li>{html.escape(each, quote=False)}</li>" for each in texts) + "</ul>"

        expected = document(self.known.answers[each] for each in q)
        return self.check(self.ask(q=document(q), format="html"), expected)

    def document(self) -> str:
        """Sends a document, and downloads its translation."""
        q = self.some(1, 5, with_nul=False)
        fields = {**dict(zip(("source", "target"), self.known.language, strict=True)), "api_key": KEY}
        parts = [f'name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
        parts.append('name="file"; filename="a.txt"\r\n\r\n' + "\n".join(q))
        body = "".join(f"--b\r\nContent-Disposition: form-data; {part}\r\n" for part in parts) + "--b--\r\n"
        status, answer = self.send(body.encode(), MULTIPART, "/translate_file")
        found = None
        if status == 200:
            self.connection.request("GET", urlsplit(str(answer["translatedFileUrl"])).path)
            with self.connection.getresponse() as given:
                found = given.read().decode()
        return self.check((status, {"translatedText": found}), "\n".join(self.known.answers[each] for each in q))

    def inspection(self) -> str:
        """Requests an inspection."""
        (q,) = self.some(1, 1, with_nul=False)
        status, body = self.ask("/inspect/steps", q=q)
        return self.check((status, {"translatedText": body.get("translation")}), self.known.answers[q])

    def terms(self) -> str:
        """Sends a glossary, whose terms may overlap, or have words that the model cannot write."""
        q, glossary, expected = self.chance.choice(self.known.termed)
        return self.check(self.ask(q=q, glossary=glossary), expected)

    def slow(self) -> str:
        """A slow sender, which gets its answer."""
        (q,) = self.some(1, 1)
        request = self.written(q=q)
        with self.raw() as connection:
            for at in range(0, len(request), 1 + len(request) // 10):
                connection.sendall(request[at : at + 1 + len(request) // 10])
                time.sleep(0.1)
            response = http.client.HTTPResponse(connection)
            response.begin()
            return self.check((response.status, json.loads(response.read())), self.known.answers[q])

    def not_http(self) -> str:
        """Bytes that are not HTTP."""
        junk = self.chance.choice([b"\x16\x03\x01\0\0", b"\0" * 1000, b"HELO me\r\n\r\n", b"GET / HTTP/9\r\n\r\n"])
        with self.raw() as connection:
            connection.sendall(junk)
            answer = b""
            while chunk := connection.recv(1 << 16):
                answer += chunk
        return self.refused((int(answer.split()[1]), {"error": "in plain text"}), 400)

    def dropped(self) -> str:
        """A client that disconnects before its answer, at any time."""
        request = self.written(q=self.some(1, 1)[0])
        return self.goes(request[: self.chance.choice([0, 10, len(request) // 2, len(request), len(request)])])

    def reset(self) -> str:
        """A complete request on a connection that is reset at once."""
        with self.raw() as connection, suppress(ConnectionError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(self.written(q=self.some(1, 1)[0]))
        return "gone"

    def large(self) -> str:
        """Bodies that are costly to parse or check, with the right key in the header or without one."""
        body, headers = self.chance.choice(LARGE)
        with_key = {**headers, "Authorization": f"Bearer {KEY}"} if self.chance.random() < 0.5 else headers
        return self.refused(self.send(body, with_key), 400)

    def idle(self) -> str:
        """A connection without a request."""
        self.found.idle.append(self.raw())
        if len(self.found.idle) > IDLE:
            self.found.idle.pop(0).close()
        return "idle"

    def goes(self, request: bytes, after_s: float = 0.0) -> str:
        """Sends bytes, and disconnects without an answer."""
        with self.raw() as connection, suppress(ConnectionError):  # it may be closed while we send
            connection.sendall(request)
            time.sleep(after_s)
        return "gone"

    def written(self, address: str = "/translate", /, **parameters: object) -> bytes:
        """Returns the bytes of a request."""
        body = json.dumps(self.asked(**parameters)).encode()
        head = f"POST {address} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def raw(self) -> socket.socket:
        """Returns a socket to the server."""
        return socket.create_connection((self.server.host, self.server.port), timeout=120)

    def asked(self, **parameters: object) -> dict[str, object]:
        """Returns these parameters and those of every request."""
        source, target = self.known.language
        return {"source": source, "target": target, "api_key": KEY, **parameters}

    def ask(self, address: str = "/translate", /, **parameters: object) -> tuple[int, dict[str, object]]:
        """Sends parameters as JSON on a connection that stays open."""
        return self.send(json.dumps(self.asked(**parameters)).encode(), JSON, address)

    def send(self, body: bytes, headers: dict[str, str], address: str = "/translate") -> tuple[int, dict[str, object]]:
        """Sends a body. Returns the status and the JSON answer. Raises OSError, HTTPException, ValueError."""
        if self.chance.random() < 0.1:
            self.connection.close()
        is_new = self.connection.sock is None  # then it is opened
        try:
            self.connection.request("POST", address, body, headers)
            with self.connection.getresponse() as answer:
                return answer.status, json.loads(answer.read())
        except ConnectionError:  # it was idle, and a server may close it just then: ask on a new one
            self.connection.close()
            if is_new:
                raise
            return self.send(body, headers, address)

    def check(self, answer: tuple[int, dict[str, object]], expected: object) -> str:
        """Counts an answer that is wrong for its request. Returns its status."""
        status, body = answer
        if status != 503 and (status != 200 or body.get("translatedText") != expected):
            self.found.wrong.append(f"{status} {str(body)[:300]}, but should be {str(expected)[:300]}")
        return str(status)

    def refused(self, answer: tuple[int, dict[str, object]], *expected: int) -> str:
        """Counts an answer with another status than these, or an error without a message. Returns its status."""
        status, body = answer
        error = body.get("error", "" if status == 200 else None)
        if status not in (*expected, 503) or not isinstance(error, str) or "\n" in error:
            self.found.wrong.append(f"{status} {str(body)[:300]}, but should be refused with {expected}")
        return str(status)

    def asks_wrongly(self, questions: Sequence[dict[str, object]], *expected: int) -> str:
        """Sends one of these requests, which must be refused."""
        return self.refused(self.ask(**{"q": "Hund", **self.chance.choice(questions)}), *expected)


Kind = tuple[int, str, Callable[[Client], str]]
"""its weight among all requests, what they are called, how they are made"""

HONEST: list[Kind] = [
    *((650, "one", Client.one), (40, "several", Client.several), (20, "lines", Client.lines)),
    *((40, "inspection", Client.inspection), (10, "slow", Client.slow), (40, "paragraph", Client.paragraph)),
    *((20, "markup", Client.markup), (20, "document", Client.document), (40, "terms", Client.terms)),
]
# Little text that is much work, or was: searches of many hypotheses, signs that patterns may see twice.
COSTLY: list[dict[str, object]] = [
    {"q": "\n".join(["a " * 240] * 8), "alternatives": 10},
    {"q": "Hallo %" + "0" * 3900},
    {"q": "Hallo %" + "0" * 50_000, "format": "html"},
    {"q": "a " + "<b>.</b>" * 6000, "format": "html"},
    {"q": "<a>a " * 19_800, "format": "html"},
    {"q": "\n".join(["a" * 480] * 8), "glossary": {"a": "b"}},
    {"q": "a " * 1900, "alternatives": 10, "split": False},
    {"q": "&" * 50_000, "format": "html"},
    {"q": "{" * 3900},
]
CHUNKED = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200_000
LESS_A_BYTE = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 * MIB}\r\n\r\n".encode()
LESS_A_BYTE += b" " * (2 * MIB - 1)
PART = b'--b\r\n%b: x\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n' % (b"X" * 900)
LARGE = [  # without a key in them
    (json.dumps({"q": "Hund", "glossary": dict.fromkeys(map(str, range(160_000)), 1)}).encode(), JSON),
    (b'{"q": [' + b"[]," * 600_000 + b"[]]}", JSON),
    (b"{" + b",".join(b'"k%d":1' % number for number in range(160_000)) + b"}", JSON),
    (b"q=" + b"%41" * 690_000, FORM),
    (b"q=Hund&glossary={" + b",".join(b'"%d":1' % number for number in range(160_000)) + b"}", FORM),
    (PART * 900 + b"--b--\r\n", MULTIPART),
]
WITHIN_LIMITS: list[dict[str, object]] = [
    {"q": "\n".join([("{{ {% <% ${ %( $t( ‹? " * 170)[:3900]] * 25)},
    {"q": "\n".join([("EIN HUND UND ZWEI MÄNNER AM STRAND MIT DEM BALL " * 80)[:3900]] * 25)},
    {"q": "\n".join([("{a, plural, other {" * 210)[:3900]] * 25)},
    {"q": "\n".join(["wort1 wort2 wort3 " * 200] * 12), "glossary": {f"wort{n}": f"word{n}" for n in range(999)}},
    {"q": "<b>a</b> %s " * 5000, "format": "html"},
]
HOSTILE: list[Kind] = [
    (20, "wrong key", lambda client: client.asks_wrongly([{"api_key": each} for each in WRONG_KEYS], 403)),
    (10, "brackets", lambda client: client.asks_wrongly([{"q": "[" * 499}], 200, 400)),  # each is a token
    (4, "costly", lambda client: client.asks_wrongly(COSTLY, 200, 400)),
    *((15, "not_http", Client.not_http), (20, "dropped", Client.dropped), (15, "idle", Client.idle)),
    *((30, "large body", Client.large), (20, "reset", Client.reset)),
    # clients that disconnect after a while, without reading an answer
    (5, "unread", lambda client: client.goes(client.written("/inspect/steps", q=" ".join(client.some(4, 4))), 1.0)),
    (10, "long", lambda client: client.goes(client.written(q=" ".join(client.some(40, 40))[:3900]), 0.05)),
    (4, "hypotheses", lambda client: client.goes(client.written(q="\n".join(["a " * 240] * 20), alternatives=10), 0.2)),
    (10, "within limits", lambda client: client.goes(client.written(**client.chance.choice(WITHIN_LIMITS)), 5.0)),
    (4, "chunked", lambda client: client.goes(CHUNKED)),
    (15, "less a byte", lambda client: client.goes(LESS_A_BYTE, 1.0)),
]


def main() -> None:
    """Tests a server, and prints the counts. The exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Send requests to tfm serve, some of them hostile.")
    parser.add_argument("--requests", type=int, default=10_000)
    n_requests = parser.parse_args().requests
    with TemporaryDirectory() as temporary:
        config, data_dir = load_config(None, CONFIG), Path(temporary, "data")
        prepare(config, data_dir=data_dir)
        folder = train(config, data_dir=data_dir, runs_dir=Path(temporary, "runs")).folder
        translator = Translator(folder, device="cpu")
        lines, terms = _sentences(translator), Path(temporary) / "terms.tsv"
        own, *glossaries = _glossaries(lines, random.Random(0))
        terms.write_text("".join(f"{source}\t{target}\n" for source, target in own.items()), encoding="utf-8")
        translator = translator.with_terms(own)
        asked, data = [*lines, "\0"], translator.run.config.data
        answers, with_terms = translator.translate(asked), zip(lines, glossaries, strict=False)
        termed = [(line, each, translator.with_terms(each).translate([line])[0]) for line, each in with_terms]
        known = Known((data.source, data.target), dict(zip(asked, answers, strict=True)), termed)
        say(f"{len(known.answers)} sentences, of which the answers are known; the server starts")
        with serving(folder, Path(temporary), {"TFM_API_KEY": KEY}, ("--glossary", str(terms))) as server:
            quiet, found = Found(), Found()
            hammer(server, known, HONEST, max(CLIENTS, n_requests // 10), quiet)
            hangups = threading.Thread(target=reload, args=(server, folder, found, n_requests))
            hangups.start()
            hammer(server, known, [*HONEST, *HOSTILE], n_requests, found)
            hangups.join()
        log = server.log.read_text(encoding="utf-8")
    found.wrong += [*quiet.wrong, *_waited(quiet, found), *_of_the_end(server, log, found)]
    print(_report(quiet, found))
    sys.exit(1 if found.wrong else 0)


def hammer(server: Server, known: Known, kinds: Sequence[Kind], n_requests: int, found: Found) -> None:
    """Lets the clients send requests until there are enough, and counts the answers."""
    lock = threading.Lock()
    weights = [weight for weight, _, _ in kinds]

    def work(number: int) -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        client = Client(server, known, found, random.Random(f"0 {number}"), connection)
        while True:
            with lock:
                if found.asked == n_requests:
                    break
                found.asked += 1
                if found.asked % max(1, n_requests // 10) == 0:
                    say(f"  {found.asked:,}")
                if found.asked % max(1, n_requests // 60) == 0:
                    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
                    found.memory.append(pages * os.sysconf("SC_PAGE_SIZE"))
            (kind,) = client.chance.choices(kinds, weights)
            _, name, ask = kind
            started = time.perf_counter()
            try:
                outcome = ask(client)
            except (OSError, http.client.HTTPException, ValueError, IndexError) as error:
                connection.close()
                outcome = type(error).__name__
                found.wrong.append(f"{name}: {error!r}")
            with lock:
                found.answers[name, outcome] += 1
                if kind in HONEST:
                    found.seconds.setdefault(name, []).append(time.perf_counter() - started)
        connection.close()

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        deque(pool.map(work, range(CLIENTS)), 0)  # which raises what a client did not expect
    for connection in found.idle:
        connection.close()
    say(f"{n_requests:,} requests of {CLIENTS} clients took {time.perf_counter() - started:.0f} s")


def reload(server: Server, folder: Path, found: Found, n_requests: int) -> None:
    """Makes the server reload its run from time to time; the second time the run is damaged."""
    config, gone = folder / "config.yaml", folder / "config.yaml.gone"
    for number in range(RELOADS):
        while found.asked < n_requests * number // RELOADS:
            time.sleep(0.1)
        if number == 1:
            config.rename(gone)
        os.kill(server.process.pid, signal.SIGHUP)
        while server.log.read_text(encoding="utf-8").count("reloaded") == number:
            time.sleep(0.1)
        if number == 1:
            gone.rename(config)
    say(f"opened anew {RELOADS} times")


def _sentences(translator: Translator) -> list[str]:
    """Returns lines of random tokens of the run's vocabulary."""
    codec, chance = translator.run.codecs.source, random.Random(0)
    ids = range(len(SPECIALS), len(codec))
    texts = (codec.decode(chance.choices(ids, k=chance.randint(1, 20))).strip() for _ in range(4 * SENTENCES))
    lines = (f"{text[:1].upper()}{text[1:]}." for text in texts)
    language = translator.run.config.data.source
    short = [line for line in lines if line.isprintable() and sentence_spans(line, language) == [(0, len(line))]]
    return [line for line in short if len(codec.encode(line)) <= 22][:SENTENCES]


def _glossaries(lines: Sequence[str], chance: random.Random) -> list[dict[str, str]]:
    """Returns a glossary for the server, and one for each of the first sentences with some of its words."""
    found = [{word: f"Zyx{word}" for word in chance.choice(lines).strip(".").split()[:3] if word.isalpha()}]
    for number, line in enumerate(lines[:60]):
        words = [word for word in line.split() if word.isalpha()]
        firsts, pairs = words[:2], [" ".join(pair) for pair in zip(line.split(), line.split()[1:], strict=False)]
        glossary = dict.fromkeys(firsts, "hound|old dog")
        glossary |= {pair: "the Zyx" for pair in pairs if pair.replace(" ", "").isalpha()}
        glossary |= {f"{word[:-1]}*": "" for word in words[2:4] if len(word) > 3}
        glossary |= dict.fromkeys(words[4:6], "漢字☃")
        glossary |= {f"{word}x{n}": "y" for word in words[:1] for n in range(900 * (number % 10 == 0))}
        found.append(glossary)
    return found


def _waited(quiet: Found, found: Found) -> list[str]:
    """Returns complaints about honest clients that waited too long."""
    wrong = []
    for kind, seconds in found.seconds.items():
        usual = float(np.percentile(quiet.seconds[kind], 99)) if kind in quiet.seconds else max(seconds)
        if max(seconds) > WAIT * usual:
            wrong.append(f"{kind}: {max(seconds):.2f} s, where honest clients alone wait {usual:.2f} s (p99)")
    return wrong


def _of_the_end(server: Server, log: str, found: Found) -> list[str]:
    """Returns complaints at the end: a dead server, unexpected log lines, memory growth."""
    errors = [line for line in log.split("\n") if "error" in line.lower() or "Traceback" in line]
    wrong = [f"log: {line}" for line in errors if not line.startswith("error: not reloaded: ")]
    if len(errors) - len(wrong) != 1:
        wrong.append("a damaged run was not told")
    if len(log) > MAX_LOG_BYTES:
        wrong.append(f"the log has {len(log):,} bytes")
    if server.process.returncode != 143:
        wrong.append(f"the server ended with {server.process.returncode}")
    third = len(found.memory) // 3
    before, after = max(found.memory[: third + 1]), max(found.memory[third:])
    if after > GROWTH * before:
        wrong.append(f"memory grew from {before / MIB:.0f} MiB to {after / MIB:.0f} MiB")
    return wrong


def _report(quiet: Found, found: Found) -> str:
    rows = [("request", "outcome", "count")]
    rows += [(kind, outcome, f"{count:,}") for (kind, outcome), count in sorted(found.answers.items())]
    lines = [format_table(rows)]
    for name, which in (("honest clients alone", quiet), ("with hostile ones", found)):
        p50, p99, most = (1000 * float(np.percentile(which.seconds["one"], share)) for share in (50, 99, 100))
        lines.append(f"one sentence, {name}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {most:.0f} ms")
    memory = [f"{each / MIB:.0f}" for each in found.memory[:: max(1, len(found.memory) // 12)]]
    return "\n".join([*lines, f"memory, MiB: {' '.join(memory)}", f"{len(found.wrong)} wrong", *found.wrong[:20]])


if __name__ == "__main__":
    main()
