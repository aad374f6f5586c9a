"""Checks whether a model fits in memory, before it is built."""

from collections import Counter
from collections.abc import Collection

import torch

from transformer_cli.compute.devices import format_bytes, free_memory
from transformer_cli.config.schema import ModelConfig
from transformer_cli.errors import MemoryShortage
from transformer_cli.model.transformer import Transformer, UninitializedWeights

BYTES_PER_WEIGHT = 4  # of a float32


def count_parameters_by_part(config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> dict[str, int]:
    """Returns the number of parameters of each part of a model, which is built on torch's meta device, without memory.

    The parts are those of `training.freeze`, and `positions`: the learned positions of both embeddings. A matrix that
    is tied counts for its first part.
    """
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    with torch.device("meta"), UninitializedWeights():
        model = Transformer(config, **sizes, pad_id=0)
    parts = Counter[str]()
    for name, parameter in model.named_parameters():
        parts["positions" if ".positions." in name else name.partition(".")[0]] += parameter.numel()
    return parts


def check_model_memory(
    config: ModelConfig,
    vocabularies: tuple[int, int],
    *,
    prefix: str = "",
    device: torch.device | None = None,
    frozen: Collection[str] | None = None,
) -> None:
    """Raises MemoryShortage, whose message has both numbers, if a model needs more memory than is free.

    vocabularies: the sizes of source and target vocabulary. prefix: the beginning of the error message. frozen: the
    parts that will not be trained (None: the model is only loaded). Each trained weight also needs a gradient
    and two moments. The memory of shards, Muon and other processes on this machine is not counted.
    """
    parts = count_parameters_by_part(config, *vocabularies)
    total = sum(parts.values())
    n_numbers = total  # weights, gradients and moments
    if frozen is not None:
        n_numbers += 3 * sum(count for part, count in parts.items() if part not in frozen)
    need, free = n_numbers * BYTES_PER_WEIGHT, free_memory(device)
    if free is None or need <= free:
        return
    largest = max(parts, key=lambda part: parts[part])
    lower = {
        "positions": "model.max_length",
        "encoder": "model.d_ff, model.d_model or model.num_encoder_layers",
        "decoder": "model.d_ff, model.d_model or model.num_decoder_layers",
    }.get(largest, "model.d_model, or take a smaller vocabulary")
    purpose = "just to be loaded" if frozen is None else "with their gradients and the optimiser's moments"
    where = f"on {device}" if device is not None and device.type == "cuda" else "of memory"
    remedy = f"lower {lower}, or free some" if frozen is not None else "free some, or use a machine with more"
    raise MemoryShortage(
        f"{prefix}the model's {total:,} parameters need {format_bytes(need)} {purpose}, but only "
        f"{format_bytes(free)} {where} is free; {remedy}"
    )
