"""Chunks of sentence pairs: their tokens, in order, from this process or from others; and how the others end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count, islice

import pytest

from transformer_cli.compute.threads import available_cores
from transformer_cli.data import encoding
from transformer_cli.data.encoding import Chunk, tokenizing
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.text.words import Tokenizer

WORDS = ("de", "en", True, False)
ENDLESS = """
import os, sys
from itertools import repeat
from transformer_cli.data.encoding import tokenizing
try:
    with tokenizing(("xx", "xx", True, False), processes=2) as tokenize:
        for texts, _ in tokenize(repeat(("Ein Hund.", "A dog."))):
            print(len(texts[0]), flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


def pairs() -> Iterator[tuple[str, str]]:
    """Never the same twice, never at an end."""
    for number in count():
        yield f"Wort{number} Hund, Haus-Tür.", f"Word{number}  dog's\u2028 t-shirt!"


def broken() -> Iterator[tuple[str, str]]:
    yield from islice(pairs(), 10)
    raise DataError("line 11")


def tokens(chunks: list[Chunk]) -> list[tuple[list[str], list[str]]]:
    return [pair for _, sides in chunks for pair in zip(*(list(side.sentences()) for side in sides), strict=True)]


@pytest.mark.parametrize("processes", [1, 2])
def test_tokenizing_yields_chunks_in_order_and_lazily(
    processes: int, workers: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "PAIRS_PER_CHUNK", 4)
    chosen = list(islice(pairs(), 30))
    with tokenizing(WORDS, processes=processes) as tokenize:
        chunks = list(tokenize(iter(chosen)))
        assert list(tokenize([])) == []
        assert tokens(list(tokenize(chosen[:1]))) == tokens(chunks)[:1]  # as often as one likes
        source = pairs()
        next(tokenize(source))
        assert next(source)[0] == f"Wort{4 if processes == 1 else 16} Hund, Haus-Tür."
        with pytest.raises(DataError, match=r"^line 11$"):
            list(tokenize(broken()))
    assert [process.poll() is None for process in workers] == ([] if processes == 1 else [False, False])
    assert [len(source) for (source, _), _ in chunks] == [4] * 7 + [2]
    assert [pair for texts, _ in chunks for pair in zip(*texts, strict=True)] == chosen
    for index, language in enumerate(("de", "en")):
        tokenizer = Tokenizer(language, lowercase=True)
        split = [tokenizer.split(pair[index]) for pair in chosen]
        assert [pair[index] for pair in tokens(chunks)] == [each.words for each in split]
        sides = [both[index] for _, both in chunks]
        assert [no_space_after for side in sides for no_space_after in side.no_space_after] == [
            no_space_after for each in split for no_space_after in each.no_space_after
        ]
        assert all(len(set(side.forms)) == len(side.forms) == len(set(side.ids.tolist())) for side in sides)


def test_tokenizing_raises_the_workers_config_error(workers: list["subprocess.Popen[bytes]"]) -> None:
    with (
        pytest.raises(ConfigError, match=r"^spaCy has no tokeniser for language 'qq'"),
        tokenizing(("de", "qq", True, False), processes=2) as tokenize,
    ):
        next(tokenize(pairs()))
    assert [process.poll() is None for process in workers] == [False, False]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_available_cores_respect_cpu_affinity() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # as taskset does
    assert available_cores() == 1
    os.sched_setaffinity(0, cores)


def test_tokenizing_killed_worker_is_one_line(workers: list["subprocess.Popen[bytes]"]) -> None:
    message = (
        r"^a process that tokenised was killed by signal 9; if memory ran out, run it again on fewer cores, "
        r"for example with `taskset --cpu-list 0 tfm prepare`$"
    )
    with tokenizing(("xx", "xx", True, False), processes=2) as tokenize:
        chunks = tokenize(pairs())
        next(chunks)
        workers[1].send_signal(signal.SIGKILL)
        with pytest.raises(DataError, match=message):
            list(chunks)
    assert [process.poll() for process in workers] == [-9, -9]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_tokenizing_killed_leaves_no_worker(number: signal.Signals, code: int) -> None:
    to_all = number == signal.SIGINT  # as a terminal sends Ctrl-C
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout
    assert process.stdout.readline() == b"1000\n"
    os.kill(-process.pid if to_all else process.pid, number)
    _, errors = process.communicate(timeout=600)  # until the last process that holds the pipe has ended
    assert (process.returncode, errors) == (code, b"")
