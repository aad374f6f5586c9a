"""Losses against written-out sums; scores against raw references, which never pass through the vocabulary."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from numpy.typing import NDArray

from transformer_cli.compute.world import World
from transformer_cli.data.dataset import EncodedSplit, Side
from transformer_cli.data.vocabulary import EOS, SOS
from transformer_cli.errors import DataError
from transformer_cli.evaluation import evaluate as module
from transformer_cli.evaluation.evaluate import Losses, Result, corpus_losses, evaluate, judge
from transformer_cli.translator import Translation, Translator

SOURCE = "Der alte Bado schläft zu Hause."
REFERENCE = "The old Bado sleeps at home."
AS_TOKENS = ["the", "old", "<unk>", "sleeps", "at", "home", "."]


@pytest.fixture
def translator(project: Path) -> Translator:
    return Translator.load(project / "runs/tiny", device="cpu")


@pytest.fixture(scope="module")
def split() -> EncodedSplit:
    """Made-up sentences of all lengths, more than one batch of 128."""
    chance = np.random.default_rng(0)
    lengths = chance.integers(1, 13, size=(2, 200))
    sides = [Side(chance.integers(4, 20, side.sum(), dtype=np.int32), np.cumsum([0, *side])) for side in lengths]
    return EncodedSplit(*sides)


def one_by_one(translator: Translator, split: EncodedSplit, rows: Sequence[int]) -> dict[int, tuple[float, int]]:
    """(sum of the losses, target tokens) of each sentence on its own, the plain way."""
    found = {}
    for row in rows:
        source = torch.tensor([[SOS, *split.source[row].tolist(), EOS]])
        target = torch.tensor([[SOS, *split.target[row].tolist(), EOS]])
        logits = translator.model(source, target[:, :-1])[0]
        found[row] = float(torch.nn.functional.cross_entropy(logits, target[0, 1:], reduction="sum")), len(logits)
    return found


def torchtext_sort_key(source_length: int, target_length: int) -> int:
    """interleave_keys of torchtext 0.6.0, as it is written there."""
    bits = zip(format(source_length, "016b"), format(target_length, "016b"), strict=True)
    return int("".join(bit for both in bits for bit in both), base=2)


@pytest.mark.parametrize("positions", [1, 100, 2048])
def test_losses_equal_a_plain_loop_over_sentences(
    translator: Translator, split: EncodedSplit, monkeypatch: pytest.MonkeyPatch, positions: int
) -> None:
    monkeypatch.setattr(module, "LOSS_POSITIONS", positions)
    rows = np.arange(0, len(split), 1 if positions == 2048 else 20)
    with torch.no_grad():
        single = one_by_one(translator, split, rows.tolist())
    losses = corpus_losses(translator.model, split, rows)
    nll, tokens = (sum(values) for values in zip(*single.values(), strict=True))
    assert losses.tokens == tokens
    assert losses.loss == pytest.approx(nll / tokens, rel=1e-5)
    lengths = split.source.lengths, split.target.lengths
    order = sorted(single, key=lambda row: torchtext_sort_key(*(int(side[row]) for side in lengths)))
    batches = [[single[row] for row in order[start : start + 128]] for start in range(0, len(order), 128)]
    means = [sum(nll for nll, _ in batch) / sum(tokens for _, tokens in batch) for batch in batches]
    assert losses.loss_batch_mean == pytest.approx(sum(means) / len(means), rel=1e-5)
    assert (losses.loss_batch_mean == losses.loss) == (len(batches) == 1)


def test_dropout_plays_no_part_in_the_losses(translator: Translator, split: EncodedSplit) -> None:
    rows = np.arange(5)
    expected = corpus_losses(translator.model, split, rows)
    assert corpus_losses(translator.model.train(), split, rows) == expected


def test_processes_that_share_the_work_find_the_very_same_losses(
    translator: Translator, split: EncodedSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOSS_POSITIONS", 100)
    rows = np.arange(0, len(split), 20)
    expected = corpus_losses(translator.model, split, rows)
    arrays: list[list[NDArray[Any]]] = [[], []]

    def keep(world: World, array: NDArray[Any]) -> NDArray[Any]:
        arrays[world.rank].append(array)
        return np.ones_like(array)

    with monkeypatch.context() as patch:
        patch.setattr(World, "total", keep)
        for rank in range(2):
            corpus_losses(translator.model, split, rows, World(rank, 2))
    sums = iter([one + other for one, other in zip(*arrays, strict=True)])
    monkeypatch.setattr(World, "total", lambda world, array: next(sums))
    assert corpus_losses(translator.model, split, rows, World(0, 2)) == expected
    assert all(0 < np.count_nonzero(part) < len(rows) for part in arrays[0])


@pytest.mark.parametrize(("loss", "ppl"), [(0.0, 1.0), (2.0, math.e**2), (1e4, math.exp(700.0))])
def test_perplexity_is_exp_of_the_loss(loss: float, ppl: float) -> None:
    assert Losses(1, loss, loss).ppl == pytest.approx(ppl)


def judge_as(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, text: str, tokens: list[str], reference: str
) -> Result:
    """The result if the model had translated SOURCE so."""
    translations = [Translation(SOURCE, SOURCE.split(), text, tokens, 0.0)]
    monkeypatch.setattr(translator, "translations", lambda *_: translations)
    return judge(translator, "crafted", [SOURCE], [reference]).result


def test_an_unknown_word_is_no_hit_for_an_unknown_word(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "bado" not in translator.run.target_vocabulary  # so a reference rebuilt from ids would hold <unk>
    kept = "the old <unk> sleeps at home."
    result = judge_as(translator, monkeypatch, kept, AS_TOKENS, REFERENCE)
    assert result.bleu == sacrebleu.corpus_bleu([kept], [[REFERENCE]], lowercase=True).score < 60
    assert result.chrf < 90
    assert result.bleu_tokens < 60
    right = ["the", "old", "bado", "sleeps", "at", "home", "."]
    result = judge_as(translator, monkeypatch, "the old bado sleeps at home.", right, REFERENCE)
    assert [result.bleu, result.bleu_tokens, result.chrf] == pytest.approx([100, 100, 100])


def test_token_bleu_is_of_the_decoders_own_tokens_text_bleu_is_not(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = judge_as(translator, monkeypatch, "the old bado sleeps at home.", AS_TOKENS, REFERENCE)
    assert result.bleu == pytest.approx(100)
    reference = " ".join(AS_TOKENS).replace("<unk>", "bado")
    expected = sacrebleu.corpus_bleu([" ".join(AS_TOKENS)], [[reference]], tokenize="none", force=True)
    assert result.bleu_tokens == pytest.approx(expected.score)
    assert result.bleu_tokens < 60


@pytest.mark.parametrize(("lowercase", "case", "bleu_is_full"), [(True, "case:lc", True), (False, "case:mixed", False)])
def test_scores_look_at_case_where_the_model_does(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, lowercase: bool, case: str, bleu_is_full: bool
) -> None:
    config = translator.run.config
    data = config.data.model_copy(update={"lowercase": lowercase})
    translator.run = dataclasses.replace(translator.run, config=config.model_copy(update={"data": data}))
    result = judge_as(translator, monkeypatch, REFERENCE.lower(), REFERENCE.lower().split(), REFERENCE)
    for signature in (result.bleu_signature, result.chrf_signature):
        assert case in signature.split("|")
    assert "tok:13a" in result.bleu_signature.split("|")
    assert (result.bleu > 99.9, result.chrf > 99.9) == (bleu_is_full, bleu_is_full)


def test_a_sentence_too_long_is_left_out_of_the_loss_and_cut_to_be_translated(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    alone = judge(translator, "mine", [SOURCE], [REFERENCE])
    judged = judge(translator, "mine", [SOURCE, "Hund " * 15], [REFERENCE, "dog"])
    assert "mine: 1 sentences are too long: left out of the loss, cut to be translated" in caplog.text
    assert (judged.result.sentences, len(judged.translations)) == (2, 2)
    assert judged.result.tokens == alone.result.tokens
    assert judged.result.loss == pytest.approx(alone.result.loss)


def test_nothing_but_sentences_too_long_is_an_error(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"^mine: every sentence is longer than the model's 16 positions$"):
        judge(translator, "mine", ["Hund " * 15], ["dog"])


def test_evaluate_takes_every_test_set_of_the_run_and_no_other_split(project: Path) -> None:
    judged = list(evaluate("tiny", data_dir=project / "data", runs_dir=project / "runs"))
    assert [each.result.split for each in judged] == ["test"]
    assert len(judged[0].translations) == 30
