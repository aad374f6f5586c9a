"""Training that begins with another run's weights, and parts of a model that are not trained."""

from pathlib import Path

import pytest
import torch

from kinds import TrainTiny
from outcomes import weights
from sealed import reseal
from transformer_cli.config.load import load_config
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoints import load_last
from transformer_cli.runs.run import Run

SHORT = ("training.batch_size=100", "training.epochs=2")  # an epoch of two steps
PARTS = ["source_embedding", "target_embedding", "encoder", "decoder", "output"]


def test_initialize_from_takes_the_best_weights(train_tiny: TrainTiny, runs: Path) -> None:
    tuned = train_tiny(runs, *SHORT, "training.initialize_from=base", "training.learning_rate=1e-30")
    base = Run.open(runs / "base")
    assert all(value.equal(weights(base, "best")[name]) for name, value in weights(tuned).items())
    start, first, _ = tuned.history()  # the start is validated, too
    assert start["valid_loss"] == first["valid_loss"] == min(line["valid_loss"] for line in base.history())
    assert (start["epoch"], start["step"], start["train_loss"]) == (0, 0, None)
    assert (first["epoch"], first["step"], first["train_loss"] is None) == (1, 2, False)


def test_initialize_from_accepts_another_dropout(train_tiny: TrainTiny, runs: Path) -> None:
    where = f"training.initialize_from={runs / 'base'}"
    tuned = train_tiny(runs, *SHORT, where, "model.dropout=0.3", "model.embedding_init=normal")
    assert tuned.history()[0]["valid_loss"] < 1.0


def test_initialize_from_another_shape_names_the_settings(train_tiny: TrainTiny, runs: Path) -> None:
    with pytest.raises(ConfigError) as error:
        train_tiny(runs, *SHORT, "training.initialize_from=base", "model.d_ff=32", "model.dropout=0.2")
    assert str(error.value) == (
        f"training.initialize_from: {runs / 'base'} has a model of another shape (model.d_ff: 64 → 32): give these "
        "settings the values of that run"
    )
    assert not (runs / "tiny").exists()


def test_initialize_from_a_run_with_other_ids_is_refused(train_tiny: TrainTiny, runs: Path) -> None:
    lines = (runs / "base/source.vocab.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (runs / "base/source.vocab.txt").write_text("".join([*lines[:-2], lines[-1], lines[-2]]), encoding="utf-8")
    reseal(runs / "base")
    said = r"the ids of .* are not those of .*/base: .* with data.tokenizer_from=base, and"
    with pytest.raises(ConfigError, match=said):
        train_tiny(runs, *SHORT, "training.initialize_from=base")


@pytest.mark.parametrize("parts", [["source_embedding", "encoder"], ["output", "target_embedding"]])
def test_freeze_parts_keeps_their_weights_and_logs_them(
    train_tiny: TrainTiny, tmp_path: Path, caplog: pytest.LogCaptureFixture, parts: list[str]
) -> None:
    caplog.set_level("INFO")
    run = train_tiny(tmp_path, *SHORT, f"training.freeze=[{','.join(parts)}]")
    model = run.new_model()
    start = model.state_dict()
    changed = {name.split(".")[0] for name, value in weights(run).items() if not value.equal(start[name])}
    assert changed == set(PARTS) - set(parts)
    held = sum(each.numel() for part in parts for each in model.get_submodule(part).parameters())
    assert f" parameters and {held:,} frozen ones ({', '.join(parts)}); " in caplog.text


def test_freeze_a_tied_matrix_freezes_both_parts(train_tiny: TrainTiny, tmp_path: Path) -> None:
    tied = ("model.tie_embeddings=target+output", "training.freeze=[target_embedding]")
    run = train_tiny(tmp_path, *SHORT, *tied)
    model = run.new_model()
    last = load_last(run).model
    assert torch.equal(last.output.weight, model.output.weight)
    assert not torch.equal(last.output.bias, model.output.bias)


@pytest.mark.parametrize("ties", ["target+output", "all"])
def test_freeze_all_parts_is_an_error(ties: str) -> None:
    frozen = [part for part in PARTS if part != "target_embedding"]
    tied = ["data.joint_vocabulary=true", f"model.tie_embeddings={ties}", f"training.freeze=[{','.join(frozen)}]"]
    load_config(overrides=tied)  # learned positions are left to learn
    with pytest.raises(ConfigError, match="freeze: every part is frozen, so nothing can be learned; leave one out"):
        load_config(overrides=[*tied, "model.positions=sinusoidal"])


def test_initialize_from_the_run_itself_is_an_error(train_tiny: TrainTiny, runs: Path) -> None:
    said = r"initialize_from: base is this run itself; .* a name of its own: --set name=base-2$"
    with pytest.raises(ConfigError, match=said):
        train_tiny(runs, *SHORT, "name=base", "training.initialize_from=base", fresh=True)
    assert [path.name for path in runs.glob("base*")] == ["base"]
