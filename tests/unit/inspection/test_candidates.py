"""What could have been written, against the model's own probabilities."""

import pytest
import torch
from torch.testing import assert_close

from transformer_cli.data.vocabulary import EOS, PAD, SOS
from transformer_cli.inspection import choices
from transformer_cli.inspection.choices import find_candidates
from transformer_cli.translator import Translator

SOURCE, WRITTEN = [5, 4, 7], [6, 4, 9, 8, EOS]


def forward(translator: Translator) -> torch.Tensor:
    """The probabilities under teacher forcing: (steps, vocabulary)."""
    with torch.inference_mode():
        logits = translator.model(torch.tensor([[SOS, *SOURCE, EOS]]), torch.tensor([[SOS, *WRITTEN[:-1]]]))
    return logits[0].softmax(dim=1)


@pytest.mark.parametrize("steps", [1, 2, 64])
def test_candidates_are_the_likeliest_tokens_of_each_step(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(choices, "STEPS", steps)
    found = find_candidates([translator.model], SOURCE, WRITTEN, n=3)
    expected = forward(translator)
    assert_close(found.of_written, torch.stack([expected[step, id_] for step, id_ in enumerate(WRITTEN)]))
    expected[:, [PAD, SOS]] = 0.0
    values, ids = expected.topk(3, dim=1)
    assert_close(found.probabilities, values)
    assert found.ids.equal(ids)


def test_a_small_vocabulary_has_fewer_candidates_and_never_padding(translator: Translator) -> None:
    found = find_candidates([translator.model], SOURCE, WRITTEN, n=1_000_000)
    size = len(translator.run.codecs.target)
    assert found.ids.sort(dim=1).values.tolist() == [[id_ for id_ in range(size) if id_ not in (PAD, SOS)]] * 5


def test_an_ensemble_has_the_mean_probability(translator: Translator) -> None:
    other = Translator(translator.run, torch.device("cpu")).model
    with torch.no_grad():
        other.output.bias.add_(torch.linspace(-3, 3, len(other.output.bias)))
    models = [translator.model, other]
    found = find_candidates(models, SOURCE, WRITTEN, n=4)
    alone = [find_candidates([each], SOURCE, WRITTEN, n=4).of_written for each in models]
    assert_close(found.of_written, torch.stack(alone).mean(dim=0))
    assert not alone[0].allclose(alone[1])
