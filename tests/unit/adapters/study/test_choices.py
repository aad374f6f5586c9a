"""The decoder's choices: what was written is what search wrote, and another choice is kept."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from torch.testing import assert_close

from transformer_cli import Translation, Translator
from transformer_cli.adapters.study.inspection import N_CANDIDATES, Choice, decoder_choices, translate_from
from transformer_cli.errors import DataError
from transformer_cli.text.vocabulary import EOS, PAD, SOS

SENTENCE = "Der kleine Hund läuft im Park."


class Choices(NamedTuple):
    translation: Translation
    steps: list[Choice]
    attention: torch.Tensor


def choices(translator: Translator, forced: Sequence[int] = ()) -> Choices:
    translation = translate_from(translator, SENTENCE, forced)
    return Choices(translation, *decoder_choices(translator, translation))


def test_decoder_choices_of_greedy_search_rank_first(translator: Translator) -> None:
    found = choices(translator)
    (plain,) = translator.translate_detailed([SENTENCE])
    assert found.translation.text == plain.text
    assert [step.written.id for step in found.steps] == [*plain.ids, EOS]
    assert [step.written.token for step in found.steps] == [*plain.tokens, "<eos>"]
    assert [step.written for step in found.steps] == [step.candidates[0] for step in found.steps]
    assert math.fsum(math.log(step.written.probability) for step in found.steps) == pytest.approx(plain.log_prob, 1e-4)
    assert found.attention.shape == (len(found.steps), len(plain.source_tokens) + 2)


def test_translate_from_other_choice_continues_it(translator: Translator) -> None:
    first = choices(translator)
    other = first.steps[2].candidates[1]
    forced = (*first.translation.ids[:2], other.id)
    found = choices(translator, forced)
    assert found.translation.ids[:3] == list(forced)
    assert found.translation.text != first.translation.text
    assert found.steps[2].written.id == other.id
    assert found.steps[2].written.probability == pytest.approx(other.probability, 1e-4)
    assert [step.written for step in found.steps[3:]] == [step.candidates[0] for step in found.steps[3:]]


@pytest.mark.parametrize("is_beam", [False, True])
def test_translate_from_eos_ends(translator: Translator, is_beam: bool) -> None:
    ids = choices(translator).translation.ids[:2]
    searching = translator.with_options(beam_size=3) if is_beam else translator
    found = choices(searching, [*ids, EOS])
    assert [step.written.id for step in found.steps] == [*ids, EOS]
    assert found.translation.ids == ids


def test_translate_from_max_tokens_has_no_eos(translator: Translator) -> None:
    (id_, *_) = choices(translator).translation.ids
    limited = translator.with_options(max_tokens=3)
    for forced in ([id_] * 3, [id_] * 3 + [EOS]):
        found = choices(limited, forced)
        assert [step.written.id for step in found.steps] == [id_] * 3


def test_translate_from_subwords(by_subwords: Translator) -> None:
    first = choices(by_subwords)
    id_ = first.steps[0].candidates[5].id
    found = choices(by_subwords, (id_,))
    assert found.translation.ids[0] == id_
    assert found.steps[0].written.token == by_subwords.run.codecs.target.tokens([id_])[0]


@pytest.mark.parametrize(
    ("sentence", "forced", "error"),
    [
        (" ", [], "the sentence has no letter, so there is nothing to translate; give it a word"),
        ("Hund " * 20, [], "20 tokens, but the model takes at most 14"),
        (SENTENCE, [4, PAD], "prefix: 1 is not the id of a token that the model can write"),
        *((SENTENCE, [SOS], "prefix: 2 is not"), (SENTENCE, [EOS, 4], "prefix: 3 is not")),
        *((SENTENCE, [-1], "prefix: -1 is not"), (SENTENCE, [1 << 70], f"prefix: {1 << 70} is not")),
        (SENTENCE, [4] * 15, "15 tokens are forced, but the translation may have 14; force fewer"),
    ],
)
def test_translate_from_impossible_ids_raises(
    translator: Translator, sentence: str, forced: list[int], error: str
) -> None:
    with pytest.raises(DataError) as raised:
        translate_from(translator, sentence, forced)
    assert str(raised.value).startswith(error)


def forward(translator: Translator, source: list[int], written: list[int]) -> torch.Tensor:
    """The probabilities under teacher forcing: (steps, vocabulary)."""
    with torch.inference_mode():
        logits = translator.model(torch.tensor([[SOS, *source, EOS]]), torch.tensor([[SOS, *written[:-1]]]))
    return logits[0].softmax(dim=1)


def test_decoder_choices_candidates_are_most_probable(translator: Translator) -> None:
    translation = translate_from(translator, SENTENCE)
    steps, attention = decoder_choices(translator, translation)
    written = [step.written.id for step in steps]
    expected = forward(translator, translation.source_ids, written)
    of_written = torch.tensor([step.written.probability for step in steps])
    assert_close(of_written, torch.stack([expected[step, id_] for step, id_ in enumerate(written)]))
    expected[:, [PAD, SOS]] = 0.0
    values, ids = expected.topk(N_CANDIDATES, dim=1)
    assert_close(torch.tensor([[each.probability for each in step.candidates] for step in steps]), values)
    assert [[each.id for each in step.candidates] for step in steps] == ids.tolist()
    assert attention[:-1, 1:-1].argmax(dim=1).tolist() == translation.alignment
    assert_close(attention.sum(dim=1), torch.ones(len(steps)))


def test_decoder_choices_with_terms_have_one_step_per_token(translator: Translator) -> None:
    with_term = translator.with_options(glossary={"kleine": "small"}, max_tokens=7)
    translation = translate_from(with_term, SENTENCE)
    assert len(translation.ids) == len(decoder_choices(with_term, translation)[0]) == 8
    assert translate_from(with_term, SENTENCE, translation.ids) == translation
