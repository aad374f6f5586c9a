"""What training says of a run before its first step. Knows nothing of how it is trained."""

import logging

from transformer_cli.compute.devices import describe
from transformer_cli.model.transformer import count_frozen, count_parameters
from transformer_cli.runs.state import TrainingState
from transformer_cli.system.terminal import counted
from transformer_cli.training.opening import Opened
from transformer_cli.training.step import Learner

log = logging.getLogger(__name__)


def announce(learner: Learner, opened: Opened, state: TrainingState, *, pairs: int, batches: int) -> None:
    """Log what the run is, and where it resumes.

    pairs: how many pairs of sentences it learns from. batches: how many batches they make in each epoch.
    """
    config, model, world = opened.run.config, learner.model, learner.world
    frozen = count_frozen(model)
    log.info(
        "%s: %s parameters%s; %s→%s, %s of %s; %s; %s; %s",
        config.run_name,
        f"{count_parameters(model):,}",
        (f", {frozen:,} of them frozen vectors" if frozen else "") + _frozen_parts(learner),
        config.data.source,
        config.data.target,
        counted(pairs, "pair"),
        opened.dataset.folder,
        counted(config.training.epochs, "epoch"),
        describe(learner.device) + (f" × {world.size} processes" if world.size > 1 else ""),
        learner.precision,
    )
    if state.epoch > config.training.epochs:
        more = "" if config.training.schedule == "cosine" else "; raise training.epochs to go on"
        epochs = "the only epoch is" if state.epoch == 2 else f"all {state.epoch - 1} epochs are"
        log.info("%s trained%s", epochs, more)
    elif state.step:
        where = f"epoch {state.epoch}, {counted(state.batch, 'batch', 'batches')} into it"
        log.info("resuming from the save at step %s (%s)", f"{state.step:,}", where)
    elif batches == 1 and config.training.batch_size > pairs:
        log.warning("training.batch_size %s takes all pairs at once: an epoch is one step", config.training.batch_size)


def _frozen_parts(learner: Learner) -> str:
    held = sum(each.numel() for each in learner.model.parameters() if not each.requires_grad)
    return f" and {held:,} frozen ones ({', '.join(learner.settings.freeze)})" if held else ""
