"""The model as a whole: its size, its initialisation, what the settings change, what it records; its positions."""

import math
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles.small import SMALL, SOURCE, TARGET
from oracles.variants import VARIANTS
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model import transformer
from transformer_cli.model.attention import AttentionRecord, RecordedAttention, efficient_attention
from transformer_cli.model.dropout import Dropout
from transformer_cli.model.layout import Padded
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import (
    LearnedPositions,
    SinusoidalPositions,
    Transformer,
    count_parameters,
    frequencies,
)
from transformer_cli.text.vocabulary import PAD
from transformer_cli.training.optimisers import make_optimizer

TIES = ["none", "target+output", "all"]


def make_model(config: ModelConfig = SMALL, vocabulary: int = 12, **variant: object) -> Transformer:
    torch.manual_seed(0)
    changed = config.model_copy(update=variant)
    return Transformer(changed, source_vocabulary=vocabulary, target_vocabulary=vocabulary, pad_id=PAD)


def test_default_model_has_9_million_parameters() -> None:
    with torch.device("meta"):
        model = Transformer(ModelConfig(), source_vocabulary=7853, target_vocabulary=5893, pad_id=PAD)
    assert count_parameters(model) == 9_038_341


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_forward_fires_the_hook_of_any_module(variant: dict[str, Any]) -> None:
    model, fired = make_model(**variant), set()
    for name, module in model.named_modules():
        module.register_forward_hook(lambda module, given, found, name=name: fired.add(name))
    model(SOURCE, TARGET)
    lists = {name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}  # nobody calls these
    assert {name for name, _ in model.named_modules()} - lists == fired


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_forward_depends_on_source_order_in_every_variant(variant: dict[str, Any]) -> None:
    """Forms are compared with each other elsewhere: none of these tests would miss positions that all of them lack."""
    model = make_model(**variant).eval()
    swapped = SOURCE[:, [0, 2, 1, 3, 4]]
    assert not model(swapped[:1], TARGET[:1]).allclose(model(SOURCE[:1], TARGET[:1]), atol=1e-4)


@pytest.mark.parametrize("ties", TIES)
def test_untrained_loss_is_log_of_vocabulary_size(ties: str) -> None:
    vocabulary = 4000
    model = make_model(ModelConfig(num_encoder_layers=1, num_decoder_layers=1), vocabulary, tie_embeddings=ties)
    source, target = torch.randint(4, vocabulary, (2, 8, 12)).unbind()
    losses = token_losses(model.eval(), source, target)
    assert losses.nll.mean().item() == pytest.approx(math.log(vocabulary), rel=0.15)


@pytest.mark.parametrize("ties", TIES)
def test_tied_embeddings_share_one_tensor(ties: str) -> None:
    model = make_model(tie_embeddings=ties)
    matrices = [model.output.weight, model.target_embedding.tokens.weight, model.source_embedding.tokens.weight]
    n_tied = {"none": 1, "target+output": 2, "all": 3}[ties]
    assert [matrix is matrices[0] for matrix in matrices] == [index < n_tied for index in range(3)]
    assert count_parameters(model) == count_parameters(make_model()) - (n_tied - 1) * 12 * 16


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_weight_gets_a_gradient_and_is_updated(variant: dict[str, Any]) -> None:
    model = make_model(**variant)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    token_losses(model, SOURCE, TARGET).objective.backward()
    make_optimizer(model, TrainingConfig()).step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        for part in parameter.grad.chunk(3) if name.endswith("qkv.weight") else [parameter.grad]:
            assert part.count_nonzero() > 0, name
        assert not parameter.equal(before[name]), name


