"""A made-up corpus that a tiny model learns in seconds, prepared and trained once; `tfm` as a function.

pytest-xdist's controller, which runs no test, loads this file too: what takes seconds to import, the fixtures import.
"""

# ruff: noqa: E402
# isort: off
from isolation import CACHES, breaches, isolate

WORKING_FOLDER = isolate()  # before anything reads the environment
# isort: on

import fcntl
import gc
import io
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from forked import Forks
from small_corpus import write_corpus

if TYPE_CHECKING:
    from kinds import TrainTiny
    from served import Running
    from transformer_cli import api
    from transformer_cli.runs.run import Run
    from transformer_cli.system import progress
    from transformer_cli.translate import Translator

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what nohup starts ignores it

# Other programs may hold a test up.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What has been imported stays: a collection of garbage need not look through all of it again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def working_folder_is_empty() -> None:
    """Where a test does not choose a working folder, `tfm` finds nothing."""
    os.chdir(WORKING_FOLDER)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """float32 is the same bit for bit, and the cores are there for the workers."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def nothing_outside_is_touched() -> Iterator[None]:
    """A test that reads or writes the checkout's data/, runs/ or exports/, or the user's own folders, fails."""
    yield
    found = breaches()
    assert not found, f"this test, or a program that it started, reached for what is not its own:\n{found}"


@pytest.fixture(scope="session", autouse=True)
def models_of_languages_are_shared() -> Iterator[None]:
    """spaCy and py3langid take half a second to make one, and what one says of a text depends on no other text."""
    from py3langid.langid import LanguageIdentifier

    from transformer_cli.text import words

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_blank_tokenizer", cache(words._blank_tokenizer))
        patch.setattr(LanguageIdentifier, "from_model_file", staticmethod(cache(LanguageIdentifier.from_model_file)))
        yield


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder with German–English text, {train,valid,test}.{de,en}, tiny.yaml and subwords.yaml.

    Not to be written to.
    """
    return _made_once("corpus", write_corpus)


@pytest.fixture(scope="session")
def tfm() -> Callable[..., tuple[int, str, str]]:
    """tfm(*arguments, stdin=b"", cwd=folder, environment={}) → (exit code, standard output, standard error).

    In this process, whose environment has these variables meanwhile.
    `tfm train` leaves an empty curves.png.
    """
    return _tfm


