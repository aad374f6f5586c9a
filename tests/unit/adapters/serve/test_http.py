"""The server around translation: keys, limits, slow clients, hosts and origins, the log, metrics, the page."""

import json
import logging
import re
import socket
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import prometheus_client.openmetrics.parser as openmetrics
import prometheus_client.parser as prometheus
import pytest

from served import JSON, PATIENCE_S, Running, running
from transformer_cli import Translator
from transformer_cli.adapters.serve import app, request_bodies, server
from transformer_cli.adapters.serve.app import create_app
from transformer_cli.adapters.serve.job_queue import FunctionJob
from transformer_cli.adapters.serve.request_bodies import Limits
from transformer_cli.adapters.serve.server import bind, url_of
from transformer_cli.adapters.study import inspection as numbers
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run

ASKED = {"q": "Der kleine Hund läuft im Park.", "source": "de", "target": "en"}
BODY = json.dumps(ASKED).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"


def raw(served: Running, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send bytes as they are. Returns all that comes back."""
    with served.connect() as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        received = b""
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received


def test_page_runs_only_its_own_script_and_style(served: Running) -> None:
    answer = served.ask("/")
    assert answer.body.startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\(""", answer.body)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", answer.body, re.DOTALL)
        allowed = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{allowed}';" in policy
        answer = replace(answer, body=answer.body.replace(text, ""))
    assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", answer.body)


def test_openapi_describes_the_routes(served: Running) -> None:
    paths = served.ask("/openapi.json").body["paths"]
    inspections = {f"/inspect/{what}" for what in ("steps", "attention", "vectors")}
    documents = {"/translate_file", "/download_file/{name}"}
    assert set(paths) == {"/health", "/languages", "/translate", "/detect", *documents, *inspections}
    assert "q" in json.dumps(paths["/translate"]["post"]["requestBody"])
    assert set(paths["/translate"]["post"]["responses"]) == {"200", "4XX"}
    for address in ("/docs", "/redoc"):
        assert served.ask(address).status == 404


def test_inspect_beyond_the_limits_returns_503_or_400(translator: Translator) -> None:
    with running(translator, limits=Limits(inspections=0)) as closed:
        assert closed.post("/inspect/steps", **ASKED).status == 503
    with running(translator, limits=Limits(inspected_tokens=3)) as small:
        answer = small.post("/inspect/steps", **ASKED)
        error = {"error": "7 tokens, but at most 3 can be inspected; split the sentence"}
        assert (answer.status, answer.body) == (400, error)


def test_translate_full_queue_returns_503(translator: Translator) -> None:
    with running(translator, limits=Limits(waiting_lines=24)) as small:
        answer = small.post("/translate", **{**ASKED, "q": "eins\n" * 25})
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.body == {"error": "too much is waiting to be translated; try again later"}
        assert small.post("/inspect/steps", **ASKED).status == 503  # a look counts as 25 lines
        assert small.post("/translate", **ASKED).status == 200


