"""Inspection: every number against the model's own, or written out by hand."""

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transformer_cli import Translator, inspect_sentence
from transformer_cli.adapters.study import inspection as module
from transformer_cli.adapters.study.inspection import Inspection, attend_over_words, inspect_translation
from transformer_cli.errors import DataError
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.model.layout import Padded
from transformer_cli.text.vocabulary import EOS, PAD, SOS, UNK

SENTENCE = "Der alte Hund und der alte Mann und Babo."


@pytest.fixture(scope="module")
def inspection(translator: Translator) -> Inspection:
    return inspect_sentence(translator, SENTENCE)


def ids(numbers: list[int]) -> Tensor:
    return torch.tensor([numbers])


def test_inspect_sentence_tokens_equal_translations(translator: Translator, inspection: Inspection) -> None:
    (translation,) = translator.translate_detailed([SENTENCE])
    encoded = translator.run.codecs.source.encode(SENTENCE)
    words = encoded.tokens
    assert inspection.sentence == SENTENCE
    assert inspection.translation == translation.text
    assert inspection.source_tokens == ["<sos>", *words, "<eos>"]
    assert inspection.source_ids == [SOS, *encoded.ids, EOS]
    assert UNK in inspection.source_ids
    assert inspection.target_tokens == ["<sos>", *translation.tokens]
    assert translator.run.codecs.target.tokens(inspection.target_ids) == inspection.target_tokens


def test_inspect_several_lines_raises(translator: Translator) -> None:
    (several,) = translator.translate_detailed([f"{SENTENCE}\n{SENTENCE}"])
    for look in (inspect_translation, module.decoder_choices):
        with pytest.raises(DataError, match="the text has several lines or sentences"):
            look(translator, several)


def test_inspect_sentence_values_equal_the_models(translator: Translator, inspection: Inspection) -> None:
    record = AttentionRecord()
    source = ids(inspection.source_ids)
    with torch.inference_mode():
        translator.model(source, ids(inspection.target_ids), record)
    for ours, theirs in (
        (inspection.attention["encoder"], record.encoder_self),
        (inspection.attention["decoder"], record.decoder_self),
        (inspection.attention["cross"], record.cross),
    ):
        assert len(ours) == len(theirs) == 1
        assert torch.equal(ours[0].weights, theirs[0].weights[0])
        assert torch.equal(ours[0].scores, theirs[0].scores[0])
        assert_close(ours[0].weights, ours[0].scores.softmax(dim=-1))
    with torch.inference_mode():
        layout = Padded(source, source != PAD)
        assert_close(inspection.before, translator.model.source_embedding(source, layout.positions)[0])
        assert_close(inspection.after, translator.model.encode(layout)[0])
        rows = translator.model.source_embedding.tokens.weight[inspection.source_ids]
        assert_close(inspection.without_positions, rows * math.sqrt(32))


def test_inspect_sentence_stages_are_boxes_of_figure_1(translator: Translator, inspection: Inspection) -> None:
    stages, n_source, n_target = inspection.stages, len(inspection.source_ids), len(inspection.target_ids)
    layer = translator.model.encoder.layers[0]
    sublayers = ("self_attention", "residuals.0", "feed_forward", "residuals.1")
    assert list(stages)[:6] == ["source_embedding", *(f"encoder.layers.0.{each}" for each in sublayers), "encoder"]
    assert {len(stages[name]) for name in stages if name.startswith(("source", "encoder"))} == {n_source}
    assert {len(stages[name]) for name in stages if name.startswith(("target", "decoder", "output"))} == {n_target}
    with torch.inference_mode():
        logits = translator.model(ids(inspection.source_ids), ids(inspection.target_ids))[0]
        assert_close(stages["output"], logits)
        added = stages["source_embedding"] + stages["encoder.layers.0.self_attention"]
        assert_close(stages["encoder.layers.0.residuals.0"], layer.residuals[0].norm(added))
    assert f"encoder.layers.0.feed_forward  {n_source} × 32" in re.sub(" {2,}", "  ", repr(inspection))


def test_repetitions_cosine_is_1_only_without_positions(inspection: Inspection) -> None:
    repetitions = inspection.repetitions()
    assert {each.token: each.positions for each in repetitions} == {"der": (1, 5), "alte": (2, 6), "und": (4, 8)}
    for each in repetitions:
        first, second = each.positions
        assert each.without_positions == pytest.approx(1.0)
        for cosine, vectors in ((each.before, inspection.before), (each.after, inspection.after)):
            one, other = vectors[first], vectors[second]
            assert cosine == pytest.approx(float(one @ other / (one.norm() * other.norm())), abs=1e-5)
            assert cosine < 0.999


