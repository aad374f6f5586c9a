"""configs/paper-base.yaml and paper-big.yaml: the values of table 3, the paper's sizes, and the peak of equation 3."""

from pathlib import Path

import pytest
import torch

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.model.transformer import Transformer, count_parameters
from transformer_cli.training.optimisers import learning_rate

CONFIGS = Path(__file__).parents[3] / "configs"
VOCABULARY = 37_000  # section 5.1
BOTH = ["paper-base", "paper-big"]


def load(name: str) -> Config:
    return load_config(CONFIGS / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "layers", "d_model", "d_ff", "heads", "dropout", "label_smoothing"),
    [("paper-base", 6, 512, 2048, 8, 0.1, 0.1), ("paper-big", 6, 1024, 4096, 16, 0.3, 0.1)],
)
def test_paper_configs_have_shapes_of_table_3_and_section_3(
    name: str, layers: int, d_model: int, d_ff: int, heads: int, dropout: float, label_smoothing: float
) -> None:
    config = load(name)
    model = config.model
    assert (model.num_encoder_layers, model.num_decoder_layers) == (layers, layers)
    assert (model.d_model, model.d_ff, model.num_heads, model.head_dim) == (d_model, d_ff, heads, None)
    assert d_model // heads == 64  # d_k and d_v of both models
    assert (model.dropout, model.attention_dropout, model.activation_dropout) == (dropout, 0.0, 0.0)
    assert config.training.label_smoothing == label_smoothing
    assert (model.norm, model.final_norm, model.activation) == ("post", False, "relu")
    assert (model.positions, model.scale_embeddings, model.tie_embeddings) == ("sinusoidal", True, "all")
    assert model.embedding_init == "normal"  # as the paper's own code does


@pytest.mark.parametrize(("name", "fewest", "most"), [("paper-base", 63e6, 65e6), ("paper-big", 210e6, 215e6)])
def test_paper_configs_parameter_counts_equal_table_3(name: str, fewest: float, most: float) -> None:
    """Table 3 says 65 and 213 million."""
    with torch.device("meta"):
        model = Transformer(load(name).model, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=1)
    assert fewest < count_parameters(model) < most


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("step", [1, 4000, 100_000])
def test_paper_configs_learning_rate_is_equation_3(name: str, step: int) -> None:
    config = load(name)
    equation_3 = config.model.d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(config.training, step, 0.5) == pytest.approx(equation_3, rel=1e-5)
    assert config.training.learning_rate == learning_rate(config.training, 4000, 0.5)  # the peak


@pytest.mark.parametrize("name", BOTH)
def test_paper_configs_train_as_section_5_says(name: str) -> None:
    training = load(name).training
    assert training.end == ("steps", {"paper-base": 100_000, "paper-big": 300_000}[name])
    seconds = {"paper-base": 0.4, "paper-big": 1.0}[name]  # of a step
    assert training.validate_every is not None
    assert training.validate_every * seconds == 600  # 6.1: checkpoints were ten minutes apart
    assert (training.batch_size, training.batch_by, training.batch_order) == (25_000, "tokens", "bucketed")
    assert (training.betas, training.eps) == ((0.9, 0.98), 1e-9)
    assert training.clip_grad_norm is None