def test_no_start_token_source_mask_excludes_sos() -> None:
    """What stands in the place of <sos> changes nothing, and nothing attends to it."""
    model, record = make_model(start_token=False).eval(), AttentionRecord()
    other = SOURCE.clone()
    other[:, 0] = 11
    assert model(other, TARGET).equal(model(SOURCE, TARGET))
    model(SOURCE, TARGET, record)
    assert all(not each.weights[..., 0].any() for each in (*record.encoder_self, *record.cross))
    layout = Padded(SOURCE, model.source_mask(SOURCE))
    words = model.source_embedding(SOURCE, layout.positions)[0, 1:] - model.source_embedding.positions(torch.arange(4))
    torch.testing.assert_close(words, model.source_embedding.tokens(SOURCE[0, 1:]) * 4.0)


def test_no_start_token_gives_pad_and_sos_no_probability() -> None:
    model = make_model(start_token=False)
    probabilities = model(SOURCE, TARGET).softmax(dim=-1)
    assert not probabilities[..., [PAD, PAD + 1]].any()
    objective = token_losses(model, SOURCE, TARGET, label_smoothing=0.1).objective
    (gradient,) = torch.autograd.grad(objective, model.output.bias)
    assert [index for index, value in enumerate(gradient.tolist()) if value == 0] == [PAD, PAD + 1]


@pytest.mark.parametrize(("scaled", "scale"), [(True, 4.0), (False, 1.0)])
def test_scale_embeddings_scales_tokens_and_never_positions(scaled: bool, scale: float) -> None:
    embedding = make_model(scale_embeddings=scaled).source_embedding
    expected = embedding.tokens.weight[SOURCE] * scale + embedding.positions(torch.arange(5))
    torch.testing.assert_close(embedding(SOURCE, torch.arange(5)), expected)


@pytest.mark.parametrize(("own", "rate"), [(None, 0.1), (0.3, 0.3), (0.0, 0.0)])
def test_dropout_is_applied_where_section_5_4_says(own: float | None, rate: float) -> None:
    config = SMALL.model_copy(update={"dropout": 0.1, "attention_dropout": own, "activation_dropout": own})
    model = Transformer(config, source_vocabulary=12, target_vocabulary=12, pad_id=PAD)
    dropped: Counter[tuple[float, tuple[int, ...]]] = Counter()
    for module in model.modules():
        if type(module) is Dropout:
            module.register_forward_hook(lambda module, _, out: dropped.update([(module.p, tuple(out.shape))]))
    model(SOURCE, TARGET)
    assert dropped == {
        (rate, (2, 2, 5, 5)): 2,  # the encoder's attention weights: batch, heads, target, source
        (rate, (2, 2, 4, 4)): 2,  # the decoder's
        (rate, (2, 2, 4, 5)): 2,  # and those on the encoder's output
        (rate, (2, 5, 24)): 2,  # inside the feed-forward networks
        (rate, (2, 4, 24)): 2,
        (0.1, (2, 5, 16)): 1 + 2 * 2,  # embeddings, and each sublayer's output
        (0.1, (2, 4, 16)): 1 + 2 * 3,
    }


def recorded() -> tuple[AttentionRecord, Tensor]:
    """What the small model attends to, and its logits."""
    model = make_model().eval()
    record = AttentionRecord()
    return record, model(SOURCE, TARGET, record)


def test_attention_record_does_not_change_logits() -> None:
    assert recorded()[1].equal(make_model().eval()(SOURCE, TARGET))


@pytest.mark.parametrize(
    ("kind", "queries", "keys", "future"),
    [("encoder_self", SOURCE, SOURCE, 5), ("decoder_self", TARGET, TARGET, 0), ("cross", TARGET, SOURCE, 5)],
)
def test_attention_record_sums_to_1_over_allowed_positions(
    kind: str, queries: Tensor, keys: Tensor, future: int
) -> None:
    layers = getattr(recorded()[0], kind)
    may_attend = (keys != PAD)[:, None, :] & torch.ones(queries.shape[1], keys.shape[1], dtype=torch.bool).tril(future)
    assert len(layers) == 2
    for scores, weights in layers:
        assert scores.shape == weights.shape == (2, 2, queries.shape[1], keys.shape[1])
        assert weights.equal(scores.softmax(dim=-1))
        assert (scores.isfinite() == may_attend[:, None]).all()
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        assert ((weights > 0.0) == may_attend[:, None]).all()


