"""What a user sees of the files of datasets and runs: sums, notes, warnings, and which run is the newest."""

from pathlib import Path

import pytest

from kinds import Refused, Tfm
from outcomes import power_cut
from sealed import edit_sealed
from transformer_cli.runs.run import find_run


@pytest.mark.parametrize(
    ("command", "library"), [(("translate", "Hallo"), "spacy"), (("inspect", "Hund", "--json"), "sentencepiece")]
)
def test_translate_says_that_the_tokeniser_has_another_version(
    tfm: Tfm, workspace: Path, command: tuple[str, ...], library: str
) -> None:
    assert "cut its training text" not in tfm(*command, cwd=workspace)[2]
    made_by = {"library": library, "version": "0.0.18"}
    edit_sealed(workspace / "runs/tiny/run.json", lambda value: value.update(tokenizer=made_by))
    code, _, err = tfm(*command, cwd=workspace)
    assert code == 0
    assert err.startswith(f"warning: runs/tiny: {library} 0.0.18 cut its training text, and ")
    assert f"`pip install {library}==0.0.18` if that matters\n" in err


def test_run_config_edited_is_followed_where_it_may_change(tfm: Tfm, refused: Refused, workspace: Path) -> None:
    path = workspace / "runs/tiny/config.yaml"
    path.write_text(path.read_text().replace("beam_size: 1", "beam_size: 3"))
    code, _, err = tfm("translate", "--n-best", "3", "Hallo", cwd=workspace)
    assert (code, err) == (0, "")
    path.write_text(path.read_text().replace("num_heads: 2", "num_heads: 4"))
    said = "not the settings that the run was begun with (model.num_heads: 2 → 4); put the old ones back"
    assert said in refused("translate", "Hallo", cwd=workspace)


def test_latest_names_a_run_that_has_something_to_use(tfm: Tfm, corpus: Path, workspace: Path) -> None:
    train = ("train", "--config", corpus / "tiny.yaml", "--set")
    (workspace / "runs/tiny.old-1").mkdir()  # this name is taken
    with power_cut(workspace, "step-0000013"):  # before the first save
        tfm(*train, "name=begun", cwd=workspace)
    assert find_run(None, workspace / "runs").name == "tiny"
    with power_cut(workspace, "step-0000013"):
        tfm(*train, "training.seed=1", "--fresh", cwd=workspace)
    assert find_run(None, workspace / "runs").name == "tiny.old-2"  # it was moved, and is still what there is to use
    assert tfm(*train, "training.epochs=1", "--set", "name=begun", cwd=workspace)[0] == 0
    assert find_run(None, workspace / "runs").name == "begun"


def test_curves_of_a_damaged_history_are_refused(refused: Refused, workspace: Path) -> None:
    path = workspace / "runs/tiny/history.jsonl"
    first, *rest = path.read_text().splitlines()
    for line in ("{}", first.replace('"epoch": 1', '"epoch": 5'), first.replace('"train_loss": ', '"train_loss": 1')):
        path.write_text("\n".join([line, *rest, ""]))
        said = "runs/tiny/history.jsonl: damaged: its first 6 lines are not those that were saved; restore it"
        assert said in refused("curves", cwd=workspace)
