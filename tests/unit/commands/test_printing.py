"""Printed results: JSON and tables."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kinds import Tfm
from transformer_cli.adapters.study.inspection import AttentionMap
from transformer_cli.commands import evaluation, training
from transformer_cli.data.make_dataset import PreparedDataset
from transformer_cli.scoring.evaluate import Result
from transformer_cli.scoring.metrics import Interval

SOURCE = {"tokens": 360634, "unknown_rate": 0.03, "longest": 44}
TARGET = {"tokens": 380188, "unknown_rate": 0.01034, "longest": 41}
MANIFEST: dict[str, Any] = {
    "settings": {"source": "de", "target": "en", "min_freq": 2},
    "vocabulary": {"source": 7851, "target": 5892},
    "splits": {"train": {"sentences": 29000, "source": SOURCE, "target": TARGET}},
    "detokenizer": {"valid_restored": 0.9974},
}


COUNTS: dict[str, Any] = {"sentences": 1000, "tokens": 14000, "loss_batch_mean": 1.75, "ppl": 5.54, "seconds": 7.64}
BLEU: dict[str, Any] = {"bleu": 35.868, "bleu_interval": Interval(35.9, 1.663), "bleu_signature": "nrefs:1|tok:13a"}
CHRF: dict[str, Any] = {"chrf": 5.5, "chrf_interval": None, "chrf_signature": "nrefs:1|nc:6"}
DETAILS: dict[str, Any] = {"brevity_penalty": 0.98, "length_ratio": 0.981, "precisions": [66.0, 42.0, 28.0, 19.0]}


def result(split: str, loss: float) -> Result:
    return Result(split=split, loss=loss, bleu_tokens=36.0, **COUNTS, **BLEU, **CHRF, **DETAILS)


def test_evaluate_json_with_non_utf8_folder_is_ascii() -> None:
    text = evaluation.results_as_json({"runs/\udcff": []})
    assert text.encode("utf-8") == b'{"run": "runs/\\udcff", "results": []}'


def test_evaluate_table_has_one_line_per_split() -> None:
    valid = result("valid-set", 12.0)
    assert evaluation.results_as_table({"runs/mine": [result("test", 1.71249), valid]}).split("\n") == [
        "split      sentences    loss    PPL  loss (batch mean)          BLEU  BLEU (tokens)  chrF  seconds",
        "test           1,000   1.712  5.540              1.750  35.87 ± 1.66          36.00  5.50      7.6",
        "valid-set      1,000  12.000  5.540              1.750  35.87 ± 1.66          36.00  5.50      7.6",
        "± half of the 95 % bootstrap interval",
        "",
        "BLEU nrefs:1|tok:13a",
        "chrF nrefs:1|nc:6",
    ]
    several = evaluation.results_as_table({"a": [result("test", 1.7)], "b": [valid]}, "csv", details=True).split("\n")
    assert [line.split(",")[:2] for line in several] == [["run", "split"], ["a", "test"], ["b", "valid-set"]]
    assert several[1].endswith(',0.98,0.981,"[66.0, 42.0, 28.0, 19.0]",7.64')
    lower = replace(valid, bleu_signature="nrefs:1|bs:9|case:lc|tok:13a")
    other = replace(valid, bleu_signature="nrefs:1|case:mixed|tok:13a")
    mixed = evaluation.results_as_table({"a": [other], "b": [lower]})
    assert [line.split()[-2] for line in mixed.split("\n")[:3]] == ["scored", "case:mixed", "case:lc"]
    assert "compare only rows that are scored alike" in mixed
    without = replace(valid, bleu_interval=None, chrf_interval=None)
    assert "±" not in evaluation.results_as_table({"runs/mine": [without]})


def test_prepare_table_has_splits_and_vocabularies() -> None:
    prepared = PreparedDataset(Path("data/mine"), MANIFEST, created=True)
    assert training.format_prepared(prepared).split("\n") == [
        "data/mine",
        "split  sentences  side   tokens  unknown  longest",
        "train     29,000    de  360,634    3.00%       44",
        "train     29,000    en  380,188    1.03%       41",
        "vocabulary (min_freq 2): de 7,851, en 5,892",
        "validation references restored exactly by detokenising: 99.7%",
    ]


def test_attention_map_repr_shows_weights_as_shades() -> None:
    rows, columns, weights = ["<sos>", "a\n"], ["ein", "ö", "两"], torch.tensor([[0.8, 0.15, 0.05], [0.0, 0.4, 0.6]])
    assert repr(AttentionMap("cross", 2, 1, rows, columns, weights, weights)).split("\n") == [
        "encoder–decoder attention, layer 2",
        "head 1  ein   ö  两",
        "<sos>    ██  ░░  ░░",
        "a\\n          ▒▒  ▓▓",
    ]


def test_score_prints_a_line_for_each_pair(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("Der alte Hund singt im Park.\n\nDie Katze singt.\n", encoding="utf-8")
    (tmp_path / "target").write_text("the old dog sings in the park.\n\nthe cat\n", encoding="utf-8")
    files = ("--input", tmp_path / "source", "--translation", tmp_path / "target")
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


def test_score_json_is_one_line_for_any_text(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    lines = ["Der Hund\u2028singt.", "Die Katze\x85singt."]  # at both of which Python, but no other program, ends lines
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ("--input", tmp_path / "source", "--translation", tmp_path / "source")
    code, out, _ = tfm("score", *files, "--json", cwd=project)
    found = out.removesuffix("\n").split("\n")
    assert code == 0
    assert [json.loads(line)["target"] for line in found] == lines
    assert [text in line for text, line in zip(lines, found, strict=True)] == [True, True]  # as it is, not escaped
