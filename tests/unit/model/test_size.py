"""A model's parameters are counted without building it: as many as the model has, and none is built without room."""

from typing import Any

import pytest
import torch

from oracles.variants import VARIANTS
from transformer_cli.config.schema import ModelConfig
from transformer_cli.errors import MemoryShortage
from transformer_cli.model import size
from transformer_cli.model.size import check_model_memory, count_parameters_by_part
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

WITH = " with their gradients and the optimiser's moments, but only "
SHAPE = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 3, "d_ff": 5, "max_length": 7}


@pytest.mark.parametrize("ties", ["none", "target+output", "all"])
@pytest.mark.parametrize("variant", [*VARIANTS.values(), {"head_dim": 6}, {"head_dim": 6, "qkv_bias": False}], ids=str)
def test_count_parameters_by_part_equals_the_built_model(variant: dict[str, Any], ties: str) -> None:
    config = ModelConfig.model_validate({**SHAPE, **variant, "tie_embeddings": ties})
    source, target = (11, 11) if ties == "all" else (13, 11)
    with torch.device("meta"):
        model = Transformer(config, source_vocabulary=source, target_vocabulary=target, pad_id=PAD)
    parts = count_parameters_by_part(config, source, target)
    assert sum(parts.values()) == sum(each.numel() for each in model.parameters())
    for part in ("encoder", "decoder"):
        assert parts[part] == sum(each.numel() for each in model.get_submodule(part).parameters())


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        (
            {"d_ff": 1_000_000},
            {"frozen": ()},
            f"the model's 3,080,438,925 parameters need 49.3 GB{WITH}1.0 GB of memory is free; lower model.d_ff, "
            "model.d_model or model.num_decoder_layers, or free some",
        ),
        ({"d_ff": 1_000_000}, {"frozen": ("encoder", "decoder")}, "need 12.3 GB with their gradients"),
        ({"max_length": 1_000_000}, {"frozen": ()}, f"8.3 GB{WITH}1.0 GB of memory is free; lower model.max_length,"),
        ({"d_model": 65_536}, {}, "GB just to be loaded, but only 1.0 GB of memory is free; free some, or use a machi"),
        ({"d_ff": 1_000_000}, {"frozen": (), "device": torch.device("cuda:1")}, f"{WITH}1.0 GB on cuda:1 is free; low"),
    ],
    ids=["layers", "frozen", "positions", "loaded", "gpu"],
)
def test_check_model_memory_shortage_names_need_and_free(
    monkeypatch: pytest.MonkeyPatch, shape: dict[str, int], arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(size, "free_memory", lambda device: 10**9)
    with pytest.raises(MemoryShortage) as refused:
        check_model_memory(ModelConfig.model_validate(shape), (13, 13), **arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize("spare", [0, None])
def test_check_model_memory_passes_if_it_fits_or_is_unknown(monkeypatch: pytest.MonkeyPatch, spare: int | None) -> None:
    config = ModelConfig.model_validate(SHAPE)
    need = sum(count_parameters_by_part(config, 13, 11).values()) * 16
    monkeypatch.setattr(size, "free_memory", lambda device: None if spare is None else need + spare)
    check_model_memory(config, (13, 11), frozen=())
