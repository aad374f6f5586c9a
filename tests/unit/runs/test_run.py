"""A run on disk: what comes back bit for bit, what is kept, what is refused, and which one is found."""

import errno
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from oracles.draws import Draws
from transformer_cli.config.schema import Config, DataConfig, ModelConfig
from transformer_cli.data.codec import Codecs, WordCodec
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.vocabulary import PAD, SPECIALS, UNK, Vocabulary
from transformer_cli.data.words import Joins
from transformer_cli.errors import CheckpointError
from transformer_cli.files import write_text
from transformer_cli.model.fast.dropout import FastDropout
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs import run as module
from transformer_cli.runs.run import Run, RunningLoss, TrainingState, find_run
from transformer_cli.training.optim import make_optimizer

CPU = torch.device("cpu")
SOURCE, TARGET = Vocabulary([*SPECIALS, "ä", "\u2028"]), Vocabulary([*SPECIALS, "a"])
JOINS = Joins(frozenset({"."}), frozenset({"("}), frozenset({("t", "-")}), frozenset({("ä", ".")}))


def dataset_of(source: Vocabulary, target: Vocabulary) -> Dataset:
    codecs = Codecs(WordCodec("de", True, source, Joins()), WordCodec("en", True, target, JOINS))
    return Dataset(Path("nowhere"), {}, codecs)


DATASET = dataset_of(SOURCE, TARGET)


