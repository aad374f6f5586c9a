"""`tfm runs`: runs in every state."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kinds import Refused, Tfm
from sealed import edit_sealed, reseal, set_config
from small_run import make_run
from transformer_cli.adapters.study import plots
from transformer_cli.adapters.study.listing import ListedRun, list_runs
from transformer_cli.config.load import settings_by_key
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs.metadata import write_config
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_state
from transformer_cli.system.locks import exclusive_lock


def only(runs_dir: Path) -> ListedRun:
    (run,) = list_runs(runs_dir)
    return run


def train_longer(folder: Path, epochs: int) -> None:
    """Sets other epochs than the run was trained for."""
    run = Run.open(folder)
    training = run.config.training.model_copy(update={"epochs": epochs})
    write_config(run.folder, run.config.model_copy(update={"training": training}))


def keep(folder: Path, **values: object) -> None:
    """Appends an evaluation, as `tfm evaluate` does."""
    line = {"date": "2026-11-22T12:00:00+00:00", "checkpoint": "step-0000078", "others": [], **values}
    with (folder / "evaluations.jsonl").open("a") as file:
        given = {"files": None, "split": "test", "bleu": 30.0, "bleu_signature": "nrefs:1", **line}
        print(json.dumps(given), file=file)


@pytest.fixture
def runs_dir(workspace: Path) -> Path:
    (workspace / "runs/tiny/evaluations.jsonl").unlink(missing_ok=True)
    return workspace / "runs"


def test_list_runs_returns_the_facts_of_a_run(runs_dir: Path, tiny: Run) -> None:
    run = only(runs_dir)
    assert (run.name, run.state, run.problem, run.newest) == ("tiny", "finished", None, True)
    assert (run.corpus, run.source, run.target) == ("files", "de", "en")
    assert run.parameters == count_parameters(tiny.new_model())
    assert (run.epochs_done, run.epochs) == (6, 6)
    assert run.best_valid_loss == min(each["valid_loss"] for each in tiny.history())
    assert run.bytes == sum(path.stat().st_size for path in (runs_dir / "tiny").rglob("*") if path.is_file())
    assert run.begun is not None
    assert run.saved is not None
    assert run.begun <= run.saved
    assert (run.evaluation, run.evaluation_is_current, run.resume) == (None, None, None)


def test_runs_prints_how_to_continue_unfinished_run(tfm: Tfm, workspace: Path) -> None:
    shutil.copytree(workspace / "runs/tiny", workspace / "runs/copy")
    train_longer(workspace / "runs/copy", 7)
    copy = next(run for run in list_runs(workspace / "runs") if run.name == "copy")
    assert (copy.state, copy.epochs_done, copy.epochs) == ("unfinished", 6, 7)
    out = tfm("runs", cwd=workspace)[1]
    again = "tfm train --config runs/copy/config.yaml --set name=copy"
    assert f"\nunfinished: copy; `{again}` resumes it\n" in out
    code, _, err = tfm(*again.split()[1:], cwd=workspace)
    assert (code, "epoch 7/7" in err) == (0, True)
    assert {run.name: run.state for run in list_runs(workspace / "runs")} == {"tiny": "finished", "copy": "finished"}
    assert Run.open(workspace / "runs/copy").config.name == "copy"  # from now on it needs no --set


@pytest.mark.parametrize(("patience", "state"), [(2, "finished"), (3, "unfinished")])
def test_list_runs_with_spent_patience_is_finished(runs_dir: Path, patience: int, state: str) -> None:
    run = Run.open(runs_dir / "tiny")
    training = run.config.training.model_copy(update={"epochs": 9, "patience": patience})
    write_config(run.folder, run.config.model_copy(update={"training": training}))
    saved = run.checkpoint("last")
    changed = {**asdict(load_state(saved)), "validations_since_best": 2}
    (saved / "state.json").write_text(json.dumps(changed))
    reseal(saved)
    assert only(runs_dir).state == state


def test_list_runs_with_held_lock_is_in_training(runs_dir: Path) -> None:
    with exclusive_lock(runs_dir / ".tiny.lock"):
        assert only(runs_dir).state == "training"
    assert only(runs_dir).state == "finished"


def test_list_runs_without_checkpoint_is_new(tmp_path: Path) -> None:
    make_run(tmp_path / "runs/first")
    listed = only(tmp_path / "runs")
    assert (listed.state, listed.epochs_done, listed.parameters) == ("new", 0, None)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("run.json", None, ": missing; copy it"),
        *((name, None, ": missing") for name in ("config.yaml", "state.json")),
        ("history.jsonl", b'{"valid_loss": "low"}\n' * 6, ""),
        ("last", None, " is missing, but the run has been trained"),
        ("model.safetensors", b"broken off", ": damaged: its content is not what was written"),
        ("run.json", b"[" * 100_000, ""),
    ],
    ids=str,
)
def test_runs_lists_damaged_run_as_broken(
    tfm: Tfm, workspace: Path, name: str, content: bytes | None, problem: str
) -> None:
    for path in shutil.copytree(workspace / "runs/tiny", workspace / "runs/other").rglob(name):
        path.unlink() if content is None else path.write_bytes(content)
    code, out, err = tfm("runs", "--json", cwd=workspace)
    assert (code, err) == (0, "")
    found: dict[str, dict[str, Any]] = {run["name"]: run for run in json.loads(out)["runs"]}
    assert (found["tiny"]["state"], found["other"]["state"]) == ("finished", "broken")
    assert f"{name}{problem}" in found["other"]["problem"]
    out = tfm("runs", cwd=workspace)[1]
    assert "\nbroken: runs/other" in out
    assert out.splitlines()[0].split()[-1] == "seed"  # a run without settings differs from others in none


def test_list_runs_ignores_other_files_and_folders(runs_dir: Path) -> None:
    (runs_dir / "notes.txt").touch()
    (runs_dir / ".tiny.unfinished-1").mkdir()
    (runs_dir / "mine").mkdir()
    assert {run.name: run.state for run in list_runs(runs_dir)} == {"tiny": "finished", "mine": "broken"}


@pytest.mark.parametrize("content", ["gone\n", "../else\n", ""])
def test_list_runs_warns_of_latest_without_a_run(
    runs_dir: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (runs_dir / "latest").write_text(content)
    assert only(runs_dir).newest
    shutil.copytree(runs_dir / "tiny", runs_dir / "other")
    assert not any(run.newest for run in list_runs(runs_dir))
    (message,) = caplog.messages
    assert "latest names" in message


def test_runs_shows_last_evaluation_of_single_run(tfm: Tfm, workspace: Path) -> None:
    folder = workspace / "runs/tiny"
    (folder / "evaluations.jsonl").unlink(missing_ok=True)
    code, out, _ = tfm("evaluate", "--json", cwd=workspace)
    bleu = json.loads(out)["results"][0]["bleu"]
    keep(folder, others=["runs/b"])
    keep(folder, files=["two-lines.de", "two-lines.en"], split="two-lines.de")
    with (folder / "evaluations.jsonl").open("a") as file:
        file.write('{"bleu": 1')  # cut off by a full disk
    run = only(workspace / "runs")
    assert run.evaluation is not None
    assert (code, run.evaluation.bleu, run.evaluation.text, run.evaluation_is_current) == (0, bleu, "test", True)
    assert "`tfm evaluate` or `tfm compare`, of test\n" in tfm("runs", cwd=workspace)[1]


def test_runs_marks_bleu_of_earlier_weights(tfm: Tfm, workspace: Path) -> None:
    keep(workspace / "runs/tiny", checkpoint="step-0000001")
    shutil.copytree(workspace / "runs/tiny", workspace / "runs/other")
    keep(workspace / "runs/other", split="valid", checkpoint=Run.open(workspace / "runs/other").checkpoint("best").name)
    out = tfm("runs", cwd=workspace)[1]
    heads, *_ = lines = out.splitlines()
    assert heads.split() == ["run", "saved", "corpus", "params", "epochs", "loss", "BLEU", "of", "seed"]
    assert "BLEU of other weights: tiny; `tfm evaluate --run tiny` updates it" in lines
    assert not any("of other weights: other" in line for line in lines)


def test_runs_escapes_line_feed_in_a_name(tfm: Tfm, tmp_path: Path) -> None:
    (tmp_path / "runs/a\nb").mkdir(parents=True)
    _, out, _ = tfm("runs", cwd=tmp_path)
    assert [line.split()[0] for line in out.splitlines() if line.startswith("a")] == [r"a\nb"]
    assert r"broken: runs/a\nb: no run here" in out


def test_runs_and_curves_show_differing_settings(tfm: Tfm, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = workspace / "runs/other"
    shutil.copytree(workspace / "runs/tiny", other)
    config = Run.open(other).config
    changed = {"seed": 7, "betas": (0.123456, 0.123457), "num_threads": 7, "shards": None}
    set_config(other, config.model_copy(update={"training": config.training.model_copy(update=changed)}))
    betas = "[0.123456, 0.…"
    heads, *lines = tfm("runs", cwd=workspace)[1].split("\n\n")[0].splitlines()
    assert heads.split()[-3:] == ["seed", "betas", "shards"]
    assert next(line for line in lines if line.startswith("other")).endswith(f"7  {betas}       –")
    runs = json.loads(tfm("runs", "--json", cwd=workspace)[1])["runs"]
    assert {run["name"]: run["settings"]["training.seed"] for run in runs} == {"tiny": 0, "other": 7}
    assert list(runs[0]["settings"]) == ["training.betas", "training.seed", "training.shards"]
    drawn: list[dict[str, Any]] = []
    monkeypatch.setattr(plots, "draw_curves", drawn.append)
    monkeypatch.setattr(plots, "save", lambda figure, path, **options: None)
    assert tfm("curves", "tiny", "other", cwd=workspace)[0] == 0
    assert list(drawn[0])[1] == f"runs/other (betas {betas}, seed 7)"


def test_runs_csv_has_all_columns_and_differing_settings(tfm: Tfm, workspace: Path) -> None:
    others = {"eps": 1e-7, "betas": (0.5, 0.75), "label_smoothing": 0.1, "patience": 4, "clip_grad_norm": 2.0}
    for name, seed, bleu, epochs in (("b", 3, 20.0, 10), ("a", 10, 40.0, 9)):
        folder = shutil.copytree(workspace / "runs/tiny", workspace / "runs" / name)
        config = Run.open(folder).config
        training = config.training.model_copy(update={"seed": seed, "epochs": epochs, **others})
        set_config(folder, config.model_copy(update={"training": training}))
        keep(folder, bleu=bleu)
    (workspace / "runs/tiny/evaluations.jsonl").unlink(missing_ok=True)
    code, out, _ = tfm("runs", "--format", "csv", cwd=workspace)
    heads, *_ = rows = [*csv.reader(out.splitlines())]
    standard = ["run", "saved", "corpus", "params", "epochs", "loss", "BLEU", "of", "case", "bytes", "seed"]
    assert (code, heads) == (0, [*standard, *(key for key in settings_by_key(config) if key[9:] in others)])
    wanted = [heads.index(each) for each in ("run", "epochs", "BLEU", "seed", "training.betas")]
    assert sorted([row[place] for place in wanted] for row in rows[1:]) == [
        ["a", "6/9", "40.0", "10", "[0.5, 0.75]"],
        ["b", "6/10", "20.0", "3", "[0.5, 0.75]"],
        ["tiny", "6/6", "", "0", "[0.9, 0.999]"],
    ]
    code, _, err = tfm("export", "[ab]", cwd=workspace)
    assert (code, "[ab] matches runs/a, runs/b; name one run" in err) == (2, True)
    assert tfm("curves", "runs/*", cwd=workspace)[0] == 0  # not runs/latest, which is a file


def test_train_that_resumes_warns_of_other_versions(tfm: Tfm, workspace: Path) -> None:
    other = workspace / "runs/other"
    shutil.copytree(workspace / "runs/tiny", other)
    edit_sealed(other / "run.json", lambda value: value["provenance"].update(torch="1.0"))
    train_longer(other, 7)
    code, _, err = tfm("train", "--config", "runs/other/config.yaml", "--set", "name=other", cwd=workspace)
    assert code == 0
    assert "other: these changes may alter the last digits of the weights: torch 1.0 → " in err


def test_runs_without_runs_prints_nothing(tfm: Tfm, refused: Refused, tmp_path: Path) -> None:
    assert tfm("runs", cwd=tmp_path) == (0, "", "runs/: no run yet; `tfm train` makes one\n")
    assert json.loads(tfm("runs", "--json", cwd=tmp_path)[1]) == {"folder": "runs", "runs": []}
    (tmp_path / "runs").touch()
    refused("runs", cwd=tmp_path)


def test_listing_commands_import_neither_torch_nor_spacy(workspace: Path) -> None:
    commands = [("curves", "--output", "curves.svg"), ("runs",), ("config", "runs/tiny/config.yaml")]
    probe = f"""
import sys
from transformer_cli.commands.app import main
for command in {commands}:
    try:
        main(command)
    except SystemExit as ended:
        assert not ended.code, command
print({{"torch", "spacy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=workspace)
    assert done.stdout.splitlines()[-1] == "set()"
