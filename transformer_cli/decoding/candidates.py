"""What models could have written at each step of a translation, and how likely. Knows ids, no words and no search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from transformer_cli.compute.memory import room_for
from transformer_cli.data.vocabulary import EOS, PAD, SOS
from transformer_cli.model.transformer import Transformer

STEPS = 64  # whose probabilities of all tokens are computed together


@dataclass(frozen=True)
class Candidates:
    """The likeliest tokens at each step. All tensors are on the CPU."""

    ids: Tensor
    """int64 (steps, n), the likeliest first"""
    probabilities: Tensor
    """(steps, n)"""
    of_written: Tensor
    """(steps,): the probability of the token that was written"""


@torch.inference_mode()
def find_candidates(
    models: Sequence[Transformer], source: Sequence[int], written: Sequence[int], *, n: int
) -> Candidates:
    """Returns the n likeliest tokens at each step of a translation; fewer, if the vocabulary is smaller.

    models: as in `decode`. source: ids without <sos> and <eos>. written: at least one id, and <eos> at the end if it
    was reached; step i reads <sos> and written[:i], and writes written[i]. The probabilities are the models' own,
    before any constraint. <pad> and <sos>, which no search writes, are not among the candidates.
    Raises MemoryShortage.
    """
    device = next(models[0].parameters()).device
    sentence = torch.tensor([[SOS, *source, EOS]], device=device)
    read = torch.tensor([[SOS, *written[:-1]]], device=device)
    found = []
    with room_for(partial(_too_large, len(source), len(written))):
        outputs = [model.decode(read, model.encode(sentence), sentence)[0] for model in models]
        for start in range(0, len(written), STEPS):
            chosen = torch.tensor(written[start : start + STEPS], device=device)
            probabilities = _probabilities(models, [output[start : start + STEPS] for output in outputs])
            of_written = probabilities.gather(1, chosen[:, None])[:, 0]
            probabilities[:, [PAD, SOS]] = -1.0
            values, ids = probabilities.topk(min(n, probabilities.shape[1] - 2), dim=1)
            found.append((ids.cpu(), values.cpu(), of_written.cpu()))
    return Candidates(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _probabilities(models: Sequence[Transformer], outputs: Sequence[Tensor]) -> Tensor:
    """Returns the mean of the models' probabilities: (steps, vocabulary). outputs: (steps, d_model) of each decoder."""
    log_probs = [model.output(output).float().log_softmax(dim=1) for model, output in zip(models, outputs, strict=True)]
    return (torch.stack(log_probs).logsumexp(dim=0) - math.log(len(models))).exp()


def _too_large(n_source: int, n_steps: int) -> str:
    what = f"looking at {n_steps} steps of the translation of a sentence of {n_source} tokens"
    return f"{what} does not fit in memory; split the sentence"
