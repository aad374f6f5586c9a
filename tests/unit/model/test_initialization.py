"""How weights begin: what is drawn, and what is not drawn where a checkpoint fills them."""

import math

import pytest
import torch
from torch import Tensor, nn

from oracles.small import SMALL, SOURCE, TARGET
from oracles.variants import VARIANTS
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer, UninitializedWeights
from transformer_cli.text.vocabulary import PAD


def make_model(variant: dict[str, object], vocabulary: int = 12) -> Transformer:
    config = SMALL.model_copy(update=variant)
    return Transformer(config, source_vocabulary=vocabulary, target_vocabulary=vocabulary, pad_id=PAD)


def xavier_bound(matrix: Tensor) -> float:
    return math.sqrt(6 / sum(matrix.shape))


def test_initialize_fills_xavier_bound_of_q_k_v_separately() -> None:
    torch.manual_seed(0)
    model = make_model({"head_dim": 5}, vocabulary=40)
    matrices = {name: parameter for name, parameter in model.named_parameters() if parameter.ndim == 2}
    assert len(matrices) == 2 * (2 + 2) + 2 * (4 + 2) + 2 * 2 + 1  # encoder, decoder, embeddings, output
    for name, matrix in matrices.items():
        for part in matrix.chunk(3) if "qkv" in name else [matrix]:
            assert 0.95 * xavier_bound(part) < part.abs().max().item() <= xavier_bound(part), name


@pytest.mark.parametrize("ties", ["none", "target+output", "all"])
def test_init_embedding_normal_std_and_zero_padding(ties: str) -> None:
    torch.manual_seed(0)
    model = make_model({"embedding_init": "normal", "tie_embeddings": ties, "d_model": 64}, vocabulary=500)
    for embedding in (model.source_embedding, model.target_embedding):
        weight = embedding.tokens.weight.detach()
        assert weight[PAD].eq(0).all()
        drawn = weight[PAD + 1 :] * embedding.scale
        assert (drawn.mean().item(), drawn.std().item()) == pytest.approx((0, 1), abs=0.02)
    assert (model.output.weight.abs().max() < xavier_bound(model.output.weight)) == (ties == "none")


def test_init_embedding_normal_changes_no_other_weights() -> None:
    models = []
    for drawn in ("xavier", "normal"):
        torch.manual_seed(0)
        models.append(dict(make_model({"embedding_init": drawn}).named_parameters()))
    changed = {name for name, value in models[0].items() if not value.equal(models[1][name])}
    assert changed == {"source_embedding.tokens.weight", "target_embedding.tokens.weight"}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_uninitialized_weights_draw_nothing_and_load_equal(variant: dict[str, object]) -> None:
    saved = make_model(variant).eval()
    for parameter in saved.parameters():  # norms and biases too
        nn.init.normal_(parameter, std=0.3)
    before = torch.get_rng_state()
    with UninitializedWeights():
        loaded = make_model(variant).eval()
    assert torch.get_rng_state().equal(before)
    loaded.load_state_dict(saved.state_dict())
    buffers, parameters = dict(saved.named_buffers()), dict(saved.named_parameters())
    assert dict(loaded.named_buffers()).keys() == buffers.keys()
    assert dict(loaded.named_parameters()).keys() == parameters.keys()  # tied ones once
    assert all(buffer.equal(buffers[name]) for name, buffer in loaded.named_buffers())
    losses = [token_losses(model, SOURCE, TARGET) for model in (saved, loaded)]
    assert losses[0].nll.equal(losses[1].nll)
    for each in losses:
        each.objective.backward()
    for name, parameter in loaded.named_parameters():
        assert parameter.equal(parameters[name]), name
        torch.testing.assert_close(parameter.grad, parameters[name].grad, atol=0.0, rtol=0.0)
