"""`tfm verify`, and what else a user sees of sums: notes, warnings, and which run is the newest."""

from pathlib import Path

import pytest

from kinds import Tfm
from sealed import edit_sealed, flip
from transformer_cli.runs import verification
from transformer_cli.runs.run import find_run
from transformer_cli.system.sums import read_sums
from transformer_cli.training.trainer import Trainer


def test_an_undamaged_dataset_and_run_are_as_they_were_written(tfm: Tfm, project: Path) -> None:
    (data,) = (project / "data").iterdir()
    code, out, err = tfm("verify", data, "tiny", cwd=project)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"{data}: {len(list(data.iterdir()))} files, ")
    assert second.startswith("runs/tiny: ")
    assert first.endswith(" MB: as they were written")
    assert tfm("verify", cwd=project)[1] == f"{second}\n"


def test_every_damaged_file_is_listed(tfm: Tfm, workspace: Path) -> None:
    (data,) = (workspace / "data").iterdir()
    run = workspace / "runs/tiny"
    damaged = [data / "train.source.txt", data / "test.target.ids.npy"]
    damaged += [*sorted(run.glob("checkpoints/*/state.safetensors")), run / "history.jsonl"]
    for path in damaged:
        flip(path)
    code, out, err = tfm("verify", data, run, cwd=workspace)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"tfm: error: damaged: {data} (2), {run} ({len(damaged) - 2})")
    assert all(any(line.startswith(f"{path}: damaged: ") for line in out.splitlines()) for path in damaged), out


def test_what_is_gone_is_listed_and_the_others_are_read_all_the_same(tfm: Tfm, workspace: Path) -> None:
    (data,) = (workspace / "data").iterdir()
    (data / "manifest.json").unlink()
    (workspace / "runs/tiny/best").unlink()
    code, out, err = tfm("verify", "nowhere", data, "tiny", cwd=workspace)
    lost, best = out.splitlines()
    assert (code, lost) == (1, f"{data}/manifest.json: missing")
    assert best.startswith("runs/tiny: no best checkpoint yet")
    assert err.startswith("tfm: error: runs/nowhere: no such run; ")
    assert f"; damaged: {data} (1), runs/tiny (1); " in err


def test_what_a_kill_left_of_a_checkpoint_that_nothing_names_is_no_damage(tfm: Tfm, workspace: Path) -> None:
    left = workspace / "runs/tiny/checkpoints/step-0000001"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    assert tfm("verify", "tiny", cwd=workspace)[1].endswith(" MB: as they were written\n")


def test_a_checkpoint_that_training_deletes_meanwhile_is_not_damaged(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = workspace / "runs/tiny/checkpoints/validation-0001"
    old.mkdir()

    def read_late(folder: Path) -> dict[str, str]:
        if folder == old:
            old.rmdir()
        return read_sums(folder)

    monkeypatch.setattr(verification, "read_sums", read_late)
    assert verification.verify(workspace / "runs/tiny").damaged == []


@pytest.mark.parametrize(
    ("command", "library"), [(("translate", "Hallo"), "spacy"), (("inspect", "Hund", "--json"), "sentencepiece")]
)
def test_another_version_of_the_tokeniser_is_said(
    tfm: Tfm, workspace: Path, command: tuple[str, ...], library: str
) -> None:
    assert "cut its training text" not in tfm(*command, cwd=workspace)[2]
    made_by = {"library": library, "version": "0.0.18"}
    edit_sealed(workspace / "runs/tiny/run.json", lambda value: value.update(tokenizer=made_by))
    code, _, err = tfm(*command, cwd=workspace)
    assert code == 0
    assert err.startswith(f"warning: runs/tiny: {library} 0.0.18 cut its training text, and ")
    assert f"`pip install {library}==0.0.18` if that matters\n" in err


def test_an_edited_config_is_followed_where_it_may_change(tfm: Tfm, workspace: Path) -> None:
    path = workspace / "runs/tiny/config.yaml"
    path.write_text(path.read_text().replace("beam_size: 1", "beam_size: 3"))
    code, _, err = tfm("translate", "--n-best", "3", "Hallo", cwd=workspace)
    assert (code, err) == (0, "")
    path.write_text(path.read_text().replace("num_heads: 2", "num_heads: 4"))
    code, out, err = tfm("translate", "Hallo", cwd=workspace)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "not the settings that the run was begun with (model.num_heads: 2 → 4); put the old ones back" in err


def test_the_newest_run_is_one_that_has_something_to_use(
    tfm: Tfm, corpus: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ("train", "--config", corpus / "tiny.yaml", "--set")
    (workspace / "runs/tiny.old-1").mkdir()  # this name is taken
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run_to_the_end", lambda _: None)
        assert tfm(*train, "name=begun", cwd=workspace)[0] == 0
        assert find_run(None, workspace / "runs").name == "tiny"
        assert tfm(*train, "training.seed=1", "--fresh", cwd=workspace)[0] == 0
    assert find_run(None, workspace / "runs").name == "tiny.old-2"  # it was moved, and is still what there is to use
    assert tfm(*train, "training.epochs=1", "--set", "name=begun", cwd=workspace)[0] == 0
    assert find_run(None, workspace / "runs").name == "begun"


def test_curves_of_a_damaged_history_are_refused(tfm: Tfm, workspace: Path) -> None:
    path = workspace / "runs/tiny/history.jsonl"
    first, *rest = path.read_text().splitlines()
    for line in ("{}", first.replace('"epoch": 1', '"epoch": 5'), first.replace('"train_loss": ', '"train_loss": 1')):
        path.write_text("\n".join([line, *rest, ""]))
        code, out, err = tfm("curves", cwd=workspace)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "runs/tiny/history.jsonl: damaged: its first 6 lines are not those that were saved; restore it" in err
