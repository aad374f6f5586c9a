"""`tfm serve` as a process: it says where it is, ends in order, and needs its extra."""

import importlib.util
import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from forked import Forks
from transformer_cli.translator import Translator

SLOW = """\
import time
from transformer_cli.translator import Translator
translate = Translator.translate_lines
Translator.translate_lines = lambda *all, **named: time.sleep(1) or translate(*all, **named)
"""
PATIENCE_S = 60.0
ADDRESS = r"^serving at ([^,]+),"


def told(path: Path, pattern: str) -> re.Match[str]:
    """Wait until a file has what a pattern describes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists() and (found := re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)):
            return found
        time.sleep(0.02)
    raise AssertionError(path.read_text(encoding="utf-8"))


def ask(url: str, **parameters: Any) -> Any:
    request = urllib.request.Request(
        f"{url}/translate", json.dumps(parameters).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_a_signal_ends_it_when_what_runs_is_answered(
    forks: Forks, project: Path, tmp_path: Path, translator: Translator
) -> None:
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=SLOW)
    url = told(tmp_path / "err.txt", r"^serving at (\S+), 1 at a time; Ctrl-C ends$")[1]
    lines = ["Der Hund läuft.", "Die Frau singt."]
    with ThreadPoolExecutor(2) as clients:
        answers = [clients.submit(ask, url, q=line, source="de", target="en", api_key="") for line in lines]
        time.sleep(0.5)  # the answers take longer
        os.kill(pid, signal.SIGINT)
        assert [answer.result()["translatedText"] for answer in answers] == translator.translate(lines)
    assert forks.end() == 130
    assert (tmp_path / "out.txt").read_text() == ""
    first, *_, last = (tmp_path / "err.txt").read_text(encoding="utf-8").splitlines()
    assert first == f"de→en: {project / 'runs/tiny'}"
    assert last == "tfm: stopped by SIGINT; what had been asked before is answered"


def test_ctrl_c_after_another_signal_ends_it_at_once(forks: Forks, project: Path, tmp_path: Path) -> None:
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=SLOW)
    url = told(tmp_path / "err.txt", ADDRESS)[1]
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(ask, url, q="Hund\n" * 900, source="de", target="en")
        time.sleep(0.5)
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.4)  # until it has noticed
        os.kill(pid, signal.SIGINT)
        assert forks.end() == -signal.SIGINT
        assert isinstance(answer.exception(), OSError)


def test_without_its_extra_one_line_says_what_to_install(
    tfm: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert tfm("serve", cwd=tmp_path) == (
        1,
        "",
        "tfm: error: tfm serve needs uvicorn, which is not installed; "
        "run `pip install 'fastapi>=0.116' 'starlette>=0.44' 'uvicorn>=0.30,<0.55' 'h11>=0.16' "
        "'python-multipart>=0.0.27' 'py3langid>=0.2.2'`\n",
    )


def test_an_empty_key_lets_nobody_in(
    tfm: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFM_API_KEY", "")
    code, _, err = tfm("serve", cwd=tmp_path)
    assert (code, "--api-key is empty" in err) == (2, True)


def test_more_idle_connections_than_files_leave_room_for_others_who_have_the_key(
    forks: Forks, project: Path, tmp_path: Path
) -> None:
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    key = {"TFM_API_KEY": "geheim"}
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=few, environment=key)
    url = told(tmp_path / "err.txt", ADDRESS)[1]
    where = urlsplit(url)
    with ExitStack() as idle:
        for _ in range(150):
            idle.enter_context(socket.create_connection((where.hostname, where.port)))
        assert ask(url, q="Hund", source="de", target="en", api_key="geheim")
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            ask(url, q="Hund", source="de", target="en")
        refused.value.close()
    os.kill(pid, signal.SIGTERM)
    assert forks.end() == 143
    assert len((tmp_path / "err.txt").read_text(encoding="utf-8").splitlines()) < 10


def test_what_takes_too_long_at_the_end_is_told_so(forks: Forks, project: Path, tmp_path: Path) -> None:
    soon = (
        f"{SLOW.replace('sleep(1)', 'sleep(2)')}from transformer_cli.serve import server; server.ENDING_SECONDS = 0.3"
    )
    pid = forks.start("serve", "--port", 0, "--run", project / "runs/tiny", cwd=tmp_path, before=soon)
    url = told(tmp_path / "err.txt", ADDRESS)[1]
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(ask, url, q="Hund", source="de", target="en")
        time.sleep(0.5)
        os.kill(pid, signal.SIGTERM)
        error = answer.exception()
    assert isinstance(error, urllib.error.HTTPError)
    with error:
        assert (error.code, "the server ends" in json.load(error)["error"]) == (503, True)
    assert forks.end() == 143
    assert told(tmp_path / "err.txt", r"^tfm: stopped by SIGTERM; requests without an answer: 1$")
