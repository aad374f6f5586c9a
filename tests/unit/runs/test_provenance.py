"""By what a run was made, in run.json, its weights and `tfm runs --json`; and what evaluations found."""

import hashlib
import json
import shutil
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import pytest

from opened import translator_of
from transformer_cli.runs.provenance import append_result, last_result, sha256_of_lines
from transformer_cli.runs.run import Run
from transformer_cli.scoring.evaluate import evaluate, select_texts

PACKAGES = {"tfm": "transformer-cli", "torch": "torch", "spacy": "spacy", "sacrebleu": "sacrebleu"}


def test_run_json_has_versions_and_checksums(workspace: Path) -> None:
    found = Run.open(workspace / "runs/tiny").metadata.provenance
    assert {name: found[name] for name in PACKAGES} == {name: version(package) for name, package in PACKAGES.items()}
    assert (found["python"], found["threads"] >= 1, found["shards"] >= 1) == (python_version(), True, True)
    assert found["processor"]
    assert found["device"] == "cpu"
    assert found["date"].endswith("+00:00")
    assert found["sources"].keys() == found["files"].keys() > {"train.source"}
    assert found["files"]["train.source"] == "train.de"
    assert all(len(each) == 64 for each in found["sources"].values())


def test_weights_have_the_provenance_of_run_json(workspace: Path) -> None:
    run = Run.open(workspace / "runs/tiny")
    content = (run.checkpoint("best") / "model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    kept = json.loads(header["__metadata__"]["provenance"])
    provenance = run.metadata.provenance
    assert kept == {key: provenance[key] for key in provenance if key not in ("date", "threads")}


def test_sha256_of_lines_equals_that_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Ein Haus.\n\nä\n", encoding="utf-8")
    assert sha256_of_lines(["Ein Haus.", "", "ä"]) == hashlib.sha256((tmp_path / "text").read_bytes()).hexdigest()


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "evaluations.jsonl").read_text("utf-8").split("\n")[:-1]]


def test_evaluations_have_a_line_per_evaluated_text(workspace: Path, corpus: Path) -> None:
    folder = workspace / "runs/tiny"
    (folder / "evaluations.jsonl").unlink(missing_ok=True)
    run = Run.open(folder)
    data, translator = run.config.data, translator_of(run)
    judged = evaluate(translator, select_texts(data, splits=["valid", "test"], data_dir=workspace / "data"))
    files = (corpus / "test.de", corpus / "test.en")
    judged += evaluate(translator, select_texts(data, files=files), files=files)
    lines = kept(folder)
    named = [str(path) for path in files]
    assert {line["split"]: line["files"] for line in lines} == {"valid": None, "test": None, "test.de": named}
    for line, each in zip(lines, judged, strict=True):
        assert asdict(each.result).items() <= line.items()
        assert (line["version"], line["checkpoint"]) == (version("transformer-cli"), run.checkpoint("best").name)
        assert line["decoding"] == run.config.decoding.model_dump(mode="json")
        assert line["precision"] == "float32"
        age = datetime.now(timezone.utc) - datetime.fromisoformat(line["date"])
        assert timedelta(0) <= age < timedelta(minutes=5)


def test_append_result_to_a_read_only_run_warns(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run.open(workspace / "runs/tiny")
    (run.folder / "evaluations.jsonl").unlink(missing_ok=True)
    (run.folder / "evaluations.jsonl").mkdir()
    append_result(run.folder, {"bleu": 1.0}, device="cpu", shards=None)
    assert caplog.messages == [f"{run.folder / 'evaluations.jsonl'}: this result is not saved: Is a directory"]


def test_evaluate_ensemble_saves_in_its_first_run(workspace: Path) -> None:
    folder = workspace / "runs/tiny"
    other = shutil.copytree(folder, workspace / "runs/other")
    both = translator_of(Run.open(folder), Run.open(other)).with_options(beam_size=2)
    (judged,) = evaluate(both, select_texts(both.run.config.data, data_dir=workspace / "data"))
    last = kept(folder)[-1]
    assert (last["others"], last["decoding"]["beam_size"]) == ([str(other)], 2)
    assert last["bleu"] == judged.result.bleu


@pytest.mark.parametrize("content", ["", "[]\n", "{\n", '{"bleu": "high", "others": []}\n', "\ufffe\n", "null"])
def test_last_result_ignores_other_lines(tmp_path: Path, content: str) -> None:
    assert last_result(tmp_path) is None
    (tmp_path / "evaluations.jsonl").write_text(content, encoding="utf-8")
    assert last_result(tmp_path) is None
