"""Too little memory: before a model is built, in a step, in a validation and in a search. Nothing learned is lost."""

from pathlib import Path

import pytest
import torch

from kinds import Tfm, TrainTiny
from sealed import reseal
from transformer_cli.decoding import decoder
from transformer_cli.errors import MemoryShortage
from transformer_cli.evaluation.score import score_pairs
from transformer_cli.model import loss, size
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.run import Run
from transformer_cli.training import learner
from transformer_cli.training import optimisers as muon
from transformer_cli.translator import Translator

STACKS = 4  # of matrices that Muon works on at a time: 12 of attention in two stacks, inner, outer
SHORT = ("training.batch_size=50", "training.epochs=2")  # an epoch of four steps


def take_too_much() -> None:
    torch.empty(1 << 60, dtype=torch.uint8)


def fail_in_call(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: int) -> None:
    """Let a function ask for more memory than any machine has when it is called for the given time, from 1."""
    calls = 0
    original = getattr(owner, name)

    def counted(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            take_too_much()
        return original(*arguments, **keywords)

    monkeypatch.setattr(owner, name, counted)


def weights_of(run: Run) -> bytes:
    return (run.checkpoint("last") / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(train_tiny: TrainTiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short run that nothing has stopped. Not to be written to."""
    return train_tiny(tmp_path_factory.mktemp("whole"), *SHORT)


def test_train_model_without_room_is_refused_before_anything_is_written(
    tfm: Tfm, corpus: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in (workspace / "runs").rglob("*") if path.suffix != ".lock")
    monkeypatch.setattr(size, "free_memory", lambda device: 10**9)
    for arguments in (("--fresh",), ("--set", "name=other")):
        answer = tfm(
            "train", "--config", corpus / "tiny.yaml", *arguments, "--set", "model.d_ff=1000000", cwd=workspace
        )
        assert answer == (
            1,
            "",
            "tfm: error: the model's 130,016,601 parameters need 2.1 GB with their gradients and the optimiser's "
            "moments, but only 1.0 GB of memory is free; lower model.d_ff, model.d_model or "
            "model.num_decoder_layers, or free some\n",
        )
    assert sorted(path.name for path in (workspace / "runs").rglob("*") if path.suffix != ".lock") == before


def test_translate_by_a_huge_run_is_refused_before_it_is_built(tfm: Tfm, workspace: Path) -> None:
    config = workspace / "runs/tiny/config.yaml"
    text = config.read_text(encoding="utf-8")
    huge = text.replace("d_ff: 64", "d_ff: 1048576").replace("d_model: 32", "d_model: 1048576")
    config.write_text(huge, encoding="utf-8")
    reseal(workspace / "runs/tiny")
    code, out, err = tfm("translate", "Hallo", cwd=workspace)
    *_, last = err.splitlines()  # before it, at most the line that says that the config was edited
    assert (code, out) == (1, "")
    assert last.startswith("tfm: error: runs/tiny: the model's 17,592,328,650,777 parameters need 70,369.3 GB just")
    assert " GB just to be loaded, but only " in last


@pytest.mark.parametrize(
    ("number", "lanes", "step"),
    [(3, 1, 2), (5, 1, 4), (6, 2, 2)],  # in an epoch, right after the save at its end, in the second lane of a step
)
def test_train_batch_without_room_saves_what_was_learned(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, lanes: int, step: int
) -> None:
    settings = (*SHORT, f"training.lanes={lanes}")
    with monkeypatch.context() as patch:
        fail_in_call(patch, learner, "token_losses", number)
        with pytest.raises(MemoryShortage) as told:
            train_tiny(tmp_path / "parts", *settings)
    message = str(told.value)
    assert message.startswith(f"a batch of {50 // lanes} sentences with up to ")
    assert " target positions does not fit in the memory of cpu; in a new run, which may begin with the " in message
    assert message.endswith(f"; the same command goes on from the save at step {step} where more memory is free")
    whole = train_tiny(tmp_path / "whole", *settings)
    assert weights_of(train_tiny(tmp_path / "parts", *settings)) == weights_of(whole)


@pytest.mark.parametrize("number", [1, 3])  # of the stacks, in the second step
def test_train_muon_without_room_has_changed_nothing(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    by_muon = (*SHORT, "training.optimizer=muon")
    lost = r"^the optimiser's moments do not fit .* from the save at step 1 where more"
    whole = train_tiny(tmp_path / "whole", *by_muon)
    with monkeypatch.context() as patch:
        fail_in_call(patch, muon, "orthogonalized", STACKS + number)
        with pytest.raises(MemoryShortage, match=lost):
            train_tiny(tmp_path / "parts", *by_muon)
    assert weights_of(train_tiny(tmp_path / "parts", *by_muon)) == weights_of(whole)


def test_device_without_room_for_the_model_is_one_line(
    train_tiny: TrainTiny, workspace: Path, tiny: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transformer, "to", lambda self, device: take_too_much())
    with pytest.raises(MemoryShortage, match=r"^the model does not fit in the memory of cpu; choose another training"):
        train_tiny(workspace / "other")
    with pytest.raises(MemoryShortage, match=r"runs/tiny: its model does not fit in the memory of cpu; choose another"):
        Translator(tiny, "cpu")


def test_train_moments_without_room_is_one_line(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: take_too_much())
    with pytest.raises(
        MemoryShortage, match=r"^the optimiser's moments do not fit in the memory of cpu; lower model.d_model$"
    ):
        train_tiny(tmp_path, *SHORT)


def test_train_first_batch_without_room_leaves_a_new_run(
    train_tiny: TrainTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_in_call(patch, learner, "token_losses", 1)
        with pytest.raises(MemoryShortage, match=r"leave long sentences out \(model\.max_length\)$"):
            train_tiny(tmp_path, *SHORT)
    assert train_tiny(tmp_path, "training.batch_size=25", "training.epochs=1").has_checkpoint("best")


def test_train_validation_without_room_is_done_again(
    train_tiny: TrainTiny, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_in_call(patch, loss, "token_losses", 1)
        with pytest.raises(MemoryShortage, match=r"^the losses of \d+ sentences with up to "):
            train_tiny(tmp_path / "parts", *SHORT)
    resumed = train_tiny(tmp_path / "parts", *SHORT)
    assert weights_of(resumed) == weights_of(whole)
    assert [entry["valid_loss"] for entry in resumed.history()] == [entry["valid_loss"] for entry in whole.history()]


def test_translate_and_score_without_room_are_one_line(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["Der kleine Hund läuft.", "Die Frau singt."]
    monkeypatch.setattr(decoder, "pad_ids", lambda ids: take_too_much())
    with pytest.raises(MemoryShortage, match=r"^translating 2 sentences of up to 5 tokens into up to \d+, with 1 hypo"):
        translator.translations(sentences)
    monkeypatch.setattr(loss, "token_losses", lambda *arguments: take_too_much())
    with pytest.raises(MemoryShortage, match=r"^the losses of 1 sentences with up to 7 source and 6 target positions"):
        list(score_pairs(translator, [("Der kleine Hund läuft.", "The dog runs.")]))
