"""Losses of the real tokens with label smoothing, and with two readings of a batch."""

import pytest
import torch
from torch import Tensor, nn

from oracles.small import SMALL
from transformer_cli.model import loss
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

SOURCE = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD], [2, 4, 4, 3, PAD]])
TARGET = torch.tensor([[2, 8, 3, PAD, PAD, PAD], [2, 4, 6, 9, 7, 3], [2, 10, 5, 3, PAD, PAD]])


def test_label_smoothing_is_uniform_over_the_vocabulary() -> None:
    """(1-ε)·(-log p of the label) + ε·(the mean of -log p over the vocabulary), for every real token."""
    torch.manual_seed(0)
    model = Transformer(SMALL, source_vocabulary=11, target_vocabulary=12, pad_id=PAD)
    log_p = model(SOURCE, TARGET[:, :-1]).log_softmax(dim=-1)[TARGET[:, 1:] != PAD]
    labels = TARGET[:, 1:][TARGET[:, 1:] != PAD]
    nll = -log_p[torch.arange(len(labels)), labels]
    by_hand = (0.9 * nll - 0.1 * log_p.mean(dim=1)).sum()
    found = token_losses(model, SOURCE, TARGET, label_smoothing=0.1)
    torch.testing.assert_close((found.objective, found.nll), (by_hand, nll.detach()))


class Remembering(Transformer):
    """Keeps the decoder's output of the last batch."""

    hidden: Tensor

    def decode(self, *arguments: object, **options: object) -> Tensor:
        self.hidden = super().decode(*arguments, **options)  # type: ignore[arg-type]
        return self.hidden


@pytest.mark.parametrize(("start_token", "label_smoothing"), [(True, 0.0), (False, 0.1)])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_consistency_adds_divergence_of_two_readings(
    monkeypatch: pytest.MonkeyPatch, start_token: bool, label_smoothing: float, precision: torch.dtype
) -> None:
    """By hand: the decoder's output has all tokens of the first reading, then all of the second, then unused rows."""
    monkeypatch.setattr(loss, "CHUNK_TOKENS", 4)
    torch.manual_seed(0)
    config = SMALL.model_copy(update={"dropout": 0.3, "start_token": start_token})
    model = Remembering(config, source_vocabulary=11, target_vocabulary=12, pad_id=PAD).train()
    labels = TARGET[:, 1:][TARGET[:, 1:] != PAD]
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        found = token_losses(model, SOURCE, TARGET, label_smoothing=label_smoothing, consistency=3.0)
        logits = model.output(model.hidden[: 2 * len(labels)]).float()
    writable = [index for index in range(12) if start_token or index not in model.output.suppressed_ids]
    log_p, log_q = logits[:, writable].log_softmax(dim=1).view(2, len(labels), -1)
    assert not log_p.equal(log_q)
    labels = torch.searchsorted(torch.tensor(writable), labels)
    options = {"label_smoothing": label_smoothing, "reduction": "sum"}
    objectives = [nn.functional.cross_entropy(each, labels, **options) for each in (log_p, log_q)]  # type: ignore[arg-type]
    kl_p, kl_q = (
        nn.functional.kl_div(one, other, reduction="sum", log_target=True)
        for one, other in ((log_q, log_p), (log_p, log_q))
    )
    torch.testing.assert_close(found.objective, (sum(objectives) + 3.0 * (kl_p + kl_q) / 2) / 2)
    nll = -(log_p + log_q)[torch.arange(len(labels)), labels] / 2
    torch.testing.assert_close(found.nll, nll.detach())
    (ours,) = torch.autograd.grad(found.objective, model.output.bias, retain_graph=True)
    (theirs,) = torch.autograd.grad((sum(objectives) + 3.0 * (kl_p + kl_q) / 2) / 2, model.output.bias)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3 if precision == torch.float32 else 0.05)