def test_attention_record_has_weights_before_dropout() -> None:
    model, record = make_model(dropout=0.5).train(), AttentionRecord()
    model(SOURCE, TARGET, record)
    for scores, weights in record.encoder_self:
        assert weights.equal(scores.softmax(dim=-1))


@pytest.mark.parametrize("position", [0, 1, 7, 99, 511])
def test_sinusoidal_positions_equal_the_formula(position: int) -> None:
    d_model = 12
    found = SinusoidalPositions(frequencies(d_model))(torch.tensor(position))
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        assert found[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-4)
        assert found[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-4)


def test_rotary_positions_turn_complex_numbers() -> None:
    """As in Su et al. 2021, eq. 13: a pair is a complex number, which position m multiplies by e^(i·m·θ)."""
    rotary, draw = transformer.RotaryPositions(frequencies(6)), torch.Generator().manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 5, 6, generator=draw).unbind()  # (batch, heads, length, depth)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 3, 0, 9, 2]])
    turns = torch.polar(torch.ones(1), positions[:, None, :, None] * frequencies(6))

    def attend(found_queries: Tensor, found_keys: Tensor, found_values: Tensor, dropout: nn.Dropout) -> Tensor:
        for found, given in ((found_queries, queries), (found_keys, keys)):
            wanted = torch.view_as_real(torch.view_as_complex(given.unflatten(-1, (3, 2)).contiguous()) * turns)
            torch.testing.assert_close(found, wanted.flatten(-2))
        return found_values

    assert rotary(attend, positions)(queries, keys, values, nn.Dropout()).equal(values)


def test_rotary_scores_depend_on_distances() -> None:
    rotary, record = transformer.RotaryPositions(frequencies(8)), list[RecordedAttention]()
    queries, keys = torch.randn(2, 1, 1, 6, 8, generator=torch.Generator().manual_seed(0)).unbind()
    for start in (0, 50):
        attend = rotary(partial(efficient_attention, record=record), torch.arange(start, start + 6)[None])
        attend(queries, keys, keys, nn.Dropout(0))
    torch.testing.assert_close(record[0].scores, record[1].scores)
    assert not torch.allclose(record[0].scores, queries @ keys.transpose(-2, -1) / math.sqrt(8))


def test_marian_frequencies_end_at_1e_4() -> None:
    """As in marian-dev's tensor_operators.cpp: each is the last one × exp(-ln 10000 / (d/2 - 1))."""
    found = transformer.marian_frequencies(12).tolist()
    assert found == pytest.approx([math.exp(-math.log(10000) / 5 * i) for i in range(6)], rel=1e-6)
    assert found[-1] == pytest.approx(1e-4)
    assert transformer.marian_frequencies(2).tolist() == [1.0]


def learned(max_length: int) -> LearnedPositions:
    positions = LearnedPositions(max_length, 8)
    torch.nn.init.normal_(positions.weight, generator=torch.Generator().manual_seed(0))
    return positions


@pytest.mark.parametrize("positions", [SinusoidalPositions(frequencies(8)), learned(20)], ids=["sinusoidal", "learned"])
def test_positions_have_distinct_vectors(positions: SinusoidalPositions | LearnedPositions) -> None:
    table = positions(torch.arange(20))
    assert table.shape == (20, 8)
    assert positions(torch.tensor([[5, 7], [6, 5]])).equal(table[[5, 7, 6, 5]].view(2, 2, 8))
    assert table.unique(dim=0).shape == (20, 8)


def test_learned_positions_beyond_the_last_raise_index_error() -> None:
    positions = learned(5)
    assert positions(torch.tensor([2, 3, 4])).shape == (3, 8)
    with pytest.raises(IndexError):
        positions(torch.tensor([3, 4, 5]))


def test_sinusoidal_positions_are_not_in_a_checkpoint() -> None:
    assert not SinusoidalPositions(frequencies(8)).state_dict()
