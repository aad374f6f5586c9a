"""`tfm serve` as a process: its address, signals, reloading, and an empty key."""

import http.client
import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from forked import Forks
from kinds import Tfm
from served import PATIENCE_S
from transformer_cli import Translator

SLOW = """\
import time
from pathlib import Path
from transformer_cli import Translator
translate = Translator.translate_lines

def wait(*all, **named):
    while not Path("go").exists():
        time.sleep(0.01)
    return translate(*all, **named)

Translator.translate_lines = wait
"""
ADDRESS = r"^serving at ([^,]+),"


def wait_for(path: Path, pattern: str) -> re.Match[str]:
    """Wait until a file matches a pattern. Returns the match."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists() and (found := re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)):
            return found
        time.sleep(0.02)
    raise AssertionError(path.read_text(encoding="utf-8"))


def wait_for_lines(url: str, count: int) -> None:
    """Wait until so many lines of requests wait for their translation."""
    while f"\ntfm_waiting_lines {count}.0\n" not in urllib.request.urlopen(f"{url}/metrics").read().decode():
        time.sleep(0.02)


def ask(url: str, **parameters: Any) -> Any:
    body, kind = json.dumps(parameters).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/translate", body, kind)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_serve_signal_answers_running_requests_first(
    forks: Forks, project: Path, tmp_path: Path, translator: Translator
) -> None:
    served = ["--port", 0, "--run", project / "runs/tiny", "--protect-pattern", r"#\w+"]
    pid = forks.start("serve", *served, cwd=tmp_path, before=SLOW)
    url = wait_for(tmp_path / "err.txt", r"^serving at (\S+), 1 at a time; Ctrl-C ends$")[1]
    lines = ["Der #Hund läuft.", "Die Frau singt."]
    with ThreadPoolExecutor(2) as clients:
        answers = [clients.submit(ask, url, q=line, source="de", target="en", api_key="") for line in lines]
        wait_for_lines(url, 2)
        os.kill(pid, signal.SIGINT)
        (tmp_path / "go").touch()
        held = translator.with_options(protect_pattern=r"#\w+")
        assert [answer.result()["translatedText"] for answer in answers] == held.translate(lines)
    assert forks.end() == 130
    assert (tmp_path / "out.txt").read_text() == ""
    first, *_, last = (tmp_path / "err.txt").read_text(encoding="utf-8").splitlines()
    assert first == f"de→en: {project / 'runs/tiny'}"
    assert last == "tfm: stopped by SIGINT; all requests were answered"


def test_serve_signal_closes_kept_connections_after_an_answer(forks: Forks, project: Path, tmp_path: Path) -> None:
    patient = "from transformer_cli.adapters.serve import server; server.LAST_REQUESTS_S = 600.0"
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=patient)
    where = urlsplit(wait_for(tmp_path / "err.txt", ADDRESS)[1])
    body = json.dumps({"q": "Hund", "source": "de", "target": "en"}).encode()

    def ask_on(connection: http.client.HTTPConnection) -> str | None:
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            assert (answer.status, answer.read()[:1]) == (200, b"{")
            return answer.headers["Connection"]

    connections = [http.client.HTTPConnection(where.hostname or "", where.port, timeout=600) for _ in range(20)]
    assert [ask_on(each) for each in connections] == [None] * 20
    os.kill(pid, signal.SIGTERM)
    for each in connections:
        while ask_on(each) is None:  # it has not noticed the signal yet
            assert each.sock is not None
        assert each.sock is None  # http.client closes it, as the answer said so
    assert forks.end() == 143


def test_serve_ctrl_c_after_a_signal_ends_at_once(forks: Forks, project: Path, tmp_path: Path) -> None:
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=SLOW)
    url = wait_for(tmp_path / "err.txt", ADDRESS)[1]
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(ask, url, q="Hund\n" * 900, source="de", target="en")
        wait_for_lines(url, 900)
        os.kill(pid, signal.SIGTERM)
        with suppress(ProcessLookupError):  # it has ended
            while True:  # of two signals at once, Python handles SIGINT first
                os.kill(pid, signal.SIGINT)
                time.sleep(0.1)
        assert forks.end() == -signal.SIGINT
        assert isinstance(answer.exception(), OSError)


def test_serve_empty_api_key_is_refused(tfm: Tfm, tmp_path: Path) -> None:
    code, _, err = tfm("serve", cwd=tmp_path, environment={"TFM_API_KEY": ""})
    assert (code, "--api-key is empty" in err) == (2, True)


def test_serve_sighup_reloads_or_keeps_the_old_run(forks: Forks, workspace: Path, tmp_path: Path) -> None:
    folder, err = workspace / "runs/tiny", tmp_path / "err.txt"
    pid = forks.start("serve", "--port", 0, "--run", folder, cwd=tmp_path)
    url = wait_for(err, ADDRESS)[1]
    question = {"q": "Der kleine Hund läuft.", "source": "de", "target": "en"}
    greedy = ask(url, **question)
    config = (folder / "config.yaml").read_text(encoding="utf-8")
    for old, new in (("sample: false", "sample: true"), ("temperature: 1.0", "temperature: 1000.0")):
        assert old in config
        config = config.replace(old, new)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    os.kill(pid, signal.SIGHUP)
    wait_for(err, r"^reloaded$")
    sampled = ask(url, **question)
    assert sampled != greedy
    (folder / "source.vocab.txt").write_text("")
    os.kill(pid, signal.SIGHUP)
    wait_for(err, rf"^error: not reloaded: {folder}: damaged run: .*; the server keeps the models it has$")
    assert ask(url, **question) == sampled
    os.kill(pid, signal.SIGTERM)
    assert forks.end() == 143


def test_serve_loses_no_request_while_reloading(
    forks: Forks, project: Path, tmp_path: Path, translator: Translator
) -> None:
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path)
    url = wait_for(tmp_path / "err.txt", ADDRESS)[1]
    lines = ["Der Hund läuft.", "Die Frau singt."]
    expected = translator.translate(lines)
    with ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(ask, url, q=lines[n % 2], source="de", target="en") for n in range(24)]
        while not all(each.done() for each in answers):
            os.kill(pid, signal.SIGHUP)
            time.sleep(0.1)
    assert [each.result()["translatedText"] for each in answers] == expected * 12
    wait_for(tmp_path / "err.txt", r"^reloaded$")
    os.kill(pid, signal.SIGTERM)
    assert forks.end() == 143


def test_serve_signal_counts_unanswered_requests(forks: Forks, project: Path, tmp_path: Path) -> None:
    soon = f"{SLOW}from transformer_cli.adapters.serve import server; server.SHUTDOWN_TIMEOUT_S = 0.3"
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=soon)
    url = wait_for(tmp_path / "err.txt", ADDRESS)[1]
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(ask, url, q="Hund", source="de", target="en")
        wait_for_lines(url, 1)
        os.kill(pid, signal.SIGTERM)
        error = answer.exception()
    (tmp_path / "go").touch()
    assert isinstance(error, urllib.error.HTTPError)
    with error:
        assert (error.code, "the server is shutting down" in json.load(error)["error"]) == (503, True)
    assert forks.end() == 143
    assert wait_for(tmp_path / "err.txt", r"^tfm: stopped by SIGTERM; requests without an answer: 1$")
