"""Interpolation of the finetuned weights with the initial ones, so that less of the old domain is forgotten.

Text of the old domain (`training.extra_valid`) is validated, too. At the end the weights become (1 - share)·finetuned +
share·initial (Wortsman et al. 2022), with the share that suits both texts best.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from transformer_cli.adapters.finetuning.copied_text import CopiedText, copied_lines
from transformer_cli.data.dataset import Dataset, find_dataset
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_validation_weights
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation, best_of, load_average, validations_so_far
from transformer_cli.scoring.evaluate import ParallelText, Result, evaluate_text
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES
from transformer_cli.training.callbacks import FinalWeights, TrainerView
from transformer_cli.translate import Translator

INITIAL_VALIDATION = 1  # number of the validation of the initial weights, before the first step
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the initial weights, to choose from unless training.interpolation is set
MAX_SCORED_LINES = 300  # lines of each text that are scored by BLEU at the end
MIN_SURE_LINES = 100  # fewer have an interval and a verdict beside their BLEU

Judge = Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], str]
"""Returns the verdict on two translations, the initial model's and the final one's, of a text with these references"""

log = logging.getLogger(__name__)


class Interpolation(CopiedText):
    """Validates the pairs of `training.extra_valid`, too, and interpolates the weights at the end."""

    implements = "training.extra_valid"

    def on_begin(self, trainer: TrainerView) -> None:
        """Add the pairs to the validation text."""
        trainer.texts.extra_valid = self.load_split(trainer.run)

    def needed_validations(self, trainer: TrainerView) -> set[int]:
        """Returns the numbers of the initial validation and of the best one after it."""
        return {INITIAL_VALIDATION, best_finetuned(trainer.validations)}

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights:
        """Returns the interpolation of the initial weights with the given ones, or with the best finetuned ones.

        The share of the initial weights is training.interpolation, or that of SHARES with the lowest sum of both
        losses. Raises CheckpointError if weights that are needed are gone.
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
            valid, extra = trainer.validation_losses(with_share(share))
            assert extra, "`on_begin` has added the text"
            log.info("%3.0f%% initial weights  valid %.3f  extra_valid %.3f", 100 * share, valid.loss, extra.loss)
            sums[share] = valid.loss + extra.loss
        chosen = min(sums, key=lambda share: sums[share])
        if given is None and chosen == 1.0:
            log.info("no finetuned weights were better: the model keeps the initial ones")
        return FinalWeights(with_share(chosen), weights.epochs, interpolation=chosen)


def best_finetuned(validations: Sequence[Validation]) -> int:
    """Returns the number of the best validation after the initial one, or INITIAL_VALIDATION if there is none yet."""
    finetuned = validations[INITIAL_VALIDATION:]
    return INITIAL_VALIDATION + 1 + finetuned.index(best_of(finetuned)) if finetuned else INITIAL_VALIDATION


@torch.no_grad()
def interpolate(finetuned: Transformer, initial: Transformer, share: float) -> Transformer:
    """Returns `initial`, with the weights (1 - share)·finetuned + share·initial."""
    for old, new in zip(initial.parameters(), finetuned.parameters(), strict=True):
        old.copy_(new.lerp(old, share))
    return initial


def forgetting_table(
    run: Run, initial: Translator, final: Translator, *, data_dir: Path, judge: Judge
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns a table of both validation losses after each validation, and BLEU of the initial and the final model.

    BLEU is that of the first MAX_SCORED_LINES lines of each text. That of fewer than MIN_SURE_LINES has its 95 %
    interval, and what `judge` says of the difference is returned, too: it may be chance. Raises DataError or
    CheckpointError if a text or a part of the run is gone.
    """
    dataset = Dataset.open(find_dataset(run.config.data, data_dir))
    texts = [
        ParallelText(name, source[:MAX_SCORED_LINES], [target[:MAX_SCORED_LINES]])
        for name, (source, target) in (
            ("valid", [dataset.text("valid", side) for side in SIDES]),
            ("extra_valid", copied_lines(run, "extra_valid")),
        )
    ]
    found = [[evaluate_text(each, text) for text in texts] for each in (initial, final)]
    before, after = ([_bleu(each.result) for each in of_model] for of_model in found)
    verdicts = [
        f"{text.name}: {judge([[line.text for line in each.translations] for each in both], text.references)}"
        for text, *both in zip((each.joined(run.config.data.joiner) for each in texts), *found, strict=True)
        if len(text.sources) < MIN_SURE_LINES
    ]
    bleu = [f"{text.name} BLEU ({pluralize(len(text.sources), 'line')})" for text in texts]
    rows: list[tuple[str, ...]] = [("after", "valid loss", "extra_valid loss", *bleu)]
    for number, each in enumerate(validations_so_far(run)):
        scores = before if not number else ["", ""]
        rows.append((f"step {each.step:,}", f"{each.valid_loss:.3f}", f"{each.extra_valid_loss or 0:.3f}", *scores))
    if average := load_average(run, "best"):
        name = f"{average.interpolation or 0:.0%} initial weights"
        rows.append((name, f"{average.valid_loss:.3f}", f"{average.extra_valid_loss or 0:.3f}", *after))
    return rows, verdicts


def _bleu(result: Result) -> str:
    interval = result.bleu_interval if result.sentences < MIN_SURE_LINES else None
    return f"{result.bleu:.2f} ± {interval.half_width:.2f}" if interval else f"{result.bleu:.2f}"
