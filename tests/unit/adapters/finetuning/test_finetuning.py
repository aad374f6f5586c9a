"""Finetuning: default settings, extra validation text, replay, and interpolation with the initial weights."""

import re
import shutil
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kinds import Tfm, TrainTiny
from sealed import set_config
from transformer_cli import Translator
from transformer_cli.adapters.finetuning.copied_text import copied_lines, encode_sides
from transformer_cli.adapters.finetuning.interpolation import INITIAL_VALIDATION, interpolate
from transformer_cli.adapters.finetuning.replay import Replay, replay_rows
from transformer_cli.adapters.finetuning.settings import finetuning_settings
from transformer_cli.api import finetuning_table
from transformer_cli.config.load import load_config
from transformer_cli.errors import CheckpointError, ConfigError, DataError
from transformer_cli.runs.checkpoints import load_best, load_validation_weights, load_weights
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import load_average
from transformer_cli.scoring.losses import corpus_losses

FINETUNE = ("training.batch_size=100", "training.epochs=2", "training.initialize_from=base", "training.seed=5")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Text that the finetuned run is not to forget."""
    path = tmp_path / "old.tsv"
    lines = ["de\ten", "Der alte Hund läuft.\tThe old dog runs.", "Die Frau singt.\tThe woman sings."]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_finetuning_settings_have_a_low_learning_rate(runs: Path) -> None:
    pace = {"learning_rate": 1e-4, "epochs": 3, "patience": 2}
    assert finetuning_settings("base", runs)["training"] == {"initialize_from": "base", **pace}


@pytest.mark.parametrize(
    ("text", "overrides", "patience"),
    [
        ("training: {}", [], 2),
        ("training:", ["training.patience=null"], None),
        ("training: {patience: null, initialize_from: null}\ndata: {tokenizer_from: null}", [], None),
        ("training: {patience: null, initialize_from: other}\ndata: {tokenizer_from: other}", [], None),
    ],
)
def test_null_in_a_config_overrides_inherited_settings(
    runs: Path, text: str, overrides: list[str], patience: int | None
) -> None:
    (runs / "finetuned.yaml").write_text(text)
    config = load_config(runs / "finetuned.yaml", overrides, inherited=finetuning_settings("base", runs))
    assert (config.training.patience, config.training.learning_rate) == (patience, 1e-4)
    assert (config.training.initialize_from, config.data.tokenizer_from) == ("base", "base")
    inherited = finetuning_settings("base", runs)
    said = load_config(runs / "finetuned.yaml", ["training.initialize_from=other"], inherited=inherited)
    assert (said.training.initialize_from, said.data.tokenizer_from) == ("other", "base")


def test_initial_weights_are_validated_with_a_time_estimate(
    train_tiny: TrainTiny, runs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    train_tiny(runs, *FINETUNE)
    first, estimate = caplog.messages[1:3]
    assert re.fullmatch(r"epoch 0/2  valid \d\.\d{3} \(PPL \d\.\d\d\)  \d+\.\d s  best", first)
    assert estimate == "less than a minute until the end, judged by this validation"


def test_extra_valid_has_losses_and_chooses_the_interpolation(
    train_tiny: TrainTiny, runs: Path, old: Path, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run = train_tiny(runs, *FINETUNE, f"training.extra_valid=[{old}]", "training.learning_rate=0.05")
    assert any(line.startswith("training.extra_valid: 2 pairs are too few ") for line in caplog.messages)
    split = encode_sides(copied_lines(run, "extra_valid"), run.codecs)
    start = load_validation_weights(run, INITIAL_VALIDATION)
    before = corpus_losses(start, split, np.arange(2)).loss
    history = run.history()
    assert [each["extra_valid_loss"] > 0 for each in history] == [True] * 3
    assert history[0]["extra_valid_loss"] == before
    pattern = re.compile(r" *(\d+)% initial weights  valid ([\d.]+)  extra_valid ([\d.]+)")
    tried = map(pattern.match, caplog.messages)
    found = {int(each[1]): float(each[2]) + float(each[3]) for each in tried if each}
    assert [*found] == [0, 25, 50, 75, 100]
    made = load_average(run, "best")
    assert made
    assert made.interpolation is not None
    assert found[int(100 * made.interpolation)] == min(found.values())
    assert corpus_losses(load_best(run, torch.device("cpu"))[1], split, np.arange(2)).loss == made.extra_valid_loss
    shutil.rmtree(runs / "base")  # the run has what it needs of it
    rows, said = finetuning_table(run, data_dir=project / "data")
    assert all(re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", cell) for row in (rows[1], rows[-1]) for cell in row[3:])
    assert [line.partition(":")[0] for line in said] == ["valid", "extra_valid"]
    assert re.search(r"40 sentences (cannot tell|show no difference)|is better", said[0])
    assert [row[0].split(":")[0] for row in rows] == ["after", "step 0", "step 2", "step 4", "100% initial weights"]


@pytest.mark.parametrize("share", [None, 0.25])
def test_interpolation_takes_the_best_finetuned_weights(
    train_tiny: TrainTiny, runs: Path, caplog: pytest.LogCaptureFixture, share: float | None
) -> None:
    caplog.set_level("INFO")
    given = [*FINETUNE, "training.extra_valid=[valid]", "training.learning_rate=0.3"]  # worse with each epoch
    given += [] if share is None else [f"training.interpolation={share}"]
    straight = train_tiny(runs, *given, "name=straight")
    said = list(caplog.messages)
    train_tiny(runs, *given, "training.epochs=1")
    raised = train_tiny(runs, *given)
    losses = [each["valid_loss"] for each in straight.history()]
    assert losses[0] < losses[1] < losses[2]
    start, finetuned, last = (
        load_validation_weights(straight, INITIAL_VALIDATION),
        load_validation_weights(straight, 2),
        straight.checkpoint("last"),
    )
    assert not torch.equal(finetuned.output.weight, load_weights(straight, last).output.weight)
    wanted = start if share is None else interpolate(finetuned, start, share)
    for run in (straight, raised):
        found = load_best(run, torch.device("cpu"))[1].state_dict()
        assert all(torch.equal(value, found[name]) for name, value in wanted.state_dict().items())
    assert ("no finetuned weights were better: the model keeps the initial ones" in said) == (share is None)
    lines = {line.partition("weights")[2] for line in said if re.match(r" *\d+% initial weights", line)}
    assert len(lines) == (5 if share is None else 1)
    assert re.match(rf"validation loss .* with {100 if share is None else 25}% of the initial weights: ", said[-1])


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_interpolate_equals_the_weighted_mean(tiny: Run, share: float) -> None:
    start, finetuned = tiny.new_model(), load_best(tiny, torch.device("cpu"))[1]
    wanted = share * start.output.weight.detach() + (1 - share) * finetuned.output.weight.detach()
    torch.testing.assert_close(interpolate(finetuned, start, share).output.weight.detach(), wanted)


def test_replay_is_half_of_an_epoch_and_resumes_exactly(train_tiny: TrainTiny, runs: Path, old: Path) -> None:
    beside = (f"training.replay=[{old}]", "training.extra_valid=[test]")
    straight = train_tiny(runs, *FINETUNE, *beside, "name=straight")
    assert [each["step"] for each in straight.history()] == [0, 4, 8]  # of 200 pairs, and as many more
    replay = Replay(list)
    trainer: Any = SimpleNamespace(run=straight, state=SimpleNamespace(epoch=1), texts=SimpleNamespace())
    trainer.texts.train = replay.load_split(straight)
    replay.on_begin(trainer)
    assert sorted(replay.epoch_rows(trainer, np.arange(2))) == [0, 1, 2, 3]  # its own two pairs, and those to replay
    train_tiny(runs, *FINETUNE, *beside, "training.epochs=1")
    old.unlink()
    shutil.rmtree(runs / "base")
    resumed = train_tiny(runs, *FINETUNE, *beside)
    same = itemgetter("valid_loss", "extra_valid_loss", "train_loss")
    assert [*map(same, resumed.history())] == [*map(same, straight.history())]
    one, other = (load_best(run, torch.device("cpu"))[1].state_dict() for run in (straight, resumed))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    (resumed.folder / "replay.source.txt").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"replay\.source\.txt"):
        train_tiny(runs, *FINETUNE, *beside)


@pytest.mark.parametrize(("setting", "split"), [("extra_valid", "valid"), ("replay", "train")])
def test_extra_valid_and_replay_name_a_run_for_its_text(
    setting: str, split: str, train_tiny: TrainTiny, runs: Path, project: Path
) -> None:
    once = ("training.batch_size=100", "training.epochs=1", "training.initialize_from=base")
    run = train_tiny(runs, *once, f"training.{setting}=[base]", "name=tuned")
    (folder,) = (project / "data").iterdir()
    for side in ("source", "target"):
        copied = (run.folder / f"{setting}.{side}.txt").read_text(encoding="utf-8")
        assert copied == (folder / f"{split}.{side}.txt").read_text(encoding="utf-8")
    other = shutil.copytree(runs / "base", runs / "other")
    set_config(other, load_config(runs / "base/config.yaml", ["data.target=nl"]))
    with pytest.raises(ConfigError, match=r"other translates de→nl, not de→en; name another run, or a file of pairs$"):
        train_tiny(runs, *once, f"training.{setting}=[{other}]", "name=wrong")
    set_config(other, load_config(runs / "base/config.yaml", ["data.fingerprint='12345678'"]))
    with pytest.raises(DataError, match="no dataset files de→en with fingerprint 12345678"):
        train_tiny(runs, *once, f"training.{setting}=[other]", "name=wrong")


def test_replay_source_only_is_translated_first(train_tiny: TrainTiny, runs: Path, tmp_path: Path) -> None:
    lines = ["Der kleine Hund läuft im Park.", "Die Frau singt."]
    (tmp_path / "old.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run = train_tiny(runs, *FINETUNE, f"training.replay=[{tmp_path / 'old.txt'}]")
    expected = Translator(runs / "base", device="cpu").translate(lines)
    assert (run.folder / "replay.target.txt").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)
    (tmp_path / "old.en").write_text("a dog\na woman\n", encoding="utf-8")
    both = Replay(list).read([tmp_path / "old.txt", tmp_path / "old.en"], run.config)
    assert [*both] == [(lines[0], "a dog"), (lines[1], "a woman")]
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nDer alte Mann singt.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"training\.replay .*: not a text of one sentence per line"):
        train_tiny(runs, *FINETUNE, "name=subtitles", f"training.replay=[{tmp_path / 'a.srt'}]")


def test_replay_rows_come_equally_often_in_each_epochs_order() -> None:
    rows = replay_rows(np.array([7, 8]), 5, seed=1, epoch=1)
    assert sorted(rows.tolist()) in ([7, 7, 7, 8, 8], [7, 7, 8, 8, 8])
    some = [replay_rows(np.arange(50), 20, seed=1, epoch=epoch).tolist() for epoch in (1, 1, 2)]
    assert some[0] == some[1] != some[2]
    assert len({*some[0]}) == 20


def test_extra_valid_without_pairs_leaves_no_run(train_tiny: TrainTiny, runs: Path, old: Path) -> None:
    old.write_text("de\ten\n \t \n", encoding="utf-8")
    for place, said in ((old, "no sentence pairs; name other text"), (old.with_name("none.tsv"), "no such file")):
        with pytest.raises(DataError, match=rf"training\.extra_valid: [^\n]*{said}"):
            train_tiny(runs, *FINETUNE, f"training.extra_valid=[{place}]")
    assert not (runs / "tiny").exists()


def test_train_prints_losses_and_bleu_of_both_texts(workspace: Path, old: Path, corpus: Path, tfm: Tfm) -> None:
    settings = ("training.epochs=1", "name=finetuned", "training.initialize_from=tiny")
    given = [word for each in settings for word in ("--set", each)]
    code, out, err = tfm("train", "--config", corpus / "tiny.yaml", "--extra-valid", old, *given, cwd=workspace)
    assert code == 0, err
    header, initial, step, final = out.splitlines()[:4]
    assert header.split("  ")[0] == "after"
    assert header.endswith("valid BLEU (40 lines)  extra_valid BLEU (2 lines)")
    assert (initial.split()[:2], step.split()[0], final.split()[1:3]) == (["step", "0"], "step", ["initial", "weights"])
    assert len(re.findall(r"\d+\.\d\d ± \d", initial)) == len(re.findall(r"\d+\.\d\d ± \d", final)) == 2


def test_train_from_a_run_takes_the_runs_own_dataset(workspace: Path, corpus: Path, tfm: Tfm) -> None:
    train = ("train", "--from", "tiny", "--config", corpus / "tiny.yaml", "--set", "training.max_steps=1")
    code, _, err = tfm(*train, "--set", "name=again", cwd=workspace)
    assert (code, "no dataset" in err) == (0, False), err
    config = load_config(workspace / "runs/again/config.yaml")
    assert (config.data.tokenizer_from, config.data.fingerprint) != (None, None)
