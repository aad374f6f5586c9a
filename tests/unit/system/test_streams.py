"""Standard streams that are closed or full or lose their reader, and outputs such as /dev/stdout."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forked import Forks

SENTENCE = "Der alte Hund singt im Park."
ANSWER = "the old dog sings in the park.\n"
NOTHING = Path(os.devnull)
EPOCHS = ("--set", "training.epochs=2", "--set", "training.batch_size=100")


def read_lines(path: Path, count: int) -> list[str]:
    """Like `head`: open a FIFO, read so many lines, and close it."""
    with path.open(encoding="utf-8") as file:
        return [file.readline() for _ in range(count)]


def test_train_with_closed_pipes_goes_on(forks: Forks, corpus: Path, prepared: Path) -> None:
    os.mkfifo(prepared / "said")
    both = (NOTHING, prepared / "said", prepared / "said")  # 2>&1 | head -2
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.extend(read_lines(prepared / "said", 2)))
    reader.start()
    forks.start("train", "--config", corpus / "tiny.yaml", *EPOCHS, cwd=prepared, streams=both)
    code = forks.end()
    reader.join()
    assert code == 0
    assert [line.split(" ")[0] for line in found] == ["tiny:", "epoch"]
    assert len((prepared / "runs/tiny/history.jsonl").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("said", [None, Path("/dev/full")], ids=["closed", "full"])
def test_train_without_streams_goes_on(forks: Forks, corpus: Path, prepared: Path, said: Path | None) -> None:
    forks.start("train", "--config", corpus / "tiny.yaml", *EPOCHS, cwd=prepared, streams=(None, None, said))
    assert forks.end() == 0
    assert len((prepared / "runs/tiny/history.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_stderr_that_is_not_read_drops_lines_instead_of_blocking() -> None:
    read, write = os.pipe()
    command = f"""
import os, sys
os.dup2({write}, 2)
from transformer_cli.commands import streams
streams.set_up_streams()
streams.make_stderr_nonblocking()
for number in range(10_000):
    sys.stderr.write(f"line {{number}}\\n" * 9)
print("all written", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, pass_fds=[write])
    assert done.stdout == b"all written\n"
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read().startswith(b"line 0\n")


def test_translate_with_closed_standard_error_loses_no_result(forks: Forks, used: Path) -> None:
    forks.start("translate", SENTENCE, cwd=used, streams=(NOTHING, used / "out.txt", None))
    assert forks.end() == 0
    assert (used / "out.txt").read_text(encoding="utf-8") == ANSWER


@pytest.mark.parametrize(
    ("arguments", "number", "stream", "said"),
    [
        (("translate",), 0, None, "standard input: cannot be read: Bad file descriptor"),
        (("translate", SENTENCE), 1, None, "standard output: cannot be written: Bad file descriptor"),
        (("translate", SENTENCE), 1, Path("/dev/full"), "standard output: cannot be written: No space left on device"),
    ],
    ids=["closed input", "closed output", "full output"],
)
def test_stream_closed_or_full_is_one_line_error(
    forks: Forks, used: Path, arguments: tuple[str, ...], number: int, stream: Path | None, said: str
) -> None:
    chosen: list[Path | None] = [NOTHING, used / "out.txt", used / "err.txt"]
    chosen[number] = stream
    forks.start(*arguments, cwd=used, streams=(chosen[0], chosen[1], chosen[2]))
    code = forks.end()
    err = (used / "err.txt").read_text(encoding="utf-8")
    assert (code, err.count("\n")) == (1, 1), err
    assert err.startswith(f"tfm: error: {said}"), err


@pytest.mark.parametrize("command", [("translate", "--input", "many"), ("--help",)], ids=" ".join)
def test_closed_pipe_ends_a_command_with_141(forks: Forks, used: Path, command: tuple[str, ...]) -> None:
    (used / "many").write_text(f"{SENTENCE}\n" * 1001, encoding="utf-8")
    os.mkfifo(used / "results")
    reader = threading.Thread(target=read_lines, args=(used / "results", 0))
    reader.start()
    late = "import os, time\nwhile not os.path.exists('left'): time.sleep(0.01)"
    forks.start(*command, cwd=used, before=late, streams=(NOTHING, used / "results", used / "err.txt"))
    reader.join()
    (used / "left").touch()
    code = forks.end()
    assert (code, (used / "err.txt").read_text(encoding="utf-8")) == (141, "")


