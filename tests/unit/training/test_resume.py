"""Which run is trained: a new one, or the one on disk, which is refused and left alone where a part of it is gone."""

import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch

from aligned import AlignedFiles
from kinds import TrainTiny
from outcomes import power_cut
from tables import read_table
from transformer_cli.compute.devices import choose_precision, choose_shards
from transformer_cli.compute.world import SINGLE_PROCESS
from transformer_cli.config.load import dump_config, load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.errors import CheckpointError, ConfigError, DataError
from transformer_cli.runs.folder import is_new
from transformer_cli.runs.run import Run
from transformer_cli.training.resume import OpenedRun, open_run

Open = Callable[..., AbstractContextManager[OpenedRun]]

STUCK = ("training.batch_size=100", "training.learning_rate=1e-30")  # epochs of two steps; only the first is a best one


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def trained(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs whose best checkpoint is not its last. Not to be written to."""
    run = train_tiny(tmp_path_factory.mktemp("trained"), *STUCK, "training.epochs=3")
    assert [run.checkpoint(pointer).name for pointer in ("best", "last")] == ["step-0000002", "step-0000006"]
    return run.folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(trained, tmp_path / "runs/tiny"))


@pytest.fixture
def opened(corpus: Path, project: Path) -> Callable[..., AbstractContextManager[OpenedRun]]:
    """opened(folder, *overrides, fresh=False, data_dir=…): the tiny run in a folder, opened but not trained."""

    def open_with(
        folder: Path, *overrides: str, fresh: bool = False, data_dir: Path = project / "data"
    ) -> AbstractContextManager[OpenedRun]:
        config = load_config(corpus / "tiny.yaml", [*STUCK, *overrides])
        return open_run(folder, config, device=torch.device("cpu"), data_dir=data_dir, fresh=fresh)

    return open_with


@pytest.mark.parametrize(("missing", "message"), read_table(Path(__file__).with_name("missing_files.txt")))
def test_open_run_without_a_file_is_refused_unchanged(
    train_tiny: TrainTiny, folder: Path, missing: str, message: str
) -> None:
    for name in missing.split():
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = contents(folder)
    with pytest.raises(CheckpointError) as refused:
        train_tiny(folder.parent, *STUCK, "training.epochs=4")
    assert str(refused.value).startswith(message.replace("FOLDER", str(folder)))
    assert re.search("`tfm train --fresh`.* this run aside and begins? anew$", str(refused.value))
    assert "\n" not in str(refused.value)
    assert contents(folder) == before


def test_open_run_fresh_moves_a_damaged_run_aside(train_tiny: TrainTiny, folder: Path) -> None:
    (folder / "run.json").unlink()
    before = contents(folder)
    run = train_tiny(folder.parent, *STUCK, "training.epochs=1", fresh=True)
    assert [entry["epoch"] for entry in run.history()] == [1]
    assert contents(folder.with_name("tiny.old-1")) == before


def test_open_run_fresh_keeps_the_old_run_if_no_pair_fits(train_tiny: TrainTiny, folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(DataError, match=r"^no pair of train fits in model.max_length 3; "):
        train_tiny(folder.parent, *STUCK, "model.max_length=3", fresh=True)
    assert contents(folder) == before


def test_open_run_without_checkpoint_takes_new_settings(train_tiny: TrainTiny, tmp_path: Path) -> None:
    with power_cut(tmp_path, "step-0000002-unvalidated"):
        train_tiny(tmp_path, *STUCK, "training.seed=7")
    assert ((tmp_path / "tiny/run.json").is_file(), is_new(tmp_path / "tiny")) == (True, True)
    again = train_tiny(tmp_path, *STUCK, "training.epochs=1")
    assert (len(again.history()), again.config.training.seed, is_new(again.folder)) == (1, 0, False)


def test_open_run_new_keeps_its_dataset_precision_and_shards(opened: Open, project: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "tiny", "training.precision=auto", "training.shards=null") as new:
        assert new.run.config.training.shards == choose_shards(None, SINGLE_PROCESS)
        (dataset,) = (project / "data").iterdir()
        assert new.dataset.folder == dataset
        assert f"files.de-en-{new.run.config.data.fingerprint}" == dataset.name
        assert new.run.config.training.precision == choose_precision("auto", torch.device("cpu"))
        assert new.run.config == load_config(tmp_path / "tiny/config.yaml")


def test_open_run_resumed_takes_changed_settings(opened: Open, folder: Path) -> None:
    changes = ("patience=7", "save_minutes=3", "num_threads=2", "epochs=9", "precision=auto")
    with opened(folder, *(f"training.{change}" for change in changes), "decoding.beam_size=5") as run:
        training = run.run.config.training
        assert (training.patience, training.save_minutes, training.num_threads, training.epochs) == (7, 3, 2, 9)
        assert (training.precision, run.run.config.decoding.beam_size) == ("float32", 5)
        assert Run.open(folder).config == run.run.config


def test_open_run_resumed_in_another_precision_says_so(
    opened: Open, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder, "training.epochs=3", "training.precision=bfloat16") as run:
        assert Run.open(folder).config == run.run.config
        assert run.run.config.training.precision == "bfloat16"
    assert caplog.messages == ["training.precision: float32 until now, bfloat16 from here on"]


def test_open_run_with_other_settings_is_refused_unchanged(opened: Open, folder: Path) -> None:
    before = contents(folder.parent)
    with pytest.raises(ConfigError) as refused, opened(folder, "training.epochs=3", "training.seed=1"):
        pass
    assert str(refused.value) == (
        f"{folder} was begun with other settings (training.seed: 0 → 1): give the old ones to resume it, --set "
        "name=tiny-2 to train another run, or --fresh to move this one aside and begin anew"
    )
    assert {name: content for name, content in contents(folder.parent).items() if name != ".tiny.lock"} == before


def test_open_run_with_other_settings_offers_a_free_name(opened: Open, folder: Path) -> None:
    for taken in ("tiny-2", "tiny-4"):
        folder.with_name(taken).mkdir()
    with pytest.raises(ConfigError, match="name=tiny-3 to train"), opened(folder, "training.seed=1"):
        pass


def test_open_run_resumes_a_renamed_run(opened: Open, folder: Path) -> None:
    renamed = folder.rename(folder.with_name("renamed"))
    with opened(renamed, "training.epochs=3", "name=renamed") as run:
        assert Run.open(renamed).config.name == run.run.config.name == "renamed"


def test_open_run_without_a_dataset_leaves_nothing(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no dataset"), opened(tmp_path / "runs/tiny", data_dir=tmp_path / "data"):
        pass
    assert not (tmp_path / "runs").exists()


def test_open_run_by_link_takes_the_same_lock(opened: Open, folder: Path, tmp_path: Path) -> None:
    real = folder.rename(tmp_path / "real")
    folder.symlink_to("../real")
    with opened(folder, fresh=True):  # which moves the link aside, and makes a folder of its name
        for name in (folder, real):
            with pytest.raises(ConfigError, match="is being trained"), opened(name):
                pass


# A project's folder may be moved: what stands in the files counts, not where they are


SPLITS = [f"{split}.{language}" for split in ("train", "valid", "test") for language in ("de", "en")]
WAS_CHANGED = r" was made before the text of data\.files was changed; give "


@pytest.fixture
def moved(corpus: Path, project: Path, tmp_path: Path) -> Path:
    """The corpus, the data and the runs, all of them elsewhere."""
    folder = tmp_path / "elsewhere"
    shutil.copytree(corpus, folder)
    shutil.copytree(project / "runs", folder / "runs")
    shutil.copytree(project / "data", folder / "data")
    return folder


def config(folder: Path) -> Config:
    return load_config(folder / "tiny.yaml")


def resume(folder: Path, config: Config) -> AbstractContextManager[OpenedRun]:
    return open_run(folder / "runs/tiny", config, device=torch.device("cpu"), data_dir=folder / "data")


def test_moved_project_resumes_without_its_text(moved: Path) -> None:
    with resume(moved, config(moved)) as opened:
        assert opened.run.config.data.files == config(moved).data.files
        assert Run.open(moved / "runs/tiny").config == opened.run.config
    with resume(moved, load_config(moved / "runs/tiny/config.yaml")):  # its own config, which it has written anew
        pass
    for name in SPLITS:
        (moved / name).unlink()
    with resume(moved, config(moved)):
        pass


@pytest.mark.parametrize("change", ["other text", "another name"])
def test_moved_run_with_other_text_is_refused(moved: Path, change: str) -> None:
    path = moved / "train.en"
    if change == "other text":
        path.write_bytes(path.read_bytes() + b"One more.\n")
    else:
        text = (moved / "tiny.yaml").read_text(encoding="utf-8")
        (moved / "tiny.yaml").write_text(text.replace("target: train.en", "target: other.en"), encoding="utf-8")
    with pytest.raises(ConfigError, match=WAS_CHANGED), resume(moved, config(moved)):
        pass


def test_moved_run_with_changed_text_is_refused(moved: Path) -> None:
    with resume(moved, config(moved)):  # which takes the new places into its own config
        pass
    for side in ("de", "en"):
        path = moved / f"train.{side}"
        path.write_bytes(path.read_bytes() + b"One more.\n")
    make_dataset(config(moved), AlignedFiles(config(moved).data), data_dir=moved / "data")
    with pytest.raises(ConfigError, match=WAS_CHANGED), resume(moved, config(moved)):
        pass
    pinned = load_config(moved / "runs/tiny/config.yaml")
    with resume(moved, pinned):
        pass
    shutil.rmtree(moved / "runs/tiny")
    with pytest.raises(ConfigError, match=r"changed; take data\.fingerprint out "), resume(moved, pinned):
        pass


def test_moved_vectors_are_accepted_if_the_old_file_is_gone(moved: Path) -> None:
    def with_vectors(config: Config, name: str) -> Config:
        vectors = config.model.vectors.model_copy(update={"source": str(moved / name)})
        return config.model_copy(update={"model": config.model.model_copy(update={"vectors": vectors})})

    run = Run.open(moved / "runs/tiny")
    (run.folder / "config.yaml").write_text(dump_config(with_vectors(run.config, "gone/a.vec")), encoding="utf-8")
    wanted = with_vectors(config(moved), "new/a.vec")
    with resume(moved, wanted) as opened:
        assert opened.run.config.model.vectors == wanted.model.vectors
