"""Losses of encoded sentences under a model: of each sentence, and of a whole split. Knows ids, not text.

Training validates with these functions, so this module does not import the search. It imports torch only inside
functions, so that an exported model can be evaluated without torch.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.compute.devices import catch_oom
from transformer_cli.compute.threads import INLINE_POOL, WorkerPool
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.runs.folder import as_checkpoint_error
from transformer_cli.runs.state import LOSS_CHECK
from transformer_cli.search.batches import BATCH_POSITIONS, GPU_BATCH_POSITIONS, group_by_length
from transformer_cli.system.files import read_verified_json
from transformer_cli.system.terminal import pluralize

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

log = logging.getLogger(__name__)

N_CHECK_PAIRS = 3
LOSS_RTOL = 1e-3  # devices and versions of libraries round differently
TUTORIAL_BATCH = 128  # batch size of the tutorials, for `loss_batch_mean`
MAX_PARALLEL_GROUPS = 4  # groups computed at a time, to bound memory


@dataclass(frozen=True)
class SentenceLosses:
    """The losses of individual sentences."""

    nll: NDArray[np.float64]
    """(sentences,): -log p of each sentence's target, in nats, summed over its tokens"""
    tokens: NDArray[np.int64]
    """(sentences,): the number of target tokens, <eos> included"""


@dataclass(frozen=True)
class Losses:
    """Losses of a whole split, in nats."""

    tokens: int
    """the number of target tokens, <eos> included"""
    loss: float
    """mean over target tokens"""
    loss_batch_mean: float
    """mean of the mean losses of batches of 128 in torchtext's order, as tutorials report it"""

    @property
    def ppl(self) -> float:
        """Perplexity: exp of the loss per token."""
        return perplexity(self.loss)


