"""The command line: exit codes, and errors as one line on standard error."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kinds import Tfm
from pretended import pretended_gpus
from transformer_cli.errors import PACKAGE, Interrupted

COMMANDS = (
    *("prepare", "train", "curves", "evaluate", "compare", "score", "translate", "inspect", "serve"),
    *("import", "runs", "export", "config", "doctor"),
)


def assert_one_line(answer: tuple[int, str, str], *fragments: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith("tfm: error: ")
    assert [fragment for fragment in fragments if fragment not in err] == [], err


@pytest.mark.parametrize("command", ["translate --device cuda Hallo", "train --set training.device=cuda"])
def test_train_on_missing_device_prints_one_line(tfm: Tfm, project: Path, command: str) -> None:
    with pretended_gpus(0):
        answer = tfm(*command.split(), cwd=project)
    assert_one_line(answer, "device cuda", "torch sees no CUDA device here", "choose")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `tfm train` raise an error."""

    def let(error: BaseException) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("transformer_cli.api.train", fail)

    return let


def rank(number: int) -> dict[str, int]:
    """The environment of one of two processes, without the address of the other."""
    return {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}


def test_several_processes_each_print_their_error(tfm: Tfm, tmp_path: Path) -> None:
    answer = tfm("train", "--set", "training.device=cpu", cwd=tmp_path, environment=rank(1))  # at no address
    assert_one_line(answer, "rank 1: the other processes cannot be")


def test_several_processes_rank_0_reports_the_signal(
    tfm: Tfm, tmp_path: Path, broken: Callable[[BaseException], None]
) -> None:
    broken(Interrupted("stopped", 15))
    for number, said in enumerate(("tfm: stopped\n", "")):
        assert tfm("train", cwd=tmp_path, environment=rank(number)) == (143, "", said)


@pytest.mark.parametrize("command", ["translate", "evaluate", "compare"])
def test_command_with_a_result_is_refused_in_several_processes(tfm: Tfm, tmp_path: Path, command: str) -> None:
    code, out, err = tfm(command, cwd=tmp_path, environment=rank(0))
    assert (code, out) == (2, "")
    assert f"tfm {command} runs in one process; start it without torchrun" in err


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",), ("train", "-h")], ids=" ".join)
def test_help_goes_to_standard_output(tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = tfm(*arguments, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "Usage: tfm" in out


def test_help_lists_every_command_with_its_description(tfm: Tfm, tmp_path: Path) -> None:
    out = tfm("--help", cwd=tmp_path)[1]
    groups = re.findall(r"^(\w[\w ]+):$", out, re.MULTILINE)
    assert groups == ["Options", "Data and training", "Evaluation", "Translation", "Runs and settings"]
    listed = out.partition("Data and training:\n")[2]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")] == list(COMMANDS)
    assert "..." not in listed  # what would not fit in 80 columns


def test_help_of_translate_has_groups_of_options(tfm: Tfm, tmp_path: Path) -> None:
    out = tfm("translate", "-h", cwd=tmp_path)[1]
    groups = re.findall(r"^(\w[\w ]+):$", out, re.MULTILINE)
    assert groups == ["Arguments", "Input", "Model and search", "Output", "Options"]
    of_prepare = tfm("prepare", "-h", cwd=tmp_path)[1].partition("\nInput:")[2].partition("\n\n")[0]
    assert re.findall(r"^  (--\w+)", of_prepare, re.MULTILINE) == ["--source", "--target", "--to", "--columns"]


def test_python_m_is_the_same_as_tfm(tfm: Tfm, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "transformer_cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == tfm("--version", cwd=tmp_path)
    assert done.stdout.startswith("tfm 0.")


def test_unexpected_error_prints_traceback_and_one_line(
    tfm: Tfm, tmp_path: Path, broken: Callable[[BaseException], None]
) -> None:
    broken(IndexError("list index\nout of range"))
    code, out, err = tfm("train", cwd=tmp_path, environment={"GIT_DIR": "none"})  # whatever this checkout has edited
    assert (code, out) == (1, "")
    assert "Traceback (most recent call last):\n" in err
    assert err.endswith(
        "\ntfm: error: IndexError: list index out of range; this is a defect of tfm: please send its authors the lines "
        "above, and what `tfm doctor` prints\n"
    )
    assert "\ntfm: error: rank 1: IndexError: " in tfm("train", cwd=tmp_path, environment=rank(1))[2]


@pytest.mark.parametrize("is_committed", [False, True])
def test_unexpected_error_in_edited_code_names_its_file_and_line(tmp_path: Path, is_committed: bool) -> None:
    copy = tmp_path / "transformer_cli"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-a", "-m", "a"]
    edited = copy / "config/load.py"
    for git in (["init", "-q"], ["add", "."], author, ["update-ref", "refs/remotes/origin/HEAD", "HEAD"]):
        subprocess.run(["git", *git], cwd=copy, check=True)
    old = "    shipped = SHIPPED /"
    text = edited.read_text(encoding="utf-8").replace(old, f"    name.matmul()\n{old}")
    edited.write_text(text, encoding="utf-8")
    if is_committed:
        subprocess.run(["git", *author], cwd=copy, check=True)
    command = [sys.executable, "-m", "transformer_cli", "config", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    line = text[: text.index("name.matmul")].count("\n") + 1
    said = f"'matmul'; look into {edited}, line {line}, first: this file is not the one that was installed\n"
    assert done.stderr.endswith(said)


@pytest.mark.parametrize(
    ("number", "path", "remedy"),
    [
        (errno.EROFS, "runs/x", "correct the path or its permissions"),
        (errno.ENOENT, None, None),
        (errno.ENOSPC, "/elsewhere/x", "free disk space, or raise the quota"),
    ],
)
def test_os_error_with_path_or_full_disk_exits_with_1(
    number: int, path: str | None, remedy: str | None, tfm: Tfm, tmp_path: Path, broken: Callable[[BaseException], None]
) -> None:
    broken(OSError(number, os.strerror(number), path))
    answer = tfm("train", cwd=tmp_path, environment={"GIT_DIR": "none"})
    if remedy:
        assert_one_line(answer, f"{path}: {os.strerror(number)}; {remedy}")
    else:
        assert answer[2].endswith("what `tfm doctor` prints\n")


def test_windows_prints_that_it_is_unsupported(tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_one_line(tfm("--version", cwd=tmp_path), "Windows is not supported", "WSL")
