"""A run's folder: what comes back, what is refused, and which run is found."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sealed import edit_sealed
from small_run import make_run
from tables import read_table
from transformer_cli.errors import CheckpointError, ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.finding import find_run, write_latest
from transformer_cli.runs.run import Run, find_tokenizer_run
from transformer_cli.system.files import read_checksums, write_checksums
from transformer_cli.text.vocabulary import PAD
from transformer_cli.translate import Translator


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "runs/first")


def seeded(run: Run, seed: int) -> Run:
    training = run.config.training.model_copy(update={"seed": seed})
    return replace(run, config=run.config.model_copy(update={"training": training}))


def assert_same_weights(one: Transformer, other: Transformer) -> None:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    assert all(name == same_name and value.equal(same) for (name, value), (same_name, same) in pairs)


def test_new_model_depends_on_the_seed_alone(run: Run) -> None:
    torch.manual_seed(3)
    by_hand = Transformer(run.config.model, source_vocabulary=6, target_vocabulary=5, pad_id=PAD)
    before = torch.get_rng_state()
    drawn = seeded(run, 3).new_model()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert_same_weights(seeded(run, 3).new_model(), drawn)
    assert_same_weights(by_hand, drawn)
    assert not torch.equal(seeded(run, 4).new_model().output.weight, drawn.output.weight)


def test_history_comes_back_exactly(run: Run) -> None:
    entries = [{"epoch": 1, "valid_loss": 0.1 + 0.2, "best": True}, {"epoch": 2, "valid_loss": 1e-300, "best": False}]
    run.write_history(entries)
    assert Run.open(run.folder).history() == entries
    assert len((run.folder / "history.jsonl").read_text().splitlines()) == 2
    run.write_history(entries[:1])
    assert run.history() == entries[:1]


def test_find_tokenizer_run_by_name_and_path(run: Run) -> None:
    own = run.config.data
    assert find_tokenizer_run(own) is None
    for name in (run.folder.name, str(run.folder)):
        assert find_tokenizer_run(own.model_copy(update={"tokenizer_from": name}), run.folder.parent) == run.folder


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"source": "fr"}, "data.source: de and fr"),
        ({"lowercase": False, "min_freq": 3}, "data.lowercase: true and false; data.min_freq: 2 and 3"),
        ({"tokens": "subwords", "lowercase": True, "joint_vocabulary": True},
         "data.tokens: words and subwords; data.joint_vocabulary: false and true"),
    ],
)  # fmt: skip
def test_find_tokenizer_run_with_other_settings_is_refused(run: Run, update: dict[str, Any], message: str) -> None:
    wanted = run.config.data.model_copy(update={"tokenizer_from": run.folder.name, **update})
    with pytest.raises(ConfigError) as caught:
        find_tokenizer_run(wanted, run.folder.parent)
    what = f"data.tokenizer_from: {run.folder.name} has other settings"
    assert str(caught.value) == f"{what} ({message}); set them to the values of that run"


@pytest.mark.parametrize(("file", "message"), read_table(Path(__file__).with_name("damaged_files.txt")))
def test_open_damaged_run_names_the_damage(run: Run, file: str, message: str) -> None:
    name, is_there, content = file.partition(":")
    (run.folder / name).unlink()
    if is_there:
        (run.folder / name).write_text(content.lstrip(), encoding="utf-8")
    with pytest.raises((CheckpointError, ConfigError)) as caught:
        Run.open(run.folder)
    assert str(caught.value).startswith(message.replace("{}", str(run.folder)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pointer", ["best", "last"])
def test_checkpoint_pointer_missing_or_dangling_is_an_error(run: Run, pointer: str) -> None:
    missing = f"^{run.folder}: no {pointer} checkpoint yet; .* if it was lost, restore"
    with pytest.raises(CheckpointError, match=missing):
        run.checkpoint(pointer)
    (run.folder / "checkpoints/outside").mkdir(parents=True)
    for content, what in (
        (b"step-0000009\n", "names 'step-0000009', which is not a checkpoint in checkpoints/"),
        (b"", "names '', which is not a checkpoint in checkpoints/"),
        (b"../../outside\n", "names '../../outside', which is not a checkpoint in checkpoints/"),
        (b"outside\n", "names 'outside', which is not a checkpoint in checkpoints/"),
    ):
        (run.folder / pointer).write_bytes(content)
        with pytest.raises(CheckpointError, match=f"^{run.folder}/{pointer} {what}; restore it, or"):
            run.checkpoint(pointer)
    (run.folder / pointer).write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=f"^{run.folder}/{pointer}: line 1: byte 0xff is not UTF-8; restore it"):
        run.checkpoint(pointer)


def test_find_run_by_name_by_path_or_the_newest(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_dir = run.folder.parent
    second = make_run(runs_dir / "second").folder
    write_latest(run.folder)
    monkeypatch.chdir(runs_dir.parent)
    assert find_run(None, runs_dir) == run.folder
    assert find_run("second", runs_dir) == second
    assert find_run(second, Path("elsewhere")) == second
    assert find_run("runs/second") == find_run("second") == Path("runs/second")
    Path("second").mkdir()  # a run goes before a folder here
    assert find_run("second") == Path("runs/second")


def test_find_run_names_an_unknown_path_as_given(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.folder.parents[1])
    Path("file").touch()
    for name, said in {
        "nope": "runs/nope: no such run",
        "runs/nope": "runs/nope: no such run",
        "/no/such": "/no/such: no such run",
        "./file": "file: a file, not the folder of a run",
    }.items():
        with pytest.raises(CheckpointError, match=f"^{said}; runs/ has {run.folder.name}$"):
            find_run(name)


@pytest.mark.parametrize(
    ("latest", "said"),
    [
        (None, ""),  # as in a copy of some runs
        (b"gone\n", " names 'gone', but there is no such run"),
        (b"\xff", ": line 1: byte 0xff is not UTF-8"),
        (b"first 12345678\n", " names 'first 12345678', but there is no such run"),
        (b"../first\n", " names '../first', but there is no such run"),
    ],
)
def test_find_run_without_latest_takes_the_only_one(run: Run, latest: bytes | None, said: str) -> None:
    runs_dir = run.folder.parent
    (runs_dir / "no-run").mkdir()
    if latest is not None:
        (runs_dir / "latest").write_bytes(latest)
    assert find_run(None, runs_dir) == run.folder
    make_run(runs_dir / "another")
    with pytest.raises(CheckpointError, match=f"^{runs_dir}/latest{said}.*; name a run: another, first$"):
        find_run(None, runs_dir)
    with pytest.raises(CheckpointError, match=r"has none$"):
        find_run("first", runs_dir / "no-run")


def test_open_run_of_another_format_version_is_one_line(run: Run) -> None:
    edit_sealed(run.folder / "run.json", lambda value: value.update(format_version=4))
    said = f"^{run.folder}: format version 4, this tfm reads 7; use the tfm that trained it, or train it again$"
    with pytest.raises(CheckpointError, match=said):
        Run.open(run.folder)


def test_open_run_reads_only_files_of_its_own_folder(run: Run) -> None:
    path = run.folder / "source.vocab.txt"
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=r"source\.vocab\.txt: not a file, but a pipe or a device; restore it"):
        Run.open(run.folder)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, bytes(range(256)) * 9, "pieces"])
def test_open_run_names_a_damaged_subword_file(by_subwords: Translator, tmp_path: Path, content: object) -> None:
    folder = Path(shutil.copytree(by_subwords.run.folder, tmp_path / "run"))
    path = folder / "target.subwords.model"
    whole = path.read_bytes()
    path.write_bytes(content if isinstance(content, bytes) else re.sub(rb"[a-z]{2,}", b"\xff\xff", whole))
    write_checksums(folder, read_checksums(folder))
    with pytest.raises(CheckpointError, match=r"target\.subwords\.model: SentencePiece cannot read it: .*; restore it"):
        Run.open(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda value: value.update(evil=1), r"run\.json: damaged: .*'evil'"),
        ("run.json", lambda value: value.update(tokenizer=[1]),
         r"run\.json: damaged: tokenizer: Input should be a valid"),
        ("run.json", lambda value: value.pop("id"), r"run\.json: damaged: id: Field required"),
        ("run.json", lambda value: value.pop("format_version"), "format version None, this tfm reads 7"),
        ("run.json", lambda value: value.update(exported="x"), r"run\.json: damaged: exported: Input should be a"),
        ("target.detokenizer.json", lambda value: value.update(attach_left=5),
         r"detokenizer\.json: damaged: 'int' object is not iter"),
        ("target.detokenizer.json", lambda value: value.clear(),
         r"detokenizer\.json: damaged: 'attach_left'; restore it"),
    ],
)  # fmt: skip
def test_open_run_with_wrong_keys_or_types_is_one_line(
    run: Run, name: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    edit_sealed(run.folder / name, change)
    with pytest.raises(CheckpointError, match=message):
        Run.open(run.folder)


def test_open_run_with_a_list_as_json_is_one_line(run: Run) -> None:
    (run.folder / "run.json").write_text("[1]", encoding="utf-8")
    write_checksums(run.folder, read_checksums(run.folder))
    with pytest.raises(CheckpointError, match=r"run\.json: damaged: not an object, but \[1\]; restore it"):
        Run.open(run.folder)