def test_maps_are_the_heads_of_a_layer(inspection: Inspection) -> None:
    maps = inspection.maps()
    expected = [(kind, 1, head) for kind in module.KINDS for head in (1, 2)]
    assert [(each.kind, each.layer, each.head) for each in maps] == expected
    (cross,) = inspection.maps(["cross"], layer=1, heads=[2, 2])
    assert torch.equal(cross.weights, inspection.attention["cross"][0].weights[1])
    assert cross.scores is not None
    assert torch.equal(cross.scores, inspection.attention["cross"][0].scores[1])
    assert (cross.target_tokens, cross.source_tokens) == (inspection.target_tokens, inspection.source_tokens)
    for number in (0, -1, 3):
        with pytest.raises(DataError, match=rf"layer {number}: the decoder has layers 1 to 1"):
            inspection.maps(["cross"], layer=number)
        with pytest.raises(DataError, match=rf"head {number}: a layer has heads 1 to 2"):
            inspection.maps(heads=[1, number])


VECTORS = {"the": [0.5, -1.0], "Cat": [9.0, 9.0], "cat": [2.0, 1.0], "sat": [-1.0, 3.0], "MAT": [0.0, 0.25]}


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    path = tmp_path / "some.vec"
    path.write_text("".join(f"{word} {a} {b}\n" for word, (a, b) in VECTORS.items()), encoding="utf-8")
    return str(path)


def by_hand(words: list[str], divisor: float) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """Scores, weights and context vectors in Python's floats."""
    rows = [VECTORS[word] for word in words]
    scores = [[(a * c + b * d) / divisor for c, d in rows] for a, b in rows]
    sums = [sum(math.exp(score) for score in row) for row in scores]
    weights = [[math.exp(score) / total for score in row] for row, total in zip(scores, sums, strict=True)]
    context = [[sum(w * row[i] for w, row in zip(each, rows, strict=True)) for i in (0, 1)] for each in weights]
    return scores, weights, context


@pytest.mark.parametrize(("is_scaled", "divisor"), [(True, math.sqrt(2)), (False, 1.0)])
def test_attend_over_words_equals_the_formula(vectors: str, is_scaled: bool, divisor: float) -> None:
    found = attend_over_words("the cat sat the", vectors, is_scaled=is_scaled)
    scores, weights, context = by_hand(["the", "cat", "sat", "the"], divisor)
    assert (found.words, found.positions, found.is_scaled) == (["the", "cat", "sat", "the"], [0, 1, 2, 3], is_scaled)
    for ours, theirs in ((found.scores, scores), (found.weights, weights), (found.context, context)):
        assert_close(ours, torch.tensor(theirs, dtype=torch.float64))
    assert found.vectors.tolist() == [VECTORS[word] for word in found.words]
    asked = attend_over_words("the cat sat the", vectors, query="THE", is_scaled=is_scaled)
    assert (asked.words, asked.positions) == (found.words, [0, 3])
    assert all(getattr(asked, name).equal(getattr(found, name)[[0, 3]]) for name in ("scores", "weights", "context"))


def test_attend_over_words_prefers_exact_spelling(vectors: str, caplog: pytest.LogCaptureFixture) -> None:
    found = attend_over_words("The\tCat cat, mat dog cat dog", vectors)
    assert found.words == ["The", "Cat", "mat", "cat"]
    assert found.vectors.tolist() == [VECTORS[word] for word in ("the", "Cat", "MAT", "cat")]
    assert found.without_vector == ["cat,", "dog", "dog"]
    assert caplog.messages == [f"{vectors}: no vector for cat,, dog; left out"]


def test_attend_over_words_without_vectors_raises(vectors: str) -> None:
    with pytest.raises(DataError, match="the sentence has no letter"):
        attend_over_words(" \n", vectors)
    with pytest.raises(DataError, match=r"some\.vec: no vector for any of the words"):
        attend_over_words("ein Hund", vectors)
    with pytest.raises(DataError, match=r"query dog: not among the words that have a vector; choose one of the, cat$"):
        attend_over_words("the dog cat", vectors, query="dog")
