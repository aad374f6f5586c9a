"""Searches by a model: what they say of themselves holds when the model reads the finished translation at once."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from oracles.small import make_model
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.scoring.losses import sentence_losses
from transformer_cli.search import batches as module
from transformer_cli.search.decoder import TransformerEngine, decode
from transformer_cli.search.protocols import Hypothesis, SearchRequest
from transformer_cli.text.vocabulary import EOS, SOS
from transformer_cli.translate import PART_KEY_STEP

SENTENCES = [[a, b, 11, a][: 1 + a % 4] for a in range(4, 12) for b in (4, 9)]
LIMIT = 8
CLOSE = 1e-5


def settings(n_best: int = 1, **search: object) -> TranslationSettings:
    return TranslationSettings.model_validate({"n_best": n_best, **search})


def wanted(sentences: Sequence[Sequence[int]], first_key: int = 0, limit: int = LIMIT) -> list[SearchRequest]:
    return [SearchRequest(ids, limit, key) for key, ids in enumerate(sentences, first_key)]


WAYS = [
    pytest.param(settings(), id="greedy"),
    pytest.param(settings(4, beam_size=4, length_penalty=0.6), id="beam"),
    pytest.param(settings(2, beam_size=3, no_repeat_ngram_size=2), id="beam without repetitions"),
    pytest.param(settings(3, sample=True, temperature=1.5, top_k=6), id="samples"),
]


@pytest.mark.parametrize("way", WAYS)
def test_sentence_losses_equal_log_prob_of_decoding(way: TranslationSettings) -> None:
    model = make_model()
    found = decode([model], wanted(SENTENCES), way)
    ended = [
        (source, each)
        for source, row in zip(SENTENCES, found, strict=True)
        for each in row
        if 0 < len(each.tokens) < LIMIT
    ]
    assert len(ended) > 5
    split = EncodedSplit(Side.of([source for source, _ in ended]), Side.of([each.tokens for _, each in ended]))
    losses = sentence_losses(model, split, np.arange(len(ended)))
    assert [each.log_prob for _, each in ended] == pytest.approx((-losses.nll).tolist(), abs=1e-4)
    alpha = way.length_penalty
    for _, each in ended:
        assert each.score == pytest.approx(each.log_prob / (len(each.tokens) + 1) ** alpha)


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [(each.tokens, each.alignment) for each in found] == [(each.tokens, each.alignment) for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=CLOSE)


@pytest.mark.parametrize("most", [1, 7])
@pytest.mark.parametrize("way", WAYS)
def test_search_is_independent_of_batch_size(
    way: TranslationSettings, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = decode([make_model()], wanted(SENTENCES), way)
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", most)
    engine = TransformerEngine([make_model()])
    batches = list(engine.translate(wanted(SENTENCES), way))
    assert len(batches) > 1
    for row, found in [pair for rows, several in batches for pair in zip(rows, several, strict=True)]:
        assert_same(found, together[row])


def test_ensemble_predicts_mean_of_probabilities() -> None:
    models = [make_model(seed) for seed in (8, 9)]
    found = decode(models, wanted(SENTENCES), settings(2, beam_size=2))
    assert [[each.tokens for each in row] for row in found] not in (
        [[each.tokens for each in row] for row in decode([model], wanted(SENTENCES), settings(2, beam_size=2))]
        for model in models
    )
    for source, hypothesis in [(ids, each) for ids, row in zip(SENTENCES, found, strict=True) for each in row]:
        target = [SOS, *hypothesis.tokens, EOS][: LIMIT + 1]
        logits = [model(torch.tensor([[SOS, *source, EOS]]), torch.tensor([target[:-1]]))[0] for model in models]
        mean = torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0)
        expected = mean.log().gather(1, torch.tensor(target[1:])[:, None]).sum().item()
        assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)


def test_ensemble_max_length_is_the_smallest() -> None:
    models = [make_model(), make_model(num_heads=4, max_length=9, d_model=24)]
    assert TransformerEngine(models).max_length == 9


def test_beam_alignment_is_the_token_attended_to_most() -> None:
    model = make_model()
    found = decode([model], wanted(SENTENCES), settings(3, beam_size=3))
    for source, hypothesis in [(ids, each) for ids, row in zip(SENTENCES, found, strict=True) for each in row]:
        read, target = torch.tensor([[SOS, *source, EOS]]), [SOS, *hypothesis.tokens]
        record = AttentionRecord()
        model(read, torch.tensor([target]), record)
        of_words = record.cross[-1].weights[0].mean(dim=0)[: len(hypothesis.tokens), 1:-1]
        assert hypothesis.alignment == of_words.argmax(dim=1).tolist()


def test_sample_depends_on_seed_key_and_number() -> None:
    way = settings(4, sample=True, temperature=2.0)
    found = decode([make_model()], [SearchRequest([4, 5, 6], LIMIT, key) for key in (3, 7)], way)
    assert found[0] != found[1]
    assert_same(decode([make_model()], wanted([[4, 5, 6]], 7), way)[0], found[1])
    other_seed = settings(4, sample=True, temperature=2.0, seed=1)
    assert decode([make_model()], wanted([[4, 5, 6]], 7), other_seed)[0] != found[1]
    fewer = decode([make_model()], wanted([[4, 5, 6]], 7), settings(2, sample=True, temperature=2.0))[0]
    assert {tuple(each.tokens) for each in fewer} <= {tuple(each.tokens) for each in found[1]}
    assert [each.score for each in found[0]] == sorted((each.score for each in found[0]), reverse=True)
    way = settings(1, sample=True, temperature=2.0)
    later_part = decode([make_model()], wanted([[4, 5, 6]], 7 + PART_KEY_STEP), way)[0]
    assert later_part[0].tokens not in [each.tokens for each in found[1]]
