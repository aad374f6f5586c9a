"""Interpolation of the finetuned weights with the initial ones, so that less of the old domain is forgotten.

Text of the old domain (`training.extra_valid`) is validated, too. At the end the weights become (1 - a)·finetuned +
a·initial (Wortsman et al. 2022), with the share a that suits both texts.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from transformer_cli.adapters.finetuning.copied_text import CopiedText, copied_lines
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_validation_weights
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation, best_of, load_average, validations_so_far
from transformer_cli.scoring.evaluate import ParallelText, evaluate_text
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES
from transformer_cli.training.callbacks import FinalWeights, TrainerView
from transformer_cli.translate import Translator

INITIAL_VALIDATION = 1  # the number of the validation of the initial weights, which comes before the first step
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the initial weights, which are tried unless training.interpolation names one
MAX_SCORED_LINES = 300  # lines of each text whose BLEU is found at the end

log = logging.getLogger(__name__)


class Interpolation(CopiedText):
    """Validates the pairs of `training.extra_valid` as well, and interpolates the weights at the end."""

    implements = "training.extra_valid"

    def on_begin(self, trainer: TrainerView) -> None:
        """Let each validation find the loss of these pairs, too."""
        trainer.texts.extra_valid = self.load_split(trainer.run)

    def needed_validations(self, trainer: TrainerView) -> set[int]:
        """Returns the numbers of the first validation and of the best one after it."""
        return {INITIAL_VALIDATION, best_finetuned(trainer.validations)}

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights:
        """Returns the interpolation of given weights, or of the best finetuned ones, with the initial weights.

        The share of the initial weights is training.interpolation, or the smallest of the best of SHARES: it has the
        lowest sum of both losses. Raises CheckpointError if weights that are needed are gone.
        """
        run = trainer.run
        with trainer.world.fail_together():
            number = best_finetuned(trainer.validations)
            weights = weights or FinalWeights(load_validation_weights(run, number))

        def with_share(share: float) -> Transformer:
            with trainer.world.fail_together():
                return interpolate(weights.model, load_validation_weights(run, INITIAL_VALIDATION), share)

        given, sums = run.config.training.interpolation, dict[float, float]()
        for share in SHARES if given is None else (given,):
            valid, watched = trainer.validation_losses(with_share(share))
            assert watched, "`on_begin` has added the text"
            log.info("%3.0f%% of the start's weights  valid %.3f  watched %.3f", 100 * share, valid.loss, watched.loss)
            sums[share] = valid.loss + watched.loss
        chosen = min(sums, key=lambda share: sums[share])
        if given is None and chosen == 1.0:
            log.info("nothing taught was better: the start stays")
        return FinalWeights(with_share(chosen), weights.epochs, interpolation=chosen)


def best_finetuned(validations: Sequence[Validation]) -> int:
    """Returns the number of the best validation after the start's; the start's if there is no other yet."""
    finetuned = validations[INITIAL_VALIDATION:]
    return INITIAL_VALIDATION + 1 + finetuned.index(best_of(finetuned)) if finetuned else INITIAL_VALIDATION


@torch.no_grad()
def interpolate(finetuned: Transformer, start: Transformer, share: float) -> Transformer:
    """Returns `start`, of whose weights this share stays; the rest comes from `finetuned`."""
    for mine, others in zip(start.parameters(), finetuned.parameters(), strict=True):
        mine.copy_(others.lerp(mine, share))
    return start


def forgetting_table(run: Run, initial: Translator, final: Translator, *, data_dir: Path) -> list[tuple[str, ...]]:
    """Returns the losses of the validation text and of what is watched, by validations, and BLEU of both ends, as rows.

    BLEU is that of the first lines of each text. Raises DataError or CheckpointError if the text or a part of the run
    is gone.
    """
    dataset = Dataset.open(find_dataset(run.config.data, data_dir))
    texts = [
        ParallelText(name, source[:MAX_SCORED_LINES], [target[:MAX_SCORED_LINES]])
        for name, (source, target) in (
            ("valid", [dataset.text("valid", side) for side in SIDES]),
            ("extra_valid", copied_lines(run, "extra_valid")),
        )
    ]
    start, end = ([f"{evaluate_text(each, text).result.bleu:.2f}" for text in texts] for each in (initial, final))
    valid, watched = (len(text.sources) for text in texts)
    rows: list[tuple[str, ...]] = [
        ("after", "loss of valid", "of what is watched", f"BLEU of {pluralize(valid, 'line')}", f"of {watched} watched")
    ]
    for number, each in enumerate(validations_so_far(run)):
        found = start if not number else ["", ""]
        rows.append((f"step {each.step:,}", f"{each.valid_loss:.3f}", f"{each.extra_valid_loss or 0:.3f}", *found))
    if made := load_average(run, "best"):
        name = f"the end: {made.interpolation or 0:.0%} of the start"
        rows.append((name, f"{made.valid_loss:.3f}", f"{made.extra_valid_loss or 0:.3f}", *end))
    return rows