def config(tie_embeddings: str = "none") -> Config:
    shape = {"d_model": 4, "num_heads": 1, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 4}
    return Config(
        data=DataConfig(joint_vocabulary=tie_embeddings == "all"),
        model=ModelConfig.model_validate({**shape, "max_length": 8, "tie_embeddings": tie_embeddings}),
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs" / "first", config(), DATASET)


Training = tuple[Transformer, torch.optim.Adam]


def seeded(run: Run, seed: int) -> Run:
    training = run.config.training.model_copy(update={"seed": seed})
    return replace(run, config=run.config.model_copy(update={"training": training}))


def begin(run: Run, seed: int = 0) -> Training:
    model = seeded(run, seed).new_model()
    return model, make_optimizer(model, run.config.training)


def step(training: Training, seed: int) -> None:
    model, optimizer = training
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def trained(run: Run) -> Training:
    training = begin(run)
    step(training, 1)
    step(training, 2)
    return training


def save(run: Run, *steps: int, best: int = 0) -> None:
    """Checkpoints after these steps; `best` is the better one."""
    training = trained(run)
    for number in steps:
        run.save(*training, TrainingState(step=number), is_best=number == best)


def numbers(training: Training) -> dict[str, torch.Tensor]:
    """All weights and all of Adam's state, by name."""
    model, optimizer = training
    moments = {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }
    return {**model.state_dict(), **moments}


def assert_identical(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)


def checkpoints(run: Run) -> list[str]:
    return sorted(path.name for path in (run.folder / "checkpoints").iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


# What comes back


def test_an_opened_run_is_the_created_one(run: Run) -> None:
    opened = Run.open(run.folder)
    assert (opened.config, opened.folder) == (run.config, run.folder) == (config(), run.folder)
    for codecs in (opened.codecs, run.codecs):
        assert codecs.source.tokens(range(6)) == list(SOURCE.tokens)
        assert codecs.target.tokens(range(5)) == list(TARGET.tokens)
        assert codecs.target.text([UNK, UNK], instead=["t", "-"]) == "t-"
    assert opened.history() == []
    assert not opened.has_checkpoint("last")


def test_the_untrained_model_follows_from_the_runs_seed_and_from_nothing_else(run: Run) -> None:
    torch.manual_seed(3)
    by_hand = Transformer(run.config.model, source_vocabulary=6, target_vocabulary=5, pad_id=PAD)
    before = torch.get_rng_state()
    drawn = seeded(run, 3).new_model()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert_identical(seeded(run, 3).new_model().state_dict(), drawn.state_dict())
    assert_identical(by_hand.state_dict(), drawn.state_dict())
    assert not torch.equal(seeded(run, 4).new_model().output.weight, drawn.output.weight)


@pytest.mark.parametrize(("fast", "dropout_class"), [(True, FastDropout), (False, nn.Dropout)])
def test_models_are_made_with_the_dropout_that_the_config_names(
    run: Run, fast: bool, dropout_class: type[nn.Dropout]
) -> None:
    training = run.config.training.model_copy(update={"fast": fast})
    chosen = replace(run, config=run.config.model_copy(update={"training": training}))
    for model in (chosen.new_model(), chosen.empty_model()):
        found = [type(module) for module in model.modules() if isinstance(module, nn.Dropout)]
        assert set(found) == {dropout_class}


@pytest.mark.parametrize("tie_embeddings", ["none", "target+output", "all"])
def test_training_goes_on_bit_for_bit(tmp_path: Path, tie_embeddings: str) -> None:
    dataset = dataset_of(TARGET, TARGET)
    run = Run.create(tmp_path / "run", config(tie_embeddings), dataset)
    before = trained(run)
    run.save(*before, TrainingState(step=2))
    after = begin(run, seed=1)
    Run.open(run.folder).load_last(*after)
    assert_identical(numbers(before), numbers(after))
    step(before, 3)
    step(after, 3)
    assert_identical(numbers(before), numbers(after))


def test_what_is_loaded_is_a_copy_that_keeps_no_file_open(run: Run) -> None:
    save(run, 2)
    expected, loaded = numbers(trained(run)), begin(run)
    run.load_last(*loaded)
    for file in (run.folder / "checkpoints").rglob("*.safetensors"):
        with file.open("r+b") as opened:  # in place: a mapping of the file would change with it
            opened.write(bytes(file.stat().st_size))
    assert_identical(numbers(loaded), expected)
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(run.folder) not in maps.read_text()  # NFS could not delete a mapped file


def test_tied_weights_stay_one_matrix(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", config("target+output"), DATASET)
    save(run, 2, best=2)
    model = run.load_best(CPU)
    assert model.output.weight is model.target_embedding.tokens.weight


def test_the_best_is_loaded_for_evaluation(run: Run) -> None:
    training = trained(run)
    run.save(*training, TrainingState(step=2), is_best=True)
    expected = {name: value.clone() for name, value in training[0].state_dict().items()}
    step(training, 3)
    run.save(*training, TrainingState(step=3))
    best = run.load_best(CPU)
    assert not best.training
    assert_identical(best.state_dict(), expected)


@pytest.mark.parametrize("tie_embeddings", ["none", "target+output", "all"])
def test_loading_draws_no_weights(tmp_path: Path, tie_embeddings: str) -> None:
    run = Run.create(tmp_path / "run", config(tie_embeddings), dataset_of(TARGET, TARGET))
    training = trained(run)
    run.save(*training, TrainingState(step=2), is_best=True)
    before = torch.get_rng_state()
    with Draws() as draws:
        loaded = run.load_best(CPU)
    assert draws.counts == {}
    assert torch.equal(torch.get_rng_state(), before)
    assert_identical(loaded.state_dict(), training[0].state_dict())


@pytest.mark.parametrize(
    "state",
    [
        TrainingState(),
        TrainingState(7, 3, 2, 0.1 + 0.2, 4, RunningLoss(1 / 3, 10**12, 1e-300, 5, 1, math.pi)),
        TrainingState(step=1, best_valid_loss=5e-324),
    ],
)
def test_the_state_comes_back_exactly(run: Run, state: TrainingState) -> None:
    training = trained(run)
    run.save(*training, state)
    assert run.load_last(*begin(run)) == state


def test_the_history_comes_back_exactly(run: Run) -> None:
    entries = [{"epoch": 1, "valid_loss": 0.1 + 0.2, "best": True}, {"epoch": 2, "valid_loss": 1e-300, "best": False}]
    run.write_history(entries)
    assert Run.open(run.folder).history() == entries
    assert len((run.folder / "history.jsonl").read_text().splitlines()) == 2
    run.write_history(entries[:1])
    assert run.history() == entries[:1]


def test_nothing_is_a_pickle(run: Run) -> None:
    save(run, 2, best=2)
    suffixes = {path.suffix for path in run.folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".jsonl", ".yaml", ".txt", ".safetensors", ""}
    assert (run.folder / "best").read_text() == (run.folder / "last").read_text() == "step-0000002\n"


# What is kept


@pytest.mark.parametrize(
    ("steps", "best", "kept"),
    [
        ([1], 0, ["step-0000001"]),
        ([1, 2], 0, ["step-0000002"]),
        ([1, 2], 1, ["step-0000001", "step-0000002"]),
        ([1, 2, 3], 1, ["step-0000001", "step-0000003"]),
        ([1, 2, 3], 3, ["step-0000003"]),
    ],
)
def test_only_the_last_and_the_best_are_kept(run: Run, steps: list[int], best: int, kept: list[str]) -> None:
    save(run, *steps, best=best)
    assert checkpoints(run) == kept
    assert run.has_checkpoint("best") == bool(best)


def test_what_a_kill_left_is_replaced(run: Run) -> None:
    orphan = run.folder / "checkpoints" / "step-0000002"
    orphan.mkdir(parents=True)
    (orphan / "model.safetensors").write_text("of another attempt")
    save(run, 2)
    assert not (orphan / "model.safetensors").read_bytes().startswith(b"of another")
    assert run.load_last(*begin(run)).step == 2


def test_an_old_checkpoint_that_cannot_be_deleted_is_a_warning_until_a_later_save_deletes_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(run.folder / "checkpoints/step-0000001"))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", busy)
        save(run, 1, 2)
    assert checkpoints(run) == ["step-0000001", "step-0000002"]
    assert run.load_last(*begin(run)).step == 2
    (said,) = caplog.messages
    assert said == (
        f"{run.folder}/checkpoints/step-0000001 could not be deleted (Directory not empty); the next save tries again"
    )
    save(run, 3)
    assert checkpoints(run) == ["step-0000003"]
    assert caplog.messages == [said]


def test_a_save_that_fails_leaves_the_last(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    save(run, 1)
    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(OSError, match="no space left"):
        save(run, 2)
    assert checkpoints(run) == ["step-0000001"]
    assert run.load_last(*begin(run)).step == 1


def test_a_kill_between_the_pointers_loses_no_best(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    training = trained(run)
    run.save(*training, TrainingState(step=1, epoch=2, best_valid_loss=2.0), is_best=True)

    def killed(path: Path, text: str) -> None:
        if path.name == "best":
            raise KeyboardInterrupt
        write_text(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            run.save(*training, TrainingState(step=2, epoch=3, best_valid_loss=1.0), is_best=True)
    state = run.load_last(*begin(run))
    assert state.best_valid_loss == 1.0
    run.mend(state)
    assert run.checkpoint("best").name == "step-0000002"


def test_resuming_within_an_epoch_or_after_a_worse_one_keeps_the_best(run: Run) -> None:
    training = trained(run)
    run.save(*training, TrainingState(step=1, epoch=2, best_valid_loss=2.0), is_best=True)
    for state in (
        TrainingState(step=2, epoch=2, batch=1, best_valid_loss=2.0),
        TrainingState(step=3, epoch=3, best_valid_loss=2.0, validations_since_best=1),
    ):
        run.save(*training, state)
        run.mend(run.load_last(*begin(run)))
        assert run.checkpoint("best").name == "step-0000001"


# What is refused


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    message = rf"^{tmp_path}: no run here \(run\.json is missing\); `tfm train` makes one$"
    with pytest.raises(CheckpointError, match=message):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", '{"format_version": 2}', "{}: format version 2, this tfm reads 1; train it again"),
        ("run.json", "", "{}/run.json: damaged: Expecting value"),
        ("run.json", "[]", "{}/run.json: damaged: list indices must be"),
        ("run.json", "{}", "{}/run.json: damaged: 'format_version'"),
        ("config.yaml", "nmae: a", "{0}: damaged run: {0}/config.yaml: nmae: unknown key; did you mean name?"),
        ("config.yaml", None, "{0}: damaged run: {0}/config.yaml: no such config file"),
        ("source.vocab.txt", None, "{0}: damaged run: {0}/source.vocab.txt: no vocabulary: "),
        ("target.vocab.txt", "a\n", "{0}: damaged run: {0}/target.vocab.txt: no vocabulary: it should begin with"),
        ("target.joins.json", None, "{0}: damaged run: {0}/target.joins.json: damaged: [Errno 2] No such file"),
        ("target.joins.json", "{", "{0}: damaged run: {0}/target.joins.json: damaged: Expecting property name"),
        ("target.joins.json", "{}", "{0}: damaged run: {0}/target.joins.json: damaged: 'glue_left'"),
    ],
)
def test_a_damaged_run_says_what_is_wrong(run: Run, name: str, content: str | None, message: str) -> None:
    (run.folder / name).unlink()
    if content is not None:
        (run.folder / name).write_text(content)
    with pytest.raises(CheckpointError) as caught:
        Run.open(run.folder)
    assert str(caught.value).startswith(message.format(run.folder))
    assert "\n" not in str(caught.value)


def load_best(run: Run) -> None:
    run.load_best(CPU)


def load_last(run: Run) -> None:
    run.load_last(*begin(run))


@pytest.mark.parametrize(
    ("name", "damage", "load", "message"),
    [
        ("model.safetensors", cut, load_best, "/model.safetensors: weights that cannot be read: .*incomplete"),
        ("model.safetensors", cut, load_last, "/model.safetensors: weights that cannot be read: .*incomplete"),
        ("model.safetensors", Path.unlink, load_best, "/model.safetensors: weights that cannot be read: No such file"),
        ("state.safetensors", cut, load_last, ": the training state cannot be read: .*incomplete"),
        ("state.safetensors", Path.unlink, load_last, ": the training state cannot be read: No such file"),
        ("state.json", cut, load_last, ": the training state cannot be read: Expecting"),
        ("state.json", lambda path: path.write_text("{}"), load_last, ": the training state cannot be read: 'running'"),
        ("state.json", lambda path: path.write_text('{"stpe": 1, "running": {}}'), load_last, ": the .* 'stpe'"),
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_says_where(
    run: Run, name: str, damage: Callable[[Path], Any], load: Callable[[Run], None], message: str
) -> None:
    save(run, 2, best=2)
    folder = run.folder / "checkpoints" / "step-0000002"
    damage(folder / name)
    with pytest.raises(CheckpointError, match=f"^{folder}{message}") as caught:
        load(run)
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape_are_named(run: Run) -> None:
    save(run, 2, best=2)
    SOURCE.save(run.folder / "target.vocab.txt")  # one word more than the weights have rows
    with pytest.raises(CheckpointError, match=r"weights that cannot be read: .*size mismatch for output") as caught:
        load_best(Run.open(run.folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pointer", ["best", "last"])
def test_a_pointer_that_is_missing_or_leads_nowhere(run: Run, pointer: str) -> None:
    with pytest.raises(
        CheckpointError, match=f"^{run.folder}: no {pointer} checkpoint yet; let `tfm train` reach one$"
    ):
        run.checkpoint(pointer)
    for name in ("step-0000009", ""):
        (run.folder / "checkpoints").mkdir(exist_ok=True)
        (run.folder / pointer).write_text(f"{name}\n")
        with pytest.raises(
            CheckpointError, match=f"^{run.folder}/{pointer} names {name}, which is not in checkpoints/; restore it, or"
        ):
            run.checkpoint(pointer)


@pytest.mark.parametrize("content", [None, "{bad\n", '{"epoch": 1}\n{"ep'])
def test_a_damaged_history_is_named(run: Run, content: str | None) -> None:
    path = run.folder / "history.jsonl"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=f"^{path}: damaged: "):
        run.history()


# Which one is found


def test_a_run_is_found_by_name_by_path_or_as_the_newest(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_dir = run.folder.parent
    second = Run.create(runs_dir / "second", config(), DATASET).folder
    (runs_dir / "latest").write_text("first\n")
    monkeypatch.chdir(runs_dir.parent)
    assert find_run(None, runs_dir) == run.folder
    assert find_run("second", runs_dir) == second
    assert find_run(second, Path("elsewhere")) == second
    assert find_run("runs/second") == find_run("second") == Path("runs/second")


def test_a_name_under_runs_goes_before_a_folder_here(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    assert find_run("first", run.folder.parent) == run.folder


def test_no_run_yet(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=rf"^{tmp_path}/: no run yet; `tfm train` makes one \(or name one with --r"
    ):
        find_run(None, tmp_path)


def test_a_wrong_name_lists_the_known(run: Run) -> None:
    runs_dir = run.folder.parent
    Run.create(runs_dir / "another", config(), DATASET)
    (runs_dir / "no-run").mkdir()
    (runs_dir / "latest").write_text("gone\n")
    for name, folder in (("frist", "frist"), (None, "gone")):
        with pytest.raises(
            CheckpointError, match=f"^{runs_dir}/{folder}: no such run; {runs_dir}/ has another, first$"
        ):
            find_run(name, runs_dir)
    with pytest.raises(CheckpointError, match=r"has none$"):
        find_run("first", runs_dir / "no-run")


def test_run_json_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: Path, value: Any) -> None:
        if "format_version" in value:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        Run.create(tmp_path, config(), DATASET)
    assert not (tmp_path / "run.json").exists()
    assert (tmp_path / "config.yaml").exists()