def test_inspect_client_that_does_not_read_is_disconnected(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 0.2)
    with running(translator, limits=Limits(inspections=1)) as small:
        monkeypatch.setattr(numbers, "rounded", lambda *_: " " * (20 << 20))
        head = HEAD.replace(b"/translate", b"/inspect/steps")
        wanted = {**ASKED, "q": "Hund"}
        with ExitStack() as deaf:
            status = 200
            while status != 503:  # on a slow machine the client may be gone already
                client = deaf.enter_context(small.connect())
                client.sendall(head + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
                status = small.post("/inspect/steps", **wanted).status
            while status != 200:
                time.sleep(0.05)
                status = small.post("/inspect/steps", **wanted).status
                assert status in (503, 200)


def test_get_routes_answer_head_and_get_with_a_body(served: Running) -> None:
    for path in ("/", "/health", "/languages", "/metrics", "/openapi.json"):
        request = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        head, _, body = raw(served, request.encode()).partition(b"\r\n\r\n")
        assert (head.startswith(b"HTTP/1.1 200 "), body) == (True, b"")
    with_body = b"GET /languages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=b"
    assert b'"code":"de"' in raw(served, with_body)


def test_health_lists_models_with_their_start(served: Running, tiny: Run) -> None:
    health = served.ask("/health").body
    (model,) = health.pop("models")
    assert health == {"status": "ok"}
    assert datetime.fromisoformat(model.pop("since")) <= datetime.now(timezone.utc)
    assert model == {"source": "de", "target": "en", "run": "tiny", "checkpoint": tiny.best_checkpoint_name}


def test_metrics_count_requests_seconds_and_tokens(translator: Translator) -> None:
    with running(translator) as found:
        for asked in (ASKED, ASKED, {**ASKED, "target": "xx"}):
            found.post("/translate", **asked)
        found.ask("/somewhere?q=secret")
        answer = found.ask("/metrics")
    counts = dict(line.rsplit(" ", 1) for line in answer.body.splitlines() if not line.startswith("#"))
    for address, status, expected in (("/translate", 200, 2), ("/translate", 400, 1), ("other", 404, 1)):
        labels = f'{{address="{address}",status="{status}"}}'
        assert float(counts[f"tfm_request_seconds_count{labels}"]) == expected
        assert float(counts[f"tfm_request_seconds_sum{labels}"]) > 0
    assert (float(counts["tfm_source_tokens_total"]), float(counts["tfm_waiting_lines"])) == (14, 0)
    assert [counts[f'tfm_reloads_total{{outcome="{each}"}}'] for each in ("done", "failed")] == ["0.0", "0.0"]
    assert "process_resident_memory_bytes" in counts
    assert "secret" not in answer.body


def test_server_closes_idle_connections_and_logs_it_once(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "CHECK_INTERVAL_S", 0.1)
    with running(translator) as small, ExitStack() as opened:
        new, begun, slow = [opened.enter_context(small.connect()) for _ in range(3)]
        begun.sendall(HEAD[:30])
        slow.sendall(HEAD + f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 100 ")
        monkeypatch.setattr(server, "monotonic", lambda: time.monotonic() + 3600)
        assert new.recv(1) == begun.recv(1) == b""
        slow.sendall(BODY)  # an answer has time
        assert b"".join(iter(lambda: slow.recv(1000), b"")).startswith(b"HTTP/1.1 200 ")  # then it is closed
    told = [record.getMessage() for record in caplog.records if "without a request" in record.getMessage()]
    assert len(told) == 1


def test_server_with_too_many_idle_connections_closes_the_oldest(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(server, "CHECK_INTERVAL_S", 0.1)
    with running(translator) as small, ExitStack() as idle:
        first, *_ = [idle.enter_context(small.connect()) for _ in range(4)]
        assert first.recv(1) == b""  # closed: it is the oldest
        assert small.post("/translate", **ASKED).status == 200


def test_server_too_many_requests_return_503_and_are_counted(translator: Translator) -> None:
    with running(translator, limits=Limits(requests=1)) as small:
        with small.connect() as asking:
            asking.sendall(HEAD + b"Content-Length: 9\r\n\r\n")
            while (refused := small.post("/detect", **ASKED)).status != 503:
                time.sleep(0.05)
        assert refused.body == {"error": "too many requests at once; try again later"}
        while (answer := small.ask("/metrics")).status == 503:
            time.sleep(0.05)
    assert 'status="503"' in answer.body


def test_server_unknown_path_or_method_is_a_json_error(served: Running) -> None:
    unknown, method = served.ask("/suggest", b""), served.ask("/translate", None)
    assert (unknown.status, unknown.body) == (404, {"error": "Not Found"})
    for path in ("/metrics%0a", "/%0ametrics", "/health%00", "/languages%0D", "/detect%7f", "/translate%c2%85"):
        assert served.ask(path, None).status == served.ask(path, b"{}").status == 404
    assert (method.status, method.body) == (405, {"error": "Method Not Allowed"})


def test_server_other_host_names_return_400(translator: Translator) -> None:
    with running(translator, hosts=["tr.example.org"]) as public:
        own = ("localhost:80", "127.0.0.1", "[::1]:5000", "192.0.2.7", "TR.example.org", "a.localhost")
        for host in own:
            assert public.ask("/health", Host=host).status == 200
            assert public.ask("/translate", BODY, **JSON, Host=host, Origin=f"http://{host}").status == 200
        answer = public.ask("/health", Host="rebound.example:5000")
        why = "'rebound.example:5000' is not a name of this server; its operator may add --allow-host rebound.example"
        assert answer.body == {"error": f"Invalid request: {why}"}
        assert answer.status == public.ask("/health", Host="[").status == 400
        # a page behind a proxy that says Host: 127.0.0.1:5000
        assert public.ask("/translate", BODY, **JSON, Origin="https://tr.example.org").status == 200
        port = urlsplit(public.url).port
        for origin, headers, status in (
            (f"http://tr.example.org:{port}", {}, 200),
            (f"http://localhost:{port}", {}, 200),
            (f"http://[::1]:{port}", {"Host": "localhost"}, 200),
            ("https://tr.example.org:8443", {}, 403),
            ("https://tr.example.org:8443", {"Host": "tr.example.org:8443"}, 200),  # as the proxy of docs/operating.md
            ("https://tr.example.org:8443", {"X-Forwarded-Host": "tr.example.org:8443"}, 200),
            ("http://localhost", {}, 403),
            ("null", {"X-Forwarded-Host": ""}, 403),
        ):
            assert public.ask("/translate", BODY, **JSON, Origin=origin, **headers).status == status, (origin, headers)
    with running(translator, hosts=["*"]) as open_to_all:
        assert open_to_all.ask("/health", Host="any.example").status == 200


def test_server_other_origins_return_403_unless_allowed(translator: Translator) -> None:
    allowed = "access-control-allow-origin"
    with running(translator, cors_origins=["https://good.example"]) as found:
        for origin in ("https://evil.example", "null", "http://localhost:3000", "http://["):
            for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
                refused = found.ask("/translate", BODY, Content_Type=kind, Origin=origin)
                assert (refused.status, "may not use this server" in refused.body["error"]) == (403, True)
            assert allowed not in found.ask("/languages", Origin=origin).headers
        good = found.ask("/translate", BODY, **JSON, Origin="https://good.example")
        assert (good.status, good.headers[allowed]) == (200, "https://good.example")


def test_translate_too_long_body_returns_413(served: Running) -> None:
    received = raw(served, HEAD + f"Content-Length: {(2 << 20) + 1}\r\n\r\n".encode(), b"x" * ((2 << 20) + 1))
    assert received.startswith(b"HTTP/1.1 413 ")
    why = {"error": "Invalid request: its body has more than 2,097,152 bytes; send it in parts"}
    assert json.loads(received.partition(b"\r\n\r\n")[2]) == why


def test_translate_chunked_body_returns_411(served: Running) -> None:
    received = raw(served, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100)
    assert received.startswith(b"HTTP/1.1 411 ")
    assert b"send it with a Content-Length" in received


def test_translate_slow_body_returns_408(translator: Translator) -> None:
    with running(translator, limits=Limits(body_bytes=len(BODY), body_timeout_s=0.2)) as impatient:
        received = raw(impatient, HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode(), BODY[:-1])
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b'{"error":"Invalid request: its body did not come within 0.2 seconds; send it faster"}' in received
        assert impatient.ask("/health").status == 200
        received = raw(impatient, HEAD + b"Content-Length: 999\r\n\r\n", BODY * 2)  # and too long
        assert received.startswith(b"HTTP/1.1 413 ")


def test_api_key_is_needed_by_routes_that_compute(translator: Translator) -> None:
    with running(translator, api_key="schlüssel") as closed:
        assert closed.ask("/health").status == closed.ask("/languages").status == closed.ask("/").status == 200
        for address in ("/translate", "/inspect/steps", "/detect"):
            without, wrong = closed.post(address, **ASKED), closed.post(address, **ASKED, api_key="schluessel")
            assert (without.status, wrong.status) == (400, 403)
            assert without.body == {"error": "Please contact the server operator to get an API key"}
            assert wrong.body == {"error": "Invalid API key"}
            assert closed.post(address, **ASKED, api_key="schlüssel").status == 200
            assert closed.post_form(address, **ASKED, api_key="schlüssel").status == 200
            assert closed.post(address, **ASKED, api_key=["schlüssel"]).status == 400
        with_header = closed.ask("/translate", BODY, Content_Type="application/json", Authorization="Bearer x")
        assert with_header.status == 403
        for header in ("Bearer schlüssel", "Bearer of-a-proxy"):
            key = "x" if header.endswith("schlüssel") else "schlüssel"
            body = json.dumps({**ASKED, "api_key": key}).encode()
            header = header.encode().decode("latin-1")
            assert closed.ask("/translate", body, Content_Type="application/json", Authorization=header).status == 200


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_api_key_missing_or_wrong_parses_nothing(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    parsed: list[str] = []

    def noted(parse: Callable[..., Any], *arguments: Any) -> Any:
        parsed.append(parse.__name__)
        return parse(*arguments)

    for parse in (request_bodies._parse_json, request_bodies._form_parameters):
        monkeypatch.setattr(request_bodies, parse.__name__, partial(noted, parse))
    part = '--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'

    def body(**fields: object) -> bytes:
        if kind == "application/json":
            return json.dumps(fields).encode()
        if kind == "multipart/form-data":
            return ("".join(part % each for each in fields.items()) + "--b--\r\n").encode()
        return urlencode(fields).encode()

    with running(translator, api_key="schlüssel") as closed:

        def status(**fields: object) -> int:
            return closed.ask("/translate", body(**fields), Content_Type=f"{kind}; boundary=b").status

        assert status(**ASKED, glossary="x" * 1_900_000) == 400
        assert status(**ASKED, api_key="schlussel") == status(api_key="x" * 1_900_000) == 403
        assert status(**{**ASKED, "q": "api_key=schlüsse&a"}) in (400, 403)
        assert parsed == []
        assert status(**{f"x{n}": "api_key=7" for n in range(9)}, **ASKED, api_key="schlüssel") == 200
        header = {"Authorization": "Bearer schlüssel".encode().decode("latin-1")}
        asked = body(**ASKED)
        assert closed.ask("/translate", asked, Content_Type=f"{kind}; boundary=b", **header).status == 200
    assert len(parsed) == 2


def test_bodies_beyond_the_total_limit_return_503(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0

    class Counted(app.Service):
        def __setattr__(self, name: str, value: object) -> None:
            nonlocal most
            if name == "n_body_bytes":
                assert isinstance(value, int)
                most = max(most, value)
            super().__setattr__(name, value)

    monkeypatch.setattr(app, "Service", Counted)
    body = json.dumps({**ASKED, "api_key": "x" * 99_000}).encode()
    head = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode()
    limits = Limits(all_bodies_bytes=350_000, small_body_bytes=1000)
    with running(translator, limits=limits) as small, ExitStack() as open_:
        clients = [open_.enter_context(small.connect()) for _ in range(10)]
        for client in clients:
            client.sendall(head + body[:-1])
        assert small.post("/translate", **ASKED).status == 200  # a short one is read
        statuses = []
        for client in clients:
            client.sendall(body[-1:])
            statuses.append(client.recv(1000).split()[1])
        assert {*statuses} == {b"200", b"503"}
        assert statuses.count(b"200") == 3
        small.ask("/health")
    assert 200_000 < most <= 350_000 + 10 * 1000


def test_server_reset_connection_is_counted_without_a_traceback(
    translator: Translator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = server.ListeningSocket.accept

    def reset_before_anybody_asks(self: server.ListeningSocket) -> Any:
        accepted, client = accept(self)
        gone.wait(PATIENCE_S)
        return accepted, client

    gone = threading.Event()
    monkeypatch.setattr(server.ListeningSocket, "accept", reset_before_anybody_asks)
    with running(translator) as found:
        with found.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        gone.set()
        while '_count{address="/translate"' not in (counts := found.ask("/metrics").body):
            time.sleep(0.01)
    assert 'status="200"} 1.0' in counts or 'status="499"} 1.0' in counts
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("accept", "parsers"),
    [
        ("", (openmetrics, prometheus)),
        ("*/*", (openmetrics, prometheus)),
        ("text/plain;version=0.0.4", (prometheus,)),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", (openmetrics, prometheus)),
    ],
)
def test_metrics_are_read_by_prometheus_and_openmetrics(served: Running, accept: str, parsers: tuple[Any, ...]) -> None:
    served.ask("/health")
    answer = served.ask("/metrics", Accept=accept)
    kind = "application/openmetrics-text" if len(parsers) > 1 else "text/plain"
    assert answer.headers["content-type"].startswith(kind)
    for parser in parsers:
        families = parser.text_string_to_metric_families(answer.body)
        names = {sample.name for family in families for sample in family.samples}
        assert {"tfm_source_tokens_total", "tfm_request_seconds_bucket", "process_cpu_seconds_total"} <= names


@pytest.mark.parametrize("is_abstract", [False, True])
def test_notify_systemd_sends_ready_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool) -> None:
    name = f"\0tfm-{uuid4()}" if is_abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name)
        systemd.settimeout(PATIENCE_S)
        server.notify_systemd()
        assert systemd.recv(100) == b"READY=1"
    server.notify_systemd()  # nobody listens any more
    monkeypatch.delenv("NOTIFY_SOCKET")
    server.notify_systemd()


def test_translate_body_in_several_packets_is_read(served: Running) -> None:
    head = HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode()
    assert b"translatedText" in raw(served, head[:30], head[30:], BODY[:10], BODY[10:], pause=0.05)


def test_translate_disconnected_client_is_not_computed(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    translate = Translator.translate_lines

    def noted(self: Translator, lines: Any, *arguments: Any, **named: Any) -> Any:
        seen.extend(line.sentence for line in lines)
        return translate(self, lines, *arguments, **named)

    monkeypatch.setattr(Translator, "translate_lines", noted)
    with running(translator) as patient:
        go_on = threading.Event()
        patient.queue.add(FunctionJob(lambda before_step: go_on.wait()))
        with patient.connect() as connection:
            connection.sendall(HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
            while patient.queue.n_waiting_lines < 2:
                time.sleep(0.01)
        while patient.queue.n_waiting_lines > 1:
            time.sleep(0.01)
        go_on.set()
        assert patient.post("/translate", **{**ASKED, "q": "Hund"}).status == 200
    assert seen == ["Hund"]


def test_server_unexpected_error_returns_500_and_is_logged(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Translator, "translate_lines", fail)
    monkeypatch.setenv("GIT_DIR", "none")  # whatever this checkout has edited
    with running(translator) as broken:
        answer = broken.post("/translate", **ASKED)
        assert (answer.status, answer.body) == (500, {"error": "an unexpected error; the server's log describes it"})
        assert broken.ask("/health").status == 200
    (report,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert report.getMessage().startswith("ZeroDivisionError; this is a defect of tfm: ")
    assert report.exc_info


def test_log_has_a_line_per_request_without_its_text(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="transformer_cli")
    with running(translator, api_key="geheim") as silent:
        silent.ask("/translate?q=Hund&source=de&target=en&api_key=geheim", b"")
        silent.ask("/detect?q=Hund&api_key=falsch", b"")
        silent.ask("/languages?api_key=geheim")
        silent.ask(f"/{'x' * 200}?q=Hund")
    lines = [record.getMessage() for record in caplog.records]
    assert [re.sub(r"\d+ ms", "n ms", re.sub(r"^[\d-]{10} [\d:]{8}", "now", line)) for line in lines] == [
        "now 127.0.0.1 POST /translate 200 n ms",
        "now 127.0.0.1 POST /detect 403 n ms",
        "now 127.0.0.1 GET /languages 200 n ms",
        f"now 127.0.0.1 GET /{'x' * 99} 404 n ms",
    ]


def test_log_names_the_proxys_client_and_escapes_headers(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="transformer_cli")
    with running(translator) as found:
        for named in ("203.0.113.7", "1.2.3.4, 2001:db8::1", "9" * 20_000, "x 200 3 ms\u2028é"):
            found.ask("/health?x", X_Forwarded_For=named.encode().decode("latin-1"))
    clients = [record.getMessage().split()[2:5] for record in caplog.records if "/health" in record.getMessage()]
    expected = ["203.0.113.7", "2001:db8::1", "9" * 100, "x%20200%203%20ms%E2%80%A8%C3%A9"]
    assert clients == [[client, "GET", "/health"] for client in expected]


def test_create_app_two_runs_of_one_direction_are_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="both translate from de into en; a request could not say which one it wants"):
        create_app([translator] * 2)


def test_bind_used_address_is_refused() -> None:
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        assert url_of(bound) == f"http://127.0.0.1:{port}"
        taken = rf"^--host 127.0.0.1 --port {port}: Address already in use; choose another"
        with pytest.raises(ConfigError, match=taken):
            bind("127.0.0.1", port)


def test_listening_socket_connections_read_little_at_a_time() -> None:
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname()) as client:
            client.sendall(b"1\r\nx\r\n" * 1000)
            with bound.accept()[0] as accepted:
                assert len(accepted.recv(1 << 18)) <= server.READ_BYTES


def test_translate_each_sentence_counts_as_a_line_in_the_queue(translator: Translator) -> None:
    with running(translator, limits=Limits(waiting_lines=2)) as small:
        assert small.post("/translate", **{**ASKED, "q": "Hund. Der Hund."}).status == 200
        assert small.post("/translate", **{**ASKED, "q": "Hund. Der Hund. Hund."}).status == 503
        assert small.post("/translate", **{**ASKED, "q": "Hund. Der Hund. Hund.", "split": False}).status == 200