def test_dash_means_standard_input_or_output(forks: Forks, used: Path) -> None:
    (used / "asked").write_text(f"{SENTENCE}\n", encoding="utf-8")
    (used / "answer").write_text(ANSWER, encoding="utf-8")
    chosen = (used / "asked", used / "out.txt", used / "err.txt")
    for arguments, answer in {
        ("translate", "--input", "-", "--output", "-"): ANSWER,
        ("translate", "--format", "html"): ANSWER,
        ("score", "--input", "-", "--translation", "answer"): "",
        ("compare", "tiny", "answer", "--input", "-", "--reference", "answer"): "",
    }.items():
        forks.start(*arguments, cwd=used, streams=chosen)
        assert forks.end() == 0, arguments
        assert (used / "out.txt").read_text(encoding="utf-8").endswith(answer)
    assert not (used / "-").exists()


def test_evaluate_to_standard_output_prints_translations_alone(forks: Forks, used: Path) -> None:
    (used / "asked").write_text(f"{SENTENCE}\n", encoding="utf-8")
    (used / "answer").write_text(ANSWER, encoding="utf-8")
    chosen = (used / "asked", used / "out.txt", used / "err.txt")
    forks.start("evaluate", "--input", "-", "--reference", "answer", "--output", "-", cwd=used, streams=chosen)
    assert forks.end() == 0
    assert (used / "out.txt").read_text(encoding="utf-8") == ANSWER
    assert (used / "err.txt").read_text(encoding="utf-8").startswith("split  sentences ")
    code, out, err = forks.run("evaluate", "--output", "-", "--output-tokens", "-", cwd=used)
    assert (code, out) == (2, "")
    assert err.endswith("only one of --output and --output-tokens can go to standard output\n")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_output_to_dev_stdout_is_appended(forks: Forks, used: Path, name: str) -> None:
    (used / "answer").write_text(ANSWER, encoding="utf-8")
    append = "import os; os.dup2(os.open('all.txt', os.O_WRONLY | os.O_APPEND), 1)"  # what the shell does for >>
    (used / "all.txt").write_text("before\n", encoding="utf-8")
    code, _, err = forks.run("translate", SENTENCE, "--output", name, cwd=used, before=append)
    assert (code, err) == (0, "")
    assert (used / "all.txt").read_text(encoding="utf-8") == f"before\n{ANSWER}"
    (used / "asked").write_text(f"{SENTENCE}\n", encoding="utf-8")
    arguments = ("evaluate", "--input", "asked", "--reference", "answer", "--output", name)
    forks.start(*arguments, cwd=used, streams=(NOTHING, used / "out.txt", used / "err.txt"))
    assert forks.end() == 0, (used / "err.txt").read_text(encoding="utf-8")
    table, *_, last = (used / "out.txt").read_text(encoding="utf-8").splitlines()
    assert (table.split()[:2], f"{last}\n") == (["split", "sentences"], ANSWER)


def test_streams_are_utf_8_in_any_locale() -> None:
    program = "from transformer_cli.commands.streams import set_up_streams\n"
    program += "set_up_streams()\nprint('gr\\xf6\\xdfe')\nraise SystemExit('\\ud800')"
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert (done.stdout, done.stderr) == ("größe\n".encode(), b"?\n")


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "message\nresult\n"), ({"PYTHONUNBUFFERED": "1"}, "result\nmessage\n")]
)
def test_streams_buffer_unless_pythonunbuffered_is_set(environment: dict[str, str], expected: str) -> None:
    program = (
        "import sys; from transformer_cli.commands.streams import set_up_streams; set_up_streams()\n"
        "print('result'); print('message', file=sys.stderr)"
    )
    named = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | environment
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=named, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == expected
