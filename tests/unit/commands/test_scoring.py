"""`tfm score` as it is typed: one line of output for every pair of lines."""

import json
import re
from pathlib import Path

from kinds import Tfm


def test_score_prints_a_line_for_each_pair(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("Der alte Hund singt im Park.\n\nDie Katze singt.\n", encoding="utf-8")
    (tmp_path / "target").write_text("the old dog sings in the park.\n\nthe cat\n", encoding="utf-8")
    files = ("--input", tmp_path / "source", "--target", tmp_path / "target")
    code, out, err = tfm("score", *files, cwd=project)
    assert (code, err.count("\n")) == (0, 1)
    assert re.search(r"target: 3 lines, 12 tokens, perplexity \d+\.\d{3}\n$", err)
    first, second, third = (line.split("\t") for line in out.split("\n")[:-1])
    assert (first[1], second, third[1]) == ("9", ["0.0000", "0", "1.0000"], "3")
    code, out, _ = tfm("score", *files, "--run", "tiny", "--json", cwd=project)
    found = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [f"{each['log_prob']:.4f}" for each in found] == [first[0], second[0], third[0]]
    assert found[2].keys() == {"source", "target", "log_prob", "tokens", "ppl"}
    assert found[2]["target"] == "the cat"


def test_score_json_is_one_line_whatever_the_text_has(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    lines = ["Der Hund\u2028singt.", "Die Katze\x85singt."]  # at both of which Python, but no other program, ends lines
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ("--input", tmp_path / "source", "--target", tmp_path / "source")
    code, out, _ = tfm("score", *files, "--json", cwd=project)
    found = out.removesuffix("\n").split("\n")
    assert code == 0
    assert [json.loads(line)["target"] for line in found] == lines
    assert [text in line for text, line in zip(lines, found, strict=True)] == [True, True]  # as it is, not escaped