def sentence_losses(
    model: "Transformer",
    split: EncodedSplit,
    rows: Rows,
    world: World = SINGLE_PROCESS,
    *,
    others: Sequence["Transformer"] = (),
) -> SentenceLosses:
    """Returns the losses of the sentences in `rows`, in that order, without dropout or label smoothing, in float32.

    others: the other models of an ensemble; it predicts the mean of the models' probabilities. Several processes with
    the same models share the work and return the same losses. On the CPU the number of threads does not change the
    result, since one thread computes each group of sentences. Raises MemoryShortage.
    """
    import torch

    from transformer_cli.data.batching import collate
    from transformer_cli.model.loss import sum_by_row, token_losses

    device = next(model.parameters()).device
    nll, tokens = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    longest = np.maximum(split.source.lengths[rows], split.target.lengths[rows])
    models = [each.eval() for each in (model, *others)]

    @torch.inference_mode()
    def losses_of(group: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        batch = collate(split, rows[group])
        (count, n_source), n_target = batch.source.shape, batch.target.shape[1]
        with catch_oom(
            lambda: (
                f"the losses of {count} sentences with up to {n_source} source and {n_target} target positions do not "
                f"fit in the memory of {device}; free memory, or split the longest sentences"
            )
        ):
            losses = torch.stack([token_losses(each, batch.source, batch.target).nll for each in models])
            # -log of the mean of the probabilities: 0.2 and 0.4, whose losses are 1.61 and 0.92, give -log 0.3 = 1.20
            of_mean = math.log(len(models)) - (-losses).logsumexp(dim=0)
        sums, counts = sum_by_row(of_mean.cpu(), batch.target, model.pad_id)
        return sums.numpy(), counts.numpy()

    max_positions = BATCH_POSITIONS if device.type == "cpu" else GPU_BATCH_POSITIONS
    groups = group_by_length(longest, max_positions)[world.rank :: world.size]
    n_workers = min(torch.get_num_threads(), MAX_PARALLEL_GROUPS, len(groups)) or 1
    with WorkerPool(n_workers, threads_each=1) if device.type == "cpu" else INLINE_POOL as workers:
        for group, (sums, counts) in zip(groups, workers.run(losses_of, groups), strict=True):
            nll[group], tokens[group] = sums, counts
    for each in (nll, tokens):  # each sentence is 0 in all processes but one
        world.all_reduce([torch.from_numpy(each)])
    return SentenceLosses(nll, tokens)


def make_loss_check(model: "Transformer", split: EncodedSplit, rows: Rows) -> dict[str, Any]:
    """Returns the ids and losses of the longest pairs, to store in a checkpoint; see `warn_if_losses_changed`.

    They are the longest since a change of the code, such as a window of attention, may affect distant tokens only.
    """
    lengths = split.source.lengths[rows] + split.target.lengths[rows]
    chosen = rows[np.argsort(-lengths, kind="stable")[:N_CHECK_PAIRS]]
    pairs = {side: [getattr(split, side)[row].tolist() for row in chosen] for side in ("source", "target")}
    return {**pairs, "nll": sentence_losses(model, split, chosen).nll.tolist()}


def warn_if_losses_changed(model: "Transformer", checkpoint: Path) -> None:
    """Warn if a model's losses on a checkpoint's pairs differ from those stored with it (`make_loss_check`).

    Then the model's code has changed, but not the shapes of its weights. Raises CheckpointError if the stored losses
    are damaged.
    """
    if not (stored := read_loss_check(checkpoint)):
        return
    split, nll_before = stored
    found = sentence_losses(model, split, np.arange(len(split)))
    if not np.allclose(found.nll, nll_before, rtol=LOSS_RTOL):
        now, before = (float(np.sum(nll) / found.tokens.sum()) for nll in (found.nll, nll_before))
        what = (
            "%s: the model's code has changed since it was saved: the loss of %s was %.3f and is now %.3f; "
            "use the code that it was trained with"
        )
        log.warning(what, checkpoint, pluralize(len(split), "pair"), before, now)


def read_loss_check(checkpoint: Path) -> tuple[EncodedSplit, Sequence[float]] | None:
    """Returns the pairs of `make_loss_check` and their nll; None for an imported model. Raises CheckpointError."""
    if not (checkpoint / LOSS_CHECK).exists():
        return None
    with as_checkpoint_error():
        stored = read_verified_json(checkpoint / LOSS_CHECK)
    return EncodedSplit(Side.of(stored["source"]), Side.of(stored["target"])), stored["nll"]


def corpus_losses(model: "Transformer", split: EncodedSplit, rows: Rows, world: World = SINGLE_PROCESS) -> Losses:
    """Returns the losses of all sentences in `rows` together; otherwise like `sentence_losses`."""
    return combine_losses(sentence_losses(model, split, rows, world), split, rows)


def combine_losses(losses: SentenceLosses, split: EncodedSplit, rows: Rows) -> Losses:
    """Returns the losses of all sentences in `rows` together, from those of each."""
    lengths = zip(split.source.lengths[rows].tolist(), split.target.lengths[rows].tolist(), strict=True)
    order = np.argsort([interleaved(source, target) for source, target in lengths], kind="stable")
    batches = [order[start : start + TUTORIAL_BATCH] for start in range(0, len(order), TUTORIAL_BATCH)]
    means = [losses.nll[batch].sum() / losses.tokens[batch].sum() for batch in batches]
    n_tokens = int(losses.tokens.sum())
    return Losses(n_tokens, float(losses.nll.sum() / n_tokens), float(np.mean(means)))


def interleaved(source_length: int, target_length: int) -> int:
    """Returns torchtext's sort key for test sets: the bits of both lengths, alternating, the source's first.

    For example, 5 = 0b101 and 3 = 0b011 give 0b10_01_11 = 39.
    """
    key = 0
    for bit in reversed(range(max(source_length, target_length).bit_length())):
        key = key << 2 | (source_length >> bit & 1) << 1 | (target_length >> bit & 1)
    return key


def perplexity(loss: float) -> float:
    """Returns exp(loss), with losses above 700 nats taken as 700, since exp would overflow."""
    return math.exp(min(loss, 700.0))


def perplexity_text(ppl: float, decimals: int = 3) -> str:
    """Returns a perplexity as text: 6.750, but 1.01e+304 instead of three hundred digits."""
    return f"{ppl:.{decimals}f}" if ppl < 1e6 else f"{ppl:.3g}"
