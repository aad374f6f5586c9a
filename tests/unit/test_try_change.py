"""scripts/try_change.py: gradients of a long sentence, with and without recomputation."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import try_change
from transformer_cli.model import attention

Outputs = Callable[..., Tensor]


def as_it_is(recompute: Outputs) -> Outputs:
    return recompute


def without_gradient(recompute: Outputs) -> Outputs:
    return lambda compute, *inputs, **options: compute(*inputs).detach()


def with_other_draws(recompute: Outputs) -> Outputs:
    """As where a layer draws numbers that recomputation does not repeat."""

    def noisy(compute: Outputs, *inputs: Any, **options: Any) -> Tensor:
        return recompute(lambda *given: compute(*given) * random.random(), *inputs, **options)

    return noisy


@pytest.mark.parametrize(
    ("change", "is_same"), [(as_it_is, True), (without_gradient, False), (with_other_draws, False)]
)
def test_gradients_differ_if_recomputation_is_not_exact(
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Outputs], Outputs],
    is_same: bool,
) -> None:
    shutil.move(workspace / "runs/tiny", workspace / "runs/tried")
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(attention, "RECOMPUTE_LENGTH", attention.RECOMPUTE_LENGTH)
    monkeypatch.setattr(attention, "checkpoint", change(checkpoint))
    exec(try_change.GRADIENTS, {})
    difference, name = capsys.readouterr().out.split()
    assert (float(difference) < try_change.TOLERANCE) == is_same
    assert name
