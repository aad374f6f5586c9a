"""What a GPU would compute for padding, and hold of logits: counted, on a device that is pretended.

A small model takes the steps of `tfm train` on a config's own batches. Positions do not depend on a model's width, and
logits are scaled up to the config's vocabulary. The reference is `training.fast: false`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from measure.figures import Figure, say
from pretended import PretendedDevice
from transformer_cli.config.load import load_config
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.datasets.batching import plan_epoch
from transformer_cli.datasets.dataset import Dataset, EncodedSplit, Side
from transformer_cli.datasets.make_dataset import make_dataset
from transformer_cli.model.layers import FeedForward
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.lengths import Rows
from transformer_cli.text.vocabulary import MARKERS, PAD
from transformer_cli.training.learner import Learner

BATCHES = 2
VOCABULARY = 208  # of the small model
WORD = VOCABULARY - 1  # which stands for all words
WIDTH = 8
MADE_UP = "made-up lengths"
PAIRS, MEAN_LENGTH, SPREAD = 2_500, 29, 0.65  # lengths are drawn from a lognormal distribution
MADE_UP_VOCABULARY = 37_000


def padding(configs: Sequence[Path], data_dir: Path) -> list[Figure]:
    """Count for each of these configs, and for made-up lengths in batches of 25,000 tokens in random order."""
    figures = []
    for path in configs:
        config = load_config(path)
        dataset = Dataset.open(make_dataset(config, data_dir=data_dir).folder)
        figures += _counted(path.stem, config.training, dataset.split("train"), len(dataset.codecs.target))
    settings = TrainingConfig(batch_size=25_000, batch_by="tokens", label_smoothing=0.1)
    return figures + _counted(MADE_UP, settings, made_up_lengths(PAIRS), MADE_UP_VOCABULARY)


def made_up_lengths(pairs: int) -> EncodedSplit:
    """Returns sentences of random lengths; a target is about as long as its source."""
    chance = np.random.default_rng(0)
    source = MEAN_LENGTH * np.exp(SPREAD * chance.standard_normal(pairs) - SPREAD**2 / 2)
    target = source * np.exp(0.2 * chance.standard_normal(pairs))
    return EncodedSplit(*(Side.of([[WORD] * int(max(1, each)) for each in side]) for side in (source, target)))


def _counted(name: str, training: TrainingConfig, split: EncodedSplit, vocabulary: int) -> list[Figure]:
    say(f"padding: {name}")
    split = EncodedSplit(*(Side(np.full_like(each.ids, WORD), each.offsets) for each in (split.source, split.target)))
    plan = plan_epoch(split, np.arange(len(split)), training, epoch=1)[:BATCHES]
    rows = np.concatenate(plan)
    real = int((split.source.lengths[rows] + MARKERS).sum() + (split.target.lengths[rows] + 1).sum())
    found = [_of_steps(training.model_copy(update={"fast": fast}), split, plan) for fast in (True, False)]
    shares, megabytes = zip(
        *((positions / real, bytes_ / VOCABULARY * vocabulary / 1e6) for positions, bytes_ in found), strict=True
    )
    return [
        Figure("padding", f"{name}: padded over real", "positions", *shares),
        Figure("padding", f"{name}: logits at the peak", "MB", *megabytes),
    ]


def _of_steps(training: TrainingConfig, split: EncodedSplit, plan: Sequence[Rows]) -> tuple[int, int]:
    """Returns how many positions the encoder's and the decoder's dense layers saw, and the most bytes of logits."""
    shape = {"d_model": WIDTH, "num_heads": 1, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": WIDTH}
    config = ModelConfig.model_validate({**shape, "positions": "sinusoidal", "max_length": None})
    model = Transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=PAD)
    positions: list[int] = []
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.register_forward_pre_hook(lambda _, inputs: positions.append(inputs[0].shape[:-1].numel()))
    settings = training.model_copy(update={"precision": "float32", "optimizer": "adam"})
    with PretendedDevice("mps") as pretended, _Logits() as logits:
        learner = Learner(model, settings, pretended.device)
        for number, batch in enumerate(plan, 1):
            learner.gradient(split, [batch], number=number)
    return sum(positions), logits.most


class _Logits(TorchDispatchMode):
    """Counts the bytes of all tensors that have a number for each word of each of many tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        found = function(*arguments, **(keywords or {}))
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, torch.Tensor) and each.dim() == 2 and each.shape[1] >= VOCABULARY and len(each) > WIDTH:
                storage = each.untyped_storage()
                if storage.data_ptr() not in self._known:
                    self._known.add(storage.data_ptr())
                    self._now += storage.nbytes()
                    self.most = max(self.most, self._now)
                    finalize(storage, self._freed, storage.data_ptr(), storage.nbytes())
        return found

    def _freed(self, where: int, n_bytes: int) -> None:
        self._known.discard(where)
        self._now -= n_bytes
