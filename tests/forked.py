"""`tfm` in processes of its own, forked from one that has imported everything: real signals, streams and exit codes.

Starting each of them by itself would take seconds, most of them for importing torch. All workers of xdist share the one
that has imported everything: it forks a process for each of them, which forks `tfm`.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from isolation import CACHES

SERVER = """\
import atexit, gc, json, os, select, sitecustomize, socket, sys, threading
for module in json.loads(sys.argv[1]):
    __import__(module)
from functools import cache
from transformer_cli.text import words
from transformer_cli.adapters.study import plots
from transformer_cli.commands.app import main
import torch
weight = torch.nn.Parameter(torch.ones(1))
weight.sum().backward()
torch.optim.Adam([weight]).step()  # the first step of all imports a lot
plots.draw_curves = lambda histories: plots.Figure((1, 1))  # drawing takes longer than a tiny epoch
words._blank_tokenizer = cache(words._blank_tokenizer)  # and these take half a second each
for language in ("de", "en"):
    words._blank_tokenizer(language)
gc.freeze()  # a collection in a fork would copy all of the memory
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[2])
listening.listen()
print("ready", flush=True)
while listening in select.select([listening, sys.stdin], [], [])[0]:
    worker = listening.accept()[0].makefile("rw")
    if os.fork() == 0:
        break
    worker.close()
else:  # who has started it has ended
    os._exit(0)
listening.close()  # else workers could connect to it when nobody accepts them any more
os.environ.clear()
os.environ.update(json.loads(worker.readline()))
sitecustomize.watch()  # what is forked may break what is isolated: the worker looks
for line in worker:
    wanted = json.loads(line)
    pid = os.fork()
    if pid == 0:
        break
    print(pid, file=worker, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=worker, flush=True)
else:
    os._exit(0)
os.chdir(wanted["cwd"])
os.environ.update(wanted["environment"])
for number, path in enumerate(wanted["streams"]):
    os.close(number)
    if path is not None:
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags, 0o600)
        if opened != number:  # an earlier one is closed
            os.dup2(opened, number)
            os.close(opened)
for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
    stream = None if wanted["streams"][number] is None else open(number, mode, closefd=False)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
sys.argv = ["tfm", *wanted["arguments"]]
exec(wanted["before"])
try:
    main()
except SystemExit as ended:  # what Python does at its end, without taking apart all that was imported
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(ended.code)
"""
NAME = "forks"  # of the socket
MODULES = (
    *("sacrebleu", "spacy.lang.de", "spacy.lang.en", "transformer_cli.api", "transformer_cli.translate"),
    *("transformer_cli.data.make_dataset", "transformer_cli.training.trainer", "transformer_cli.scoring.evaluate"),
    *("transformer_cli.adapters.study.plots", "transformer_cli.adapters.study.compare"),
)


class Forks:
    """A process that runs `tfm` in forks of itself, one at a time."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._running: int | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        folder, here = Path(os.environ[CACHES]), Path.cwd()
        with (folder / "forks.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.chdir(folder)  # a socket's name has at most some hundred bytes
            try:
                self._socket.connect(NAME)
            except OSError:  # nobody has started it, or who has started it has ended
                Path(NAME).unlink(missing_ok=True)
                self._server = _started()
                self._socket.connect(NAME)
            finally:
                os.chdir(here)
        self._talk = self._socket.makefile("rw", encoding="utf-8")
        self._say(dict(os.environ))

    def start(
        self,
        *arguments: object,
        cwd: Path,
        before: str = "",
        streams: tuple[Path | None, Path | None, Path | None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Start `tfm` with these arguments. Returns its process id; `end` waits for it.

        before: Python that runs first. streams: files or FIFOs for standard input, output and error; None is a closed
        one. By default nothing comes in, and out.txt and err.txt in `cwd` get what goes out.
        """
        if self._running is not None:  # a test that failed did not wait for its process
            with suppress(ProcessLookupError):
                os.kill(self._running, signal.SIGKILL)
            self.end()
        for name in ("out.txt", "err.txt"):
            (cwd / name).unlink(missing_ok=True)
        chosen = streams or (Path(os.devnull), cwd / "out.txt", cwd / "err.txt")
        wanted: dict[str, Any] = {
            "arguments": [str(each) for each in arguments],
            "cwd": str(cwd),
            "before": before,
            "environment": dict(environment or {}),
            "streams": [None if path is None else str(path) for path in chosen],
        }
        self._say(wanted)
        self._running = int(self._answer())
        return self._running

    def end(self) -> int:
        """Wait for the process that was started last. Returns its exit code, or -n if signal n ended it."""
        code, self._running = int(self._answer()), None
        return code

    def run(self, *arguments: object, cwd: Path, before: str = "") -> tuple[int, str, str]:
        """Run `tfm` from start to end: (exit code, standard output, standard error)."""
        self.start(*arguments, cwd=cwd, before=before)
        code = self.end()
        return code, (cwd / "out.txt").read_text(encoding="utf-8"), (cwd / "err.txt").read_text(encoding="utf-8")

    def close(self) -> None:
        """End the process, and the one that all share if it was started here: those that it has forked go on."""
        self._talk.close()
        self._socket.close()
        if self._server is not None:
            with self._server:  # closes its standard input, and waits for it alone
                pass

    def _say(self, value: object) -> None:
        print(json.dumps(value), file=self._talk, flush=True)

    def _answer(self) -> str:
        line = self._talk.readline()
        assert line, "the process has ended"
        return line.strip()


def _started() -> "subprocess.Popen[str]":
    """The process that has imported everything, and waits for workers in the working folder."""
    command = [sys.executable, "-c", SERVER, json.dumps(MODULES), NAME]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    return server
