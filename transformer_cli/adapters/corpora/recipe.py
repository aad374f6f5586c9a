"""How to train on new text within some minutes of this machine. docs/little-text.md has the measurements."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count, cycle
from typing import Any

import torch

from transformer_cli.compute.devices import choose_device
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import plan_epoch
from transformer_cli.data.dataset import Dataset, Rows
from transformer_cli.runs.run import make_model
from transformer_cli.system.terminal import pluralize
from transformer_cli.training.learner import Learner
from transformer_cli.training.texts import SplitRows, usable_split

DEFAULT_MINUTES = 15.0
PROBE_STEPS, PROBE_SECONDS = 4, 2.0  # at least, after a first step that also initialises libraries
TRAINING_SHARE = 0.9  # of the time; the rest is for validations and checkpoints
MAX_PASSES = 250  # over the text; more were not tried
FEW_PAIRS = 50_000  # below, a model of much other text is better, where there is one
MIN_BLEU_PAIRS = 200  # validation pairs; BLEU of fewer says less than that the last weights are usually the best
VALIDATIONS = 10  # at most
PAIRS_PER_VALIDATED_PAIR = 20  # to train on between validations, so that these take a tenth of the time
TABLE = [  # at least so many passes and steps; dropout, label smoothing
    (100, 2000, 0.3, 0.3),
    (40, 1000, 0.2, 0.2),
    (20, 1000, 0.15, 0.1),
    (5, 0, 0.1, 0.1),
    (0, 0, 0.0, 0.1),
]
DEEPER = {  # the model of multi30k-best
    "model.num_encoder_layers": 4,
    "model.num_decoder_layers": 4,
    "model.d_ff": 256,
    "model.attention_dropout": 0.0,
    "model.activation_dropout": 0.0,
    "model.dropout": 0.3,
    "training.label_smoothing": 0.1,
}
LONGER = [  # at least so many passes and steps, with the settings so far; settings that translate better then
    (20, 5_000, DEEPER),
    (60, 0, {"training.consistency": 3.0}),
]


def choose(
    passes: float, steps_per_epoch: int, train_pairs: int, valid_pairs: int, warmup_steps: int
) -> dict[str, Any]:
    """Returns settings, by dotted key, for a training that has time for `passes` passes over its text.

    steps_per_epoch: optimiser steps. train_pairs, valid_pairs: sizes of the splits. warmup_steps: for a long training.
    """
    epochs = max(1, round(min(passes, MAX_PASSES)))
    steps = epochs * steps_per_epoch if passes >= 1 else max(1, int(passes * steps_per_epoch))
    dropout, label_smoothing = next(
        choices for least_passes, least_steps, *choices in TABLE if epochs >= least_passes and steps >= least_steps
    )
    validations = steps * train_pairs // (steps_per_epoch * valid_pairs * PAIRS_PER_VALIDATED_PAIR)
    return {
        "model.dropout": dropout,
        "training.label_smoothing": label_smoothing,
        "training.epochs": epochs,
        "training.max_steps": None if passes >= 1 else steps,
        "training.warmup_steps": min(warmup_steps, steps // 4),
        "training.validate_every": math.ceil(steps / max(1, min(validations, VALIDATIONS))),
        "training.best_checkpoint_metric": "bleu" if valid_pairs >= MIN_BLEU_PAIRS else "last",
    }


def choose_training(
    config: Config, dataset: Dataset, minutes: float | None, with_settings: Callable[[Mapping[str, Any]], Config]
) -> tuple[Config, str]:
    """Returns the config with the settings of `choose` and LONGER for a dataset, and in words what was chosen and why.

    minutes: the time for training on this machine, whose speed a model shows in a few steps (None: the config says how
    long training is). with_settings: see `config_for_files`. Raises DataError if no pair fits the model, DeviceError,
    MemoryShortage.
    """

    def changed(settings: Mapping[str, Any]) -> Config:
        found = with_settings(settings)
        return config.model_copy(update={"model": found.model, "training": found.training})

    training, n_pairs, why, longer = config.training, len(dataset.split("train")), "", dict[str, Any]()
    text = usable_split(dataset.split("train"), "train", config.model.max_length)
    plan = plan_epoch(text.split, text.rows, training, epoch=1)
    steps = training.num_steps(len(plan))
    passes = training.max_steps / steps if training.max_steps else training.epochs
    if minutes is not None:
        seconds, n_tokens = 60 * minutes * TRAINING_SHARE, text.count_target_tokens(plan)
        speed = tokens_per_second(config, dataset, text, plan)
        passes = seconds * speed / n_tokens
        for least_passes, least_steps, more in LONGER if config.model.dropout else []:  # 0 only by --set
            if passes < least_passes or min(passes, MAX_PASSES) * steps < least_steps:
                break
            longer |= more
            speed = tokens_per_second(changed(longer), dataset, text, plan)
            passes = seconds * speed / n_tokens
        why = f" and {minutes:g} minutes on this machine ({speed:,.0f} target tokens a second in a trial)"
    n_valid = len(dataset.split("valid"))
    settings = choose(passes, steps, n_pairs, n_valid, training.warmup_steps) | longer
    if training.consistency:  # by --set; it needs dropout, which TABLE may not have
        settings["model.dropout"] = settings["model.dropout"] or config.model.dropout
    chosen = changed(settings)
    unit, number = chosen.training.end
    layers = f"{chosen.model.num_encoder_layers} + {chosen.model.num_decoder_layers} layers, " * bool(longer)
    how = f"{layers}dropout {chosen.model.dropout:g}, label smoothing {chosen.training.label_smoothing:g}"
    how += f", consistency {chosen.training.consistency:g}" * bool(chosen.training.consistency)
    pairs = pluralize(n_pairs, "pair") + " of both directions" * config.data.both_directions
    return chosen, f"{pluralize(number, unit[:-1])}, {how}: for {pairs}{why}"


def tokens_per_second(config: Config, dataset: Dataset, text: SplitRows, plan: Sequence[Rows]) -> float:
    """Returns how many target tokens a new model reads a second in its first steps. Takes some seconds."""
    tokens, seconds = 0, 0.0
    if config.training.num_threads is not None:  # as `train` does
        torch.set_num_threads(config.training.num_threads)
    torch.manual_seed(config.training.seed)
    learner = Learner(make_model(config, dataset.codecs), config.training, choose_device(config.training.device))
    for step, rows in zip(count(), cycle(plan)):
        started = time.monotonic()
        found = learner.backward(text.split, [rows], step=step + 1)
        learner.step()
        if step:  # in the first one, libraries initialise themselves
            tokens, seconds = tokens + found.tokens, seconds + time.monotonic() - started
        if step >= PROBE_STEPS and seconds >= PROBE_SECONDS:
            break
    return tokens / seconds
