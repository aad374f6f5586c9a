"""By what a run was made: run.json says it, and so do its weights and `tfm runs --json`."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from transformer_cli.runs.listing import list_runs
from transformer_cli.runs.provenance import text_sum
from transformer_cli.runs.run import Run

PACKAGES = {"tfm": "transformer-cli", "torch": "torch", "spacy": "spacy", "sacrebleu": "sacrebleu"}


def test_run_json_names_versions_and_sums_of_the_text_and_so_does_the_list_of_runs(workspace: Path) -> None:
    found = Run.open(workspace / "runs/tiny").identity.provenance
    assert {name: found[name] for name in PACKAGES} == {name: version(package) for name, package in PACKAGES.items()}
    assert (found["python"], found["threads"] >= 1, found["lanes"] >= 1) == (python_version(), True, True)
    assert found["processor"]
    assert found["device"] == "cpu"
    assert found["date"].endswith("+00:00")
    assert found["sources"]
    assert all(len(each) == 64 for each in found["sources"].values())
    assert next(run.provenance for run in list_runs(workspace / "runs") if run.name == "tiny") == found


def test_the_weights_say_what_run_json_says_without_the_date_and_the_threads(workspace: Path) -> None:
    run = Run.open(workspace / "runs/tiny")
    content = (run.checkpoint("best") / "model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    kept = json.loads(header["__metadata__"]["provenance"])
    provenance = run.identity.provenance
    assert kept == {key: provenance[key] for key in provenance if key not in ("date", "threads")}


def test_the_sum_of_lines_is_that_of_a_file_of_them(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Ein Haus.\n\nä\n", encoding="utf-8")
    assert text_sum(["Ein Haus.", "", "ä"]) == hashlib.sha256((tmp_path / "text").read_bytes()).hexdigest()
