"""A project's folder may be moved: what stands in the files counts, not where they are."""

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch

from transformer_cli.config.load import dump_config, load_config
from transformer_cli.config.schema import Config
from transformer_cli.datasets.dataset import find_dataset
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run
from transformer_cli.training.opening import Here, ReadyToTrain, open_run

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


def resume(folder: Path, config: Config) -> AbstractContextManager[ReadyToTrain]:
    return open_run(folder / "runs/tiny", config, Here(torch.device("cpu"), folder / "data"), fresh=False)


def test_moved_project_goes_on(moved: Path) -> None:
    with resume(moved, config(moved)) as opened:
        assert opened.run.config.data.files == config(moved).data.files
        assert Run.open(moved / "runs/tiny").config == opened.run.config
    with resume(moved, load_config(moved / "runs/tiny/config.yaml")):  # its own config, which it has written anew
        pass


def test_moved_run_without_its_text_goes_on(moved: Path) -> None:
    for name in SPLITS:
        (moved / name).unlink()
    with resume(moved, config(moved)):
        pass


@pytest.mark.parametrize("change", ["other text", "another name"])
def test_moved_run_with_another_text_is_refused(moved: Path, change: str) -> None:
    path = moved / "train.en"
    if change == "other text":
        path.write_bytes(path.read_bytes() + b"One more.\n")
    else:
        text = (moved / "tiny.yaml").read_text(encoding="utf-8")
        (moved / "tiny.yaml").write_text(text.replace("target: train.en", "target: other.en"), encoding="utf-8")
    with pytest.raises(ConfigError, match=WAS_CHANGED), resume(moved, config(moved)):
        pass


def test_moved_run_whose_text_was_changed_there_is_refused(moved: Path) -> None:
    with resume(moved, config(moved)):  # which takes the new places into its own config
        pass
    for side in ("de", "en"):
        path = moved / f"train.{side}"
        path.write_bytes(path.read_bytes() + b"One more.\n")
    make_dataset(config(moved), data_dir=moved / "data")
    with pytest.raises(ConfigError, match=WAS_CHANGED), resume(moved, config(moved)):
        pass
    pinned = load_config(moved / "runs/tiny/config.yaml")
    with resume(moved, pinned):
        pass
    shutil.rmtree(moved / "runs/tiny")
    with pytest.raises(ConfigError, match=r"changed; take data\.fingerprint out "), resume(moved, pinned):
        pass


def test_moved_text_is_the_same_dataset(moved: Path) -> None:
    prepared = make_dataset(config(moved), data_dir=moved / "data")
    assert not prepared.created
    assert find_dataset(config(moved).data, moved / "data") == prepared.folder


@pytest.mark.parametrize(
    ("before", "now", "is_left", "same"),
    [
        ("old/a.vec", "new/a.vec", False, True),
        ("old/a.vec", "new/a.vec", True, False),
        ("old/a.vec", None, False, False),
        ("glove-100", "glove-200", False, False),
    ],
)
def test_moved_vectors_are_the_same_file_unless_the_old_one_is_left(
    moved: Path, before: str, now: str | None, is_left: bool, same: bool
) -> None:
    def with_vectors(config: Config, name: str | None) -> Config:
        where = name and (str(moved / name) if "/" in name else name)
        vectors = config.model.vectors.model_copy(update={"source": where})
        return config.model_copy(update={"model": config.model.model_copy(update={"vectors": vectors})})

    run = Run.open(moved / "runs/tiny")
    (run.folder / "config.yaml").write_text(dump_config(with_vectors(run.config, before)), encoding="utf-8")
    if is_left:
        (moved / "old").mkdir()
        (moved / before).touch()
    wanted = with_vectors(config(moved), now)
    if same:
        with resume(moved, wanted) as opened:
            assert opened.run.config.model.vectors == wanted.model.vectors
    else:
        with pytest.raises(ConfigError, match=r"other settings \(model\.vectors\.source"), resume(moved, wanted):
            pass
