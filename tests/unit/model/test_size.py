"""A model is only built where it fits in memory."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.errors import MemoryShortage
from transformer_cli.model import size
from transformer_cli.model.size import check_model_memory, count_parameters_by_part
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

WITH = " with their gradients and the optimiser's moments, but only "
SHAPE = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 3, "d_ff": 5, "max_length": 7}


@pytest.mark.parametrize("ties", ["none", "target+output", "all"])
def test_count_parameters_by_part_counts_each_once(ties: str) -> None:
    config = ModelConfig.model_validate({**SHAPE, "tie_embeddings": ties, "positions": "learned"})
    model = Transformer(config, source_vocabulary=11, target_vocabulary=11, pad_id=PAD)
    parts = count_parameters_by_part(config, 11, 11)
    assert sum(parts.values()) == sum(each.numel() for each in model.parameters())
    assert (parts["source_embedding"], parts["positions"]) == (11 * 8, 2 * 7 * 8)
    for part in ("encoder", "decoder"):
        assert parts[part] == sum(each.numel() for each in model.get_submodule(part).parameters())


COUNT = """
import sys
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.size import count_parameters_by_part
for positions in ("sinusoidal", "marian", "rotary", "learned"):
    count_parameters_by_part(ModelConfig(max_length=9, positions=positions), 11, 11)
print({"sympy", "torch._dynamo"} & {*sys.modules})
"""


def test_count_parameters_by_part_leaves_the_compiler_of_torch_unloaded() -> None:  # it takes a second
    assert subprocess.run([sys.executable, "-c", COUNT], stdout=subprocess.PIPE, text=True).stdout == "set()\n"


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """How many bytes are free on any device, by the key bytes; None is unknown."""
    found: dict[str, int | None] = {"bytes": None}
    monkeypatch.setattr(size, "free_memory", lambda device: found["bytes"])
    return found


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        (
            {"d_ff": 1_000_000},
            {"frozen": ()},
            f" GB{WITH}1.0 GB of memory is free; lower model.d_ff, "
            "model.d_model or model.num_decoder_layers, or free some",
        ),
        ({"max_length": 1_000_000}, {"frozen": ()}, f" GB{WITH}1.0 GB of memory is free; lower model.max_length,"),
        ({"d_model": 65_536}, {}, "GB just to be loaded, but only 1.0 GB of memory is free; free some, or use a machi"),
        ({"d_ff": 1_000_000}, {"frozen": (), "device": torch.device("cuda:1")}, f"{WITH}1.0 GB on cuda:1 is free; low"),
    ],
    ids=["layers", "positions", "loaded", "gpu"],
)
def test_check_model_memory_shortage_names_need_and_free(
    free: dict[str, int | None], shape: dict[str, int], arguments: dict[str, Any], message: str
) -> None:
    free["bytes"] = 10**9
    with pytest.raises(MemoryShortage) as refused:
        check_model_memory(ModelConfig.model_validate(shape), (13, 13), **arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize("frozen", [(), ("encoder", "source_embedding")])
def test_check_model_memory_counts_gradients_of_trained_parts(
    free: dict[str, int | None], frozen: tuple[str, ...]
) -> None:
    config = ModelConfig.model_validate(SHAPE)
    parts = count_parameters_by_part(config, 13, 11)
    need = sum(count * (4 if part in frozen else 16) for part, count in parts.items())
    for free["bytes"] in (need, None):
        check_model_memory(config, (13, 11), frozen=frozen)
    free["bytes"] = need - 1
    with pytest.raises(MemoryShortage):
        check_model_memory(config, (13, 11), frozen=frozen)
