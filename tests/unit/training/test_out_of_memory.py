"""Too little memory: before a model is built, in a step, in a validation and in a search. Nothing learned is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kinds import TrainTiny
from opened import translator_of
from outcomes import outcome
from sealed import set_config
from transformer_cli.errors import MemoryShortage
from transformer_cli.model import loss, size
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.run import Run
from transformer_cli.scoring.evaluate import score_pairs
from transformer_cli.search import decoder
from transformer_cli.training import learner, optimisers, trainer
from transformer_cli.translate import Translator

SHORT = ("training.batch_size=50", "training.epochs=2")  # an epoch of four steps
MUON = "training.optimizer=muon"
STACKS = 4  # of matrices that Muon works on at a time: 12 of attention in two stacks, inner, outer
FROM_STEP = "the same command resumes from the checkpoint at step {} where more memory is free$"
MOMENTS = r"^the optimiser's moments do not fit in the memory of cpu; .*"
BATCH = r"^a batch of {} sentences with up to .* target positions does not fit in the memory of cpu; in a new run, .*"


def take_too_much() -> None:
    torch.empty(1 << 60, dtype=torch.uint8)


def fail_in_call(patch: pytest.MonkeyPatch, owner: object, name: str, number: int) -> None:
    """Let a function ask for more memory than any machine has when it is called for the given time, from 1."""
    calls = 0
    original = getattr(owner, name)

    def counted(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            take_too_much()
        return original(*arguments, **keywords)

    patch.setattr(owner, name, counted)


def test_train_too_large_model_writes_nothing(
    train_tiny: TrainTiny, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in (workspace / "runs").rglob("*") if path.suffix != ".lock")
    monkeypatch.setattr(size, "free_memory", lambda device: 10**9)
    said = r"^the model's 130,016,601 parameters need 2\.1 GB with their gradients and the"
    for name in ("tiny", "other"):
        with pytest.raises(MemoryShortage, match=said):
            train_tiny(workspace / "runs", f"name={name}", "model.d_ff=1000000", fresh=True)
    assert sorted(path.name for path in (workspace / "runs").rglob("*") if path.suffix != ".lock") == before


def test_load_too_large_run_is_refused(workspace: Path) -> None:
    run = Run.open(workspace / "runs/tiny")
    model = run.config.model.model_copy(update={"d_ff": 1_048_576, "d_model": 1_048_576})
    set_config(run.folder, run.config.model_copy(update={"model": model}))
    said = r"^.*runs/tiny: the model's 17,592,328,650,777 parameters need 70,369\.3 GB just to be loaded, but only "
    with pytest.raises(MemoryShortage, match=said):
        translator_of(Run.open(run.folder))


@pytest.mark.parametrize(
    ("settings", "owner", "name", "number", "said"),
    [
        ((), learner, "token_losses", 3, BATCH.format(50) + FROM_STEP.format(2)),
        ((), learner, "token_losses", 5, BATCH.format(50) + FROM_STEP.format(4)),  # right after a validation
        # the second shard
        (("training.shards=2",), learner, "token_losses", 6, BATCH.format(25) + FROM_STEP.format(2)),
        ((), learner, "token_losses", 1, r"leave long sentences out \(model\.max_length\)$"),
        ((), torch.optim.Adam, "step", 1, MOMENTS + r"lower model\.d_model$"),
        ((MUON,), optimisers, "orthogonalize", STACKS + 1, MOMENTS + FROM_STEP.format(1)),
        ((MUON,), optimisers, "orthogonalize", STACKS + 3, MOMENTS + FROM_STEP.format(1)),
        ((), loss, "token_losses", 1, r"^the losses of \d+ sentences with up to "),  # of a validation
    ],
)
def test_train_out_of_memory_resumes_exactly(
    train_tiny: TrainTiny,
    uncut: Callable[..., dict[str, Any]],
    tmp_path: Path,
    settings: tuple[str, ...],
    owner: object,
    name: str,
    number: int,
    said: str,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fail_in_call(patch, owner, name, number)
        with pytest.raises(MemoryShortage, match=said):
            train_tiny(tmp_path, *SHORT, *settings)
    assert outcome(train_tiny(tmp_path, *SHORT, *settings)) == uncut(*SHORT, *settings)


def test_train_out_of_memory_saves_without_forward_pass(
    train_tiny: TrainTiny, uncut: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    token_losses, calls = loss.token_losses, 0

    def failing(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:  # in the fourth step, and after it
            take_too_much()
        return token_losses(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "token_losses", failing)
        patch.setattr(loss, "token_losses", failing)  # of losses alone
        with pytest.raises(MemoryShortage, match=FROM_STEP.format(3).replace("command", "command without --fresh")):
            train_tiny(tmp_path, *SHORT, fresh=True)
    assert (tmp_path / "tiny/last").read_text() == "step-0000003-unvalidated\n"
    assert outcome(train_tiny(tmp_path, *SHORT)) == uncut(*SHORT)


def test_train_error_in_validation_costs_no_step(
    train_tiny: TrainTiny, uncut: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "corpus_losses", failing)
        with pytest.raises(RuntimeError, match="illegal memory access"):
            train_tiny(tmp_path, *SHORT)
    assert (tmp_path / "tiny/last").read_text() == "step-0000004-unvalidated\n"
    assert outcome(train_tiny(tmp_path, *SHORT)) == uncut(*SHORT)


def test_device_out_of_memory_is_one_line(
    train_tiny: TrainTiny, workspace: Path, tiny: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transformer, "to", lambda self, device: take_too_much())
    with pytest.raises(MemoryShortage, match=r"^the model does not fit in the memory of cpu; choose another training"):
        train_tiny(workspace / "other")
    with pytest.raises(MemoryShortage, match=r"runs/tiny: its model does not fit in the memory of cpu; choose another"):
        translator_of(tiny)


def test_translate_and_score_out_of_memory_is_one_line(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["Der kleine Hund läuft.", "Die Frau singt."]
    monkeypatch.setattr(decoder, "pad_ids", lambda ids: take_too_much())
    with pytest.raises(MemoryShortage, match=r"^2 sentences of up to 5 tokens, with 1 hypo"):
        translator.translate_detailed(sentences)
    monkeypatch.setattr(loss, "token_losses", lambda *arguments: take_too_much())
    said = r"^the losses of \d sentences with up to \d+ source and \d+ target positions"
    with pytest.raises(MemoryShortage, match=said):
        list(score_pairs(translator, [("Der kleine Hund läuft.", "The dog runs.")]))