@pytest.fixture(scope="session")
def refused(tfm: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """refused(*arguments, cwd=folder): run a command that ends with exit code 1 and one line; returns the line."""

    def run(*arguments: object, **options: Any) -> str:
        code, out, err = tfm(*arguments, **options)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        return err.removesuffix("\n")

    return run


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """`tfm` in processes of its own."""
    started = Forks()
    yield started
    started.close()


@pytest.fixture(scope="session")
def project(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder: the corpus prepared under data/, a run trained under runs/. Not to be written to."""

    def make(folder: Path) -> None:
        _prepare(corpus / "tiny.yaml", folder / "data")
        _train(corpus / "tiny.yaml", data_dir=folder / "data", runs_dir=folder / "runs")

    return _copied(_made_once("project", make), tmp_path_factory)


@pytest.fixture(scope="session")
def subword_data(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the corpus prepared as subwords.yaml says. Not to be written to."""

    def make(folder: Path) -> None:
        _prepare(corpus / "subwords.yaml", folder / "data")

    return _copied(_made_once("subwords", make), tmp_path_factory) / "data"


@pytest.fixture(scope="session")
def tiny(project: Path) -> "Run":
    """The project's run, opened."""
    from transformer_cli.runs.run import Run

    return Run.open(project / "runs/tiny")


@pytest.fixture(scope="session")
def translator(tiny: "Run") -> "Translator":
    """The project's run, ready to translate. A test that changes it makes its own."""
    return _translator(tiny)


@pytest.fixture(scope="session")
def served(translator: "api.Translator") -> Iterator["Running"]:
    """A server of the tiny run, with two workers."""
    from served import running  # only the tests of the server need its libraries

    with running(translator, n_workers=2) as found:
        yield found


@pytest.fixture(scope="session")
def by_subwords(train_tiny: "TrainTiny", tmp_path_factory: pytest.TempPathFactory) -> "Translator":
    """A run of subwords that has hardly learned anything."""
    from transformer_cli.runs.run import Run

    runs = _made_once("subword_runs", lambda folder: train_tiny(folder, "training.epochs=1", by="subwords"))
    return _translator(Run.open(_copied(runs, tmp_path_factory) / "tiny"))


@pytest.fixture
def workspace(project: Path, tmp_path: Path) -> Path:
    """A copy of the project that a test may change."""
    return Path(shutil.copytree(project, tmp_path / "workspace"))


@pytest.fixture
def prepared(project: Path, tmp_path: Path) -> Path:
    """A working folder with the project's data and no run."""
    (tmp_path / "data").symlink_to(project / "data")
    return tmp_path


@pytest.fixture
def used(project: Path, tmp_path: Path) -> Path:
    """A working folder with links to the project's data and run."""
    for name in ("data", "runs"):
        (tmp_path / name).symlink_to(project / name)
    return tmp_path


@pytest.fixture
def runs(tiny: "Run", tmp_path: Path) -> Path:
    """A folder of runs in which one is called base: a copy of the project's."""
    shutil.copytree(tiny.folder, tmp_path / "runs/base")
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def train_tiny(corpus: Path, request: pytest.FixtureRequest) -> "TrainTiny":
    """train_tiny(runs_dir, *overrides, fresh=False, by="words"): train, or go on with, the tiny run in runs_dir.

    by: "words" or "subwords". Its curves.png is empty.
    """

    def train_with(runs_dir: Path, *overrides: str, fresh: bool = False, by: str = "words") -> "Run":
        if by == "words":
            config, data_dir = corpus / "tiny.yaml", request.getfixturevalue("project") / "data"
        else:
            config, data_dir = corpus / "subwords.yaml", request.getfixturevalue("subword_data")
        return _train(config, *overrides, data_dir=data_dir, runs_dir=runs_dir, fresh=fresh)

    return train_with


@pytest.fixture(scope="session")
def uncut(train_tiny: "TrainTiny", tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """uncut(*overrides): what the tiny run leaves that nothing cuts off."""
    from outcomes import outcome

    return cache(lambda *overrides: outcome(train_tiny(tmp_path_factory.mktemp("uncut"), *overrides)))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list["subprocess.Popen[bytes]"]:
    """The worker processes that a test starts."""
    from transformer_cli.system import workers

    processes = []

    def start(*arguments: Any, **settings: Any) -> "subprocess.Popen[bytes]":
        processes.append(subprocess.Popen(*arguments, **settings))
        return processes[-1]

    monkeypatch.setattr(workers, "subprocess", type("subprocess", (), {"Popen": start, "PIPE": subprocess.PIPE}))
    return processes


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of differences draw little: those of statistics.py and metrics.py hold the real numbers to sacreBLEU's."""
    from transformer_cli.adapters.study import statistics
    from transformer_cli.scoring import metrics

    monkeypatch.setattr(statistics, "SHUFFLES", 200)
    for module in (statistics, metrics):
        monkeypatch.setattr(module, "RESAMPLES", 200)


@pytest.fixture
def seeded() -> None:
    """torch draws from seed 0."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def no_curves() -> Iterator[None]:
    """What trains in this test leaves an empty picture."""
    with _curves_are_left_out():
        yield


@pytest.fixture
def bars() -> "Iterator[list[progress.Bar]]":
    """All bars that are shown during the test."""
    from transformer_cli.system import progress

    shown: list[progress.Bar] = []
    make = progress.bar

    def noted(*arguments: Any, **options: Any) -> progress.Bar:
        shown.append(make(*arguments, **options))
        return shown[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "bar", noted)
        yield shown


def _made_once(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first worker of xdist makes which needs it; the others wait for it. Not to be written to."""
    folder = Path(os.environ[CACHES], name)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)  # of a worker that has failed, or was killed
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def _copied(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for this worker, whose tests may take its locks."""
    return Path(shutil.copytree(made, tmp_path_factory.mktemp(made.name), dirs_exist_ok=True))


def _prepare(config: Path, data_dir: Path) -> None:
    """Make the dataset of a config of aligned files, as `tfm prepare` does."""
    from aligned import AlignedFiles
    from transformer_cli.config.load import load_config
    from transformer_cli.data.make_dataset import make_dataset

    settings = load_config(config)
    make_dataset(settings, AlignedFiles(settings.data), data_dir=data_dir)


def _train(config: Path, *overrides: str, data_dir: Path, runs_dir: Path, fresh: bool = False) -> "Run":
    """With the public function, or in a tree of the core alone with the core's."""
    from transformer_cli.config.load import load_config

    settings = load_config(config, overrides)
    if find_spec("transformer_cli.api"):
        from transformer_cli import train

        with _curves_are_left_out():
            return train(settings, data_dir=data_dir, runs_dir=runs_dir, fresh=fresh)
    from transformer_cli.training.callbacks import keys_of_callbacks
    from transformer_cli.training.trainer import train as core_train
    from transformer_cli.training.translation_score import Examples, TranslationScore

    kinds = {kind.implements: kind for kind in (TranslationScore, Examples)}
    callbacks = [kinds[key]() for key in keys_of_callbacks(settings) if key in kinds]
    return core_train(settings, data_dir=data_dir, runs_dir=runs_dir, fresh=fresh, callbacks=callbacks)


def _translator(run: "Run") -> "Translator":
    """The public Translator, or in a tree of the core alone the core's."""
    if find_spec("transformer_cli.api"):
        from transformer_cli import Translator

        return Translator(run, "cpu")
    from opened import translator_of

    return translator_of(run)


@contextmanager
def _curves_are_left_out() -> Iterator[None]:
    """Training leaves an empty picture: to draw takes several times as long as a tiny epoch."""
    from matplotlib.figure import Figure

    from transformer_cli.adapters.study import plots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw_curves", lambda histories: Figure((1, 1)))
        yield


@contextmanager
def _log_put_back() -> Iterator[None]:
    """Afterwards the package's log is as it was: `main` gives it a handler and a level of its own."""
    log = logging.getLogger("transformer_cli")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("handlers", "level", "propagate"):
            patch.setattr(log, name, getattr(log, name))
        yield


@pytest.fixture(autouse=True)
def _log_of_each_test() -> Iterator[None]:
    with _log_put_back():
        yield


def _tfm(
    *arguments: object, stdin: bytes = b"", cwd: Path, environment: Mapping[str, object] = MappingProxyType({})
) -> tuple[int, str, str]:
    from transformer_cli.commands.app import main

    out, err = io.StringIO(), io.StringIO()
    drawing = _curves_are_left_out() if arguments[:1] == ("train",) else nullcontext()
    with drawing, _log_put_back(), pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in environment.items():
            patch.setenv(name, str(value))
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    code = ended.value.code or 0
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()
