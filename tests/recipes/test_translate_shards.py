"""`tfm translate --output` and `--shard`: the file is byte for byte what one process prints."""

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinds import Tfm
from outcomes import PowerCut
from transformer_cli.commands import translate as module
from transformer_cli.compute.world import VARIABLES
from transformer_cli.translator import Translation, Translator


@pytest.fixture
def text(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of 60 lines, some of them blank, to be translated seven at a time."""
    monkeypatch.setattr(module, "CHUNK", 7)
    lines = (corpus / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    path = tmp_path / "in.de"
    path.write_text(
        "".join(f"{line}\n" for pair in zip(lines, ["", *lines[:29]], strict=True) for line in pair), "utf-8"
    )
    return path


@pytest.mark.parametrize(
    "options",
    [
        ("--n-best", 2, "--set", "decoding.sample=true"),
        ("--json", "--split-sentences", "--set", "decoding.sample=true"),
    ],
)
def test_shards_in_any_order_make_what_one_process_prints(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    if "--split-sentences" in options:
        text.write_text(text.read_text("utf-8").replace(".\n", ". Hund. Die Katze.\n"), "utf-8")
    code, printed, _ = tfm("translate", "--input", text, *options, cwd=project)
    assert code == 0
    output = tmp_path / "out.en"
    assert tfm("translate", "--input", text, "--output", output, *options, cwd=project) == (0, "", "")
    assert output.read_bytes() == printed.encode()
    output.unlink()
    for number in (3, 1, 4, 2):
        assert not output.exists()
        command = ("translate", "--input", text, "--output", output, "--shard", f"{number}/4", *options)
        code, out, err = tfm(*command, cwd=project)
        assert (code, out) == (0, ""), err
    assert err == f"{output}: joined from 4 shards\n"
    assert output.read_bytes() == printed.encode()
    assert tfm(*command, cwd=project) == (0, "", f"{output}: joined already from 4 shards; nothing to do\n")


def test_a_shard_that_was_killed_is_translated_when_it_is_started_again(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.en"
    command = ("translate", "--input", text, "--output", output, "--shard")
    stream = Translator.stream

    def cut_off(*arguments: Any, first_line: int, **named: Any) -> Iterator[Translation]:
        for number, each in enumerate(stream(*arguments, first_line=first_line, **named), first_line):
            if number == 22:  # the second chunk of shard 2/4
                (unfinished,) = (tmp_path / "out.en.shards").glob(".*")
                shutil.copy(unfinished, f"{str(unfinished)[:-8]}00000000")  # a kill would leave it
                raise PowerCut
            yield each

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "stream", cut_off)
        with pytest.raises(PowerCut):
            tfm(*command, "2/4", cwd=project)
    for number in (1, 3, 4):
        assert tfm(*command, f"{number}/4", cwd=project)[0] == 0
    assert not output.exists()
    assert tfm(*command, "2/4", cwd=project) == (0, "", f"{output}: joined from 4 shards\n")
    assert output.read_text(encoding="utf-8") == tfm("translate", "--input", text, cwd=project)[1]
    assert [path.name for path in (tmp_path / "out.en.shards").iterdir()] == ["job.json"]


def test_there_may_be_more_shards_than_chunks_and_the_text_may_be_packed(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path
) -> None:
    packed, output = tmp_path / "in.gz", tmp_path / "out.en"
    text.write_bytes(b"".join(text.read_bytes().splitlines(keepends=True)[:9]))
    packed.write_bytes(gzip.compress(text.read_bytes().removesuffix(b"\n")))
    for number in range(1, 4):
        code, *_ = tfm("translate", "-i", packed, "-o", output, "--shard", f"{number}/3", cwd=project)
        assert code == 0
    assert output.read_text(encoding="utf-8") == tfm("translate", "--input", text, cwd=project)[1]


def test_under_torchrun_a_rank_is_a_shard(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, printed = tmp_path / "out.en", tfm("translate", "--input", text, cwd=project)[1]
    for rank in ("1", "0"):
        for name, value in zip(VARIABLES, (rank, "2", rank, "2"), strict=True):
            monkeypatch.setenv(name, value)
        assert tfm("translate", "-i", text, "-o", output, cwd=project)[0] == 0
        assert tfm("translate", "-i", text, "-o", output, "--shard", "1/2", cwd=project)[0] == 2
        assert tfm("translate", "-i", text, cwd=project)[0] == 2
    assert output.read_text(encoding="utf-8") == printed


def test_a_shard_names_the_line_of_the_whole_text(tfm: Tfm, project: Path, text: Path, tmp_path: Path) -> None:
    text.write_text(text.read_text(encoding="utf-8") + "Hund " * 15, encoding="utf-8")
    command = ("translate", "--input", text, "--output", tmp_path / "out.en", "--shard", "2/2")
    code, out, err = tfm(*command, cwd=project)
    assert (code, out, err.startswith(f"tfm: error: {text}: line 61: 15 tokens, ")) == (1, "", True)
    assert tfm(*command, "--on-error", "copy", cwd=project)[0] == 1  # begun to stop at such lines
    (tmp_path / "out.en.shards/job.json").unlink()
    code, _, err = tfm(*command, "--on-error", "copy", cwd=project)
    assert (code, err.split("\n")[0]) == (
        0,
        f"warning: {text}: 1 too long, copied (at most 4,000 characters of each): line 61",
    )


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--shard", "2/2", "Hund"), 2, "--shard needs --input FILE and --output FILE"),
        (("--shard", "3/2", "-i", "IN", "-o", "OUT"), 2, "shards go from 1/n to n/n"),
        (("--shard", "1/2", "-i", "/dev/stdin", "-o", "OUT"), 1, "/dev/stdin: its lines have to be counted"),
        (("--shard", "1/2", "-i", "IN", "-o", "/dev/stdout"), 1, "/dev/stdout: cannot be written: shards are joined"),
        (("--shard", "1/2", "-i", "nowhere", "-o", "OUT"), 1, "nowhere: cannot be read: No such file or directory"),
        (("-i", "IN", "-o", "IN/out"), 1, "IN/out: cannot be written: Not a directory; "),
        (("--shard", "1/2", "-i", "IN", "-o", "IN/out"), 1, "IN/out: cannot be written: Not a directory; "),
        (("--shard", "1/2", "-i", "IN", "-o", "IN"), 1, "IN: cannot be written: it is the --input, from which shards"),
    ],
)
def test_what_cannot_be_cut_or_written_is_one_line(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    given = [each.replace("IN", str(text)).replace("OUT", str(tmp_path / "out")) for each in options]
    found, out, err = tfm("translate", *given, cwd=project)
    assert (found, out) == (code, "")
    assert said.replace("IN", str(text)) in " ".join(err.split())


def test_a_text_that_changes_while_it_is_translated_is_refused(
    tfm: Tfm, project: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Translator.stream

    def appending(*arguments: Any, **named: Any) -> Iterator[Translation]:
        yield from stream(*arguments, **named)
        text.write_text("Hund\n", encoding="utf-8")

    monkeypatch.setattr(Translator, "stream", appending)
    code, _, err = tfm("translate", "-i", text, "-o", tmp_path / "out", "--shard", "1/2", cwd=project)
    assert (code, err) == (1, f"tfm: error: {text}: changed while shard 1/2 was translated; start all shards again\n")
    assert [path.name for path in (tmp_path / "out.shards").iterdir()] == ["job.json"]


def test_a_link_as_output_stays_a_link(tfm: Tfm, project: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out.en")
    for number in (1, 2):
        assert tfm("translate", "-i", text, "-o", tmp_path / "link", "--shard", f"{number}/2", cwd=project)[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "out.en").read_text(encoding="utf-8").splitlines()) == 60


def test_an_output_is_whole_or_what_it_was(tfm: Tfm, project: Path, text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.en"
    output.write_text("older\n", encoding="utf-8")
    text.write_text(text.read_text(encoding="utf-8") + "Hund " * 15, encoding="utf-8")
    assert tfm("translate", "--input", text, "--output", output, cwd=project)[0] == 1
    assert output.read_text(encoding="utf-8") == "older\n"
    code, out, _ = tfm("translate", "--output", "/dev/stdout", "Der alte Hund singt im Park.", cwd=project)
    assert (code, out) == (0, "the old dog sings in the park.\n")
