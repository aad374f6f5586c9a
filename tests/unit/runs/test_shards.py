"""Shards: every line is in one of them, each is whole chunks, and whoever finishes last joins them once."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from transformer_cli.errors import DataError
from transformer_cli.runs.shards import Shard, finish

FACTS = {"input": {"bytes": 4, "crc32": "1a2b3c4d"}, "runs": ["ab step-1"]}


@pytest.mark.parametrize(("total", "chunk", "count"), [(0, 7, 3), (1, 7, 3), (3500, 1000, 3), (100, 7, 4), (14, 7, 2)])
def test_every_line_is_in_one_shard_and_each_begins_a_chunk(total: int, chunk: int, count: int) -> None:
    found = [Shard(number, count).lines(total, chunk) for number in range(1, count + 1)]
    assert [line for lines in found for line in lines] == list(range(total))
    assert all(lines.start % chunk == 0 for lines in found if lines)
    sizes = [-(-len(lines) // chunk) for lines in found]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["", "2", "2/", "0/4", "5/4", "-1/4", "1/0", "1/2/3", "1 / 4", "one/4", "1/9999999"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'"):
        Shard.parse(text)
    assert Shard.parse("02/4") == Shard(2, 4)


def writes(text: str) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    return write


def never(file: BinaryIO) -> None:
    raise AssertionError("it is finished")


def test_the_last_one_joins_in_order_and_a_finished_one_is_not_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "transformer_cli")
    output = tmp_path / "out"
    finish(Shard(3, 3), output, FACTS, writes("c\n"))
    finish(Shard(3, 3), output, FACTS, never)
    finish(Shard(1, 3), output, FACTS, writes("a\n"))
    assert not output.exists()
    finish(Shard(2, 3), output, FACTS, writes("b\n"))
    assert output.read_text(encoding="utf-8") == "a\nb\nc\n"
    finish(Shard(2, 3), output, FACTS, never)
    assert [path.name for path in (tmp_path / "out.shards").iterdir()] == ["job.json"]
    said = [record.getMessage().removeprefix(f"{tmp_path}/") for record in caplog.records]
    assert said.pop(1).endswith(": finished already")
    assert said == [
        "shard 3/3 is finished; of 3, 2 not yet: 1, 2",
        "shard 3/3 is finished; of 3, 2 not yet: 1, 2",
        "shard 1/3 is finished; of 3, 1 not yet: 2",
        "out: joined from 3 shards",
        "out: joined already from 3 shards; nothing to do",
    ]


def test_an_output_that_is_gone_or_changed_is_made_anew(tmp_path: Path) -> None:
    output = tmp_path / "out"
    finish(Shard(1, 1), output, FACTS, writes("a\n"))
    output.unlink()
    finish(Shard(1, 1), output, FACTS, writes("a\n"))
    output.write_text("b\n", encoding="utf-8")
    finish(Shard(1, 1), output, FACTS, writes("a\n"))
    assert output.read_text(encoding="utf-8") == "a\n"


def test_shards_of_another_text_are_refused_until_all_is_joined(tmp_path: Path) -> None:
    output, others = tmp_path / "out", {**FACTS, "runs": ["ab step-2"]}
    finish(Shard(1, 2), output, FACTS, writes("a\n"))
    with pytest.raises(DataError, match=r"out\.shards: .* \(runs: \[.ab step-1.\] → \[.ab step-2.\]\); give the old"):
        finish(Shard(2, 2), output, others, never)
    with pytest.raises(DataError, match=r"begun with other settings \(shards: 2 → 3\)"):
        finish(Shard(2, 3), output, FACTS, never)
    finish(Shard(2, 2), output, FACTS, writes("b\n"))
    finish(Shard(1, 2), output, others, writes("c\n"))
    assert output.read_text(encoding="utf-8") == "a\nb\n"
    finish(Shard(2, 2), output, others, writes("d\n"))
    assert output.read_text(encoding="utf-8") == "c\nd\n"


def test_of_two_jobs_only_the_settings_that_differ_are_said(tmp_path: Path) -> None:
    search = {"n_best": 1, "max_tokens": None, "length_penalty": 1.0, "no_repeat_ngram": 0, "beam_size": 1}
    finish(Shard(1, 2), tmp_path / "out", {"search": search}, writes("a\n"))
    with pytest.raises(DataError, match=r"with other settings \(search\.beam_size: 1 → 2\); give"):
        finish(Shard(2, 2), tmp_path / "out", {"search": {**search, "beam_size": 2}}, never)


def test_a_finished_shard_that_is_damaged_is_not_joined(tmp_path: Path) -> None:
    output = tmp_path / "out"
    finish(Shard(1, 2), output, FACTS, writes("a\nb\n"))
    (part,) = (tmp_path / "out.shards").glob("1-of-2.*")
    part.write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"1-of-2\..*: damaged: .*; delete it, and start shard 1/2 again$"):
        finish(Shard(2, 2), output, FACTS, writes("c\n"))
    assert not output.exists()
    part.unlink()
    finish(Shard(1, 2), output, FACTS, writes("a\nb\n"))
    assert output.read_text(encoding="utf-8") == "a\nb\nc\n"


def test_two_that_finish_the_same_shard_at_once_join_the_same(tmp_path: Path) -> None:
    output = tmp_path / "out"
    finish(Shard(1, 2), output, FACTS, writes("a\n"))

    def slowly(file: BinaryIO) -> None:
        finish(Shard(2, 2), output, FACTS, writes("b\n"))  # another process is faster, and joins
        file.write(b"b\n")

    finish(Shard(2, 2), output, FACTS, slowly)
    assert output.read_text(encoding="utf-8") == "a\nb\n"
    assert [path.name for path in (tmp_path / "out.shards").iterdir()] == ["job.json"]


def test_a_record_that_is_damaged_is_one_error(tmp_path: Path) -> None:
    output = tmp_path / "out"
    finish(Shard(1, 2), output, FACTS, writes("a\n"))
    record = tmp_path / "out.shards/job.json"
    whole = record.read_text(encoding="utf-8")
    for damaged in ("", "{}", "[]", whole[:-5]):
        record.write_text(damaged, encoding="utf-8")
        with pytest.raises(DataError, match=r"job\.json: .*delete the folder .*out\.shards to begin anew$"):
            finish(Shard(2, 2), output, FACTS, never)
