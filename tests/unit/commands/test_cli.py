"""The command line: exit codes, and one line on standard error that says what was wrong."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sealed import edit_sealed
from transformer_cli.errors import Interrupted

COMMANDS = (
    *("prepare", "train", "evaluate", "compare", "score", "translate", "inspect", "serve", "curves"),
    *("runs", "export", "verify", "config", "doctor"),
)
Tfm = Callable[..., tuple[int, str, str]]


def assert_one_line(answer: tuple[int, str, str], *fragments: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith("tfm: error: ")
    assert [fragment for fragment in fragments if fragment not in err] == [], err


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        pytest.param(("translate", "Hallo"), ("runs/: no run yet", "tfm train"), id="no run"),
        pytest.param(("evaluate",), ("runs/: no run yet", "tfm train"), id="no run to judge"),
        pytest.param(("train",), ("data/: no dataset multi30k de→en", "tfm prepare"), id="no dataset"),
        pytest.param(("train", "--config", "no.yaml"), ("no.yaml: no such config file",), id="no config file"),
        pytest.param(
            ("train", "--set", "training.learning_rat=1"),
            ("training.learning_rat: unknown key; did you mean learning_rate?",),
            id="unknown key",
        ),
        pytest.param(("train", "--set", "model.dropout=no"), ("model.dropout", "not false"), id="wrong type"),
        pytest.param(
            ("train", "--set", "model.dropout=1.5"), ("model.dropout", "less than 1", "1.5"), id="wrong range"
        ),
        pytest.param(("train", "--set", "epochs"), ("--set epochs: write KEY=VALUE",), id="no value"),
        pytest.param(
            ("prepare", "--set", "data.source=it"), ("data: source: 'it'", "de, en, fr, cs"), id="wrong language"
        ),
        pytest.param(("train", "--set", "name=[a"), ("--set name=[a: line 1: not YAML: ",), id="not YAML"),
        pytest.param(
            ("prepare", "--set", "data.files={train: {source: a, target: b}, valid: {source: a, target: b}}"),
            ("files is set, but corpus is multi30k; set corpus: files",),
            id="files of another corpus",
        ),
        pytest.param(("train", "--set", "training.device=gpu"), ("training.device", "gpu"), id="no such device"),
        pytest.param(("inspect", "--vectors", "no.vec", "Hund"), ("no.vec: cannot be read",), id="no vectors"),
    ],
)
def test_mistakes_in_an_empty_folder(
    tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    assert_one_line(tfm(*arguments, cwd=tmp_path), *fragments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "fragments"),
    [
        pytest.param(("translate", "--run", "big"), b"", ("runs/big: no such run; runs/ has tiny",), id="no such run"),
        pytest.param(("evaluate", "--split", "tset"), b"", ("no split 'tset'", "train, valid, test"), id="no split"),
        pytest.param(("translate", "--input", "no.de"), b"", ("no.de: cannot be read",), id="no input"),
        pytest.param(
            ("evaluate", "--input", "no.de", "--reference", "no.en"), b"", ("no.de: cannot be read",), id="no files"
        ),
        pytest.param(
            ("compare", "tiny", "big"), b"", ("runs/big: no such run", "no file big"), id="nothing to compare"
        ),
        pytest.param(
            ("score", "--input", "no.de", "--target", "no.en"), b"", ("no.de: cannot be read",), id="nothing to score"
        ),
        pytest.param(
            ("translate",),
            b"Gr\xfc\xdfe\nHallo\n",
            ("standard input: line 1", "byte 3", "0xfc", "not UTF-8"),
            id="not UTF-8",
        ),
        pytest.param(
            ("translate", "--device", "gpu", "Hallo"),
            b"",
            ("gpu",),
            id="no such device",
        ),
        pytest.param(
            ("evaluate", "--output", "runs"),
            b"",
            ("runs",),
            id="output is a folder",
        ),
        pytest.param(("inspect", " "), b"", ("the sentence is blank",), id="nothing to inspect"),
        pytest.param(("inspect", "Hund " * 15), b"", ("15 tokens", "at most 14"), id="too long to inspect"),
        pytest.param(("inspect", "--layer", "2", "Hund"), b"", ("layer 2: the encoder", "1 to 1"), id="no such layer"),
        pytest.param(("inspect", "--head", "0", "Hund"), b"", ("head 0: a layer has heads 1 to 2",), id="no such head"),
        pytest.param(
            ("inspect", "--output", "runs", "Hund"), b"", ("runs: cannot be written",), id="picture is a folder"
        ),
        pytest.param(
            ("translate", "--attention", "runs", "Hund"), b"", ("runs: cannot be written",), id="attention is a folder"
        ),
        pytest.param(
            ("translate", "--attention", "a.png", " "), b"", ("the sentence is blank",), id="nothing to attend to"
        ),
    ],
)
def test_mistakes_beside_a_trained_run(
    tfm: Tfm, project: Path, arguments: tuple[str, ...], stdin: bytes, fragments: tuple[str, ...]
) -> None:
    assert_one_line(tfm(*arguments, stdin=stdin, cwd=project), *fragments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--set", "training.device=cuda"),
        ("translate", "--device", "cuda", "Hallo"),
        ("evaluate", "--device", "cuda:7"),
    ],
)
def test_cuda_that_is_absent(
    tfm: Tfm, project: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert_one_line(tfm(*arguments, cwd=project), "device cuda", "torch sees no CUDA device here", "choose")


def test_of_several_processes_the_first_says_what_all_of_them_find(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def be_ended(seconds: float) -> None:
        waits.append(seconds)
        raise SystemExit(-15)  # torchrun ends all when one has ended

    monkeypatch.setattr("time.sleep", be_ended)
    for rank, expected in enumerate((1, -15)):
        be_rank(rank, monkeypatch)
        code, out, err = tfm("train", "--set", "training.sed=1", cwd=tmp_path)
        assert (code, out, err.count("\n")) == (expected, "", 1 - rank)
    assert waits == [30]  # the silent one leaves the other time to speak


def test_of_several_processes_one_that_is_not_ended_says_its_own_error(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    be_rank(1, monkeypatch)
    assert_one_line(tfm("train", "--set", "training.sed=1", cwd=tmp_path), "training.sed: unknown key")


def test_of_several_processes_the_first_says_that_they_were_stopped(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Interrupted("stopped", 15)

    monkeypatch.setattr("transformer_cli.training.trainer.train", stop)
    monkeypatch.setattr("time.sleep", lambda _: None)
    for rank, said in enumerate(("tfm: stopped\n", "")):
        be_rank(rank, monkeypatch)
        assert tfm("train", cwd=tmp_path) == (143, "", said)


def test_each_process_says_that_it_has_lost_the_others(
    tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_rank(1, monkeypatch)  # and nobody waits for it at any address
    assert_one_line(tfm("train", "--set", "training.device=cpu", cwd=tmp_path), "rank 1: the other processes cannot be")


def be_rank(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 2), ("LOCAL_WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("MASTER_ADDR", raising=False)


def test_a_language_without_a_tokeniser(tfm: Tfm, corpus: Path, tmp_path: Path) -> None:
    answer = tfm("prepare", "--config", corpus / "tiny.yaml", "--set", "data.source=qq", cwd=tmp_path)
    assert_one_line(answer, "spaCy has no tokeniser for language 'qq'")


def test_a_run_of_another_format_version(tfm: Tfm, workspace: Path) -> None:
    edit_sealed(workspace / "runs/tiny/run.json", lambda value: value.update(format_version=99))
    assert_one_line(tfm("translate", "Hallo", cwd=workspace), "runs/tiny: format version 99", "train it again")


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("model.safetensors", ("translate", "Hallo")),
        ("model.safetensors", ("train",)),
        ("state.safetensors", ("train",)),
        ("state.json", ("train",)),
    ],
)
def test_a_truncated_checkpoint(tfm: Tfm, corpus: Path, workspace: Path, file: str, command: tuple[str, ...]) -> None:
    for path in (workspace / "runs/tiny/checkpoints").glob(f"*/{file}"):
        path.write_bytes(path.read_bytes()[:-10])
    config = ("--config", corpus / "tiny.yaml") if command == ("train",) else ()
    assert_one_line(tfm(*command, *config, cwd=workspace), "runs/tiny/checkpoints/step-", "bytes, and was written")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        *((*command, option) for option in ("-h", "--help") for command in [(), *((name,) for name in COMMANDS)]),
    ],
    ids=" ".join,
)
def test_help_goes_to_standard_output(tfm: Tfm, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = tfm(*arguments, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "Usage: tfm" in out


def test_what_a_command_does_is_said_in_full(tfm: Tfm, tmp_path: Path) -> None:
    _, _, listed = tfm("--help", cwd=tmp_path)[1].partition("\nCommands:\n")
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)
    assert "..." not in listed  # what would not fit in 80 columns


def test_python_m_is_the_same_as_tfm(tfm: Tfm, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "transformer_cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == tfm("--version", cwd=tmp_path)
    assert done.stdout.startswith("tfm 0.")


def test_the_command_line_imports_no_torch() -> None:
    program = "import sys, transformer_cli.commands.app, transformer_cli.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A defect in `tfm train`; reports go to the folder that is returned."""

    def fail(*_: object, **__: object) -> None:
        raise IndexError("list index\nout of range")

    monkeypatch.setattr("transformer_cli.training.trainer.train", fail)
    monkeypatch.setattr("sys.argv", ["tfm", "train", "--set", "name=a b"])
    (folder := tmp_path / "reports").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_what_nobody_foresaw_is_one_line_and_a_report(tfm: Tfm, tmp_path: Path, broken: Path) -> None:
    answer = tfm("train", cwd=tmp_path)
    (report,) = broken.iterdir()
    assert_one_line(answer, f"IndexError: list index out of range; this is a defect of tfm: please send {report} to ")
    said = report.read_text(encoding="utf-8")
    assert [line for line in said.splitlines() if line.startswith("command: ")] == [
        "command: tfm train --set 'name=a b'"
    ]
    assert all(f"\n{name} " in said for name in ("Python", "transformer-cli", "torch", "typer")), said
    assert said.endswith("IndexError: list index\nout of range\n")
    assert "Traceback (most recent call last):" in said


def test_a_report_goes_where_there_is_room(
    tfm: Tfm, tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkstemp

    def refuse(*, dir: str | None, **options: str) -> tuple[int, str]:
        if dir is None:  # full: found out when it is written
            (broken / "full").touch()
            return os.open("/dev/full", os.O_WRONLY), str(broken / "full")
        assert dir == os.path.expanduser("~")
        return make(prefix=options["prefix"], suffix=options["suffix"], dir=broken)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    answer = tfm("train", cwd=tmp_path)
    (report,) = broken.iterdir()
    assert_one_line(answer, f"please send {report} to its authors")


def test_without_any_room_for_a_report_it_says_so(
    tfm: Tfm, tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: str) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert_one_line(tfm("train", cwd=tmp_path), "IndexError", "no folder has room for a report: set TMPDIR to one")


def test_of_several_processes_each_says_its_own_defect(
    tfm: Tfm, tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_rank(1, monkeypatch)
    assert_one_line(tfm("train", cwd=tmp_path), "tfm: error: rank 1: IndexError: ")


def test_windows_is_said_not_to_be_supported(tfm: Tfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_one_line(tfm("--version", cwd=tmp_path), "Windows is not supported", "WSL")
