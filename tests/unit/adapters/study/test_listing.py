"""The list of runs: what it says of each."""

from pathlib import Path

from kinds import TrainTiny
from transformer_cli.adapters.study.listing import list_runs
from transformer_cli.runs.run import Run


def test_list_runs_has_the_provenance_of_run_json(workspace: Path) -> None:
    listed = {run.name: run for run in list_runs(workspace / "runs")}
    assert listed["tiny"].provenance == Run.open(workspace / "runs/tiny").metadata.provenance


def test_list_runs_run_without_its_average_is_unfinished(train_tiny: TrainTiny, tmp_path: Path) -> None:
    limits = ("training.max_steps=5", "training.validate_every=2", "training.average_checkpoints=2")
    run = train_tiny(tmp_path, *limits, "training.best_checkpoint_metric=last")
    for state in ("finished", "unfinished"):
        (found,) = list_runs(tmp_path)
        assert (found.state, found.resume is None) == (state, state == "finished")
        assert (found.steps_done, found.steps) == (5, 5)
        assert found.best_valid_loss == run.history()[-1]["valid_loss"]
        (tmp_path / "tiny/average").unlink(missing_ok=True)
