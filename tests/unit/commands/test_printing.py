"""What is printed of results: dicts that JSON holds, JSON as it has always been, and tables."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_cli.commands import evaluate, inspect, prepare
from transformer_cli.commands.translate import translation_as_json
from transformer_cli.data.prepare import Prepared
from transformer_cli.evaluation.evaluate import LengthScore, Result
from transformer_cli.evaluation.metrics import Interval
from transformer_cli.inspection.numbers import Attention, Inspection, WordAttention
from transformer_cli.translator import Translation

MANIFEST: dict[str, Any] = {
    "settings": {"source": "de", "target": "en", "min_freq": 2},
    "vocabulary": {"source": 7851, "target": 5892},
    "splits": {
        "train": {
            "sentences": 29000,
            "source": {"tokens": 360634, "unknown_rate": 0.03, "longest": 44},
            "target": {"tokens": 380188, "unknown_rate": 0.01034, "longest": 41},
        }
    },
    "joins": {"valid_restored": 0.9974},
}
TRANSLATION = Translation(
    source="Ein Haus.",
    source_tokens=["ein", "haus", "."],
    text="a “house”.",
    tokens=["a", "<unk>", "."],
    log_prob=-0.5,
    score=-0.125,
    source_ids=[5, 6, 7],
    ids=[4, 0, 6],
    alignment=[0, 2, 2],
)


def result(split: str, loss: float) -> Result:
    return Result(
        split=split,
        sentences=1000,
        tokens=14000,
        loss=loss,
        loss_batch_mean=1.75,
        ppl=5.54,
        bleu=35.868,
        bleu_interval=Interval(35.9, 1.663),
        bleu_signature="nrefs:1|tok:13a",
        bleu_tokens=36.0,
        chrf=5.5,
        chrf_interval=None,
        chrf_signature="nrefs:1|nc:6",
        bleu_by_source_length=[LengthScore(0, 10, 990, 36.0), LengthScore(51, None, 10, 20.0)],
        seconds=7.64,
    )


@pytest.fixture
def inspection() -> Inspection:
    """One layer of one head, three source tokens of which one occurs twice, two target tokens."""
    source, target = ["<sos>", "ä", "ä"], ["<sos>", "b"]

    def layer(rows: list[list[float]]) -> list[Attention]:
        scores = torch.tensor([rows])
        return [Attention(scores, scores.softmax(-1))]

    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    return Inspection(
        sentence="Ä ä",
        translation="b",
        source_tokens=source,
        source_ids=[2, 0, 0],
        target_tokens=target,
        target_ids=[2, 5],
        encoder_self=layer([[0.0, 0.0, 0.0]] * 3),
        decoder_self=layer([[1.0, float("-inf")], [0.0, 0.0]]),
        cross=layer([[0.0, 0.0, 0.0]] * 2),
        without_positions=vectors,
        before=vectors,
        after=vectors,
        after_untrained=vectors,
    )


@pytest.fixture
def words() -> WordAttention:
    """Two words, the second of which attends."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    weights = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    return WordAttention(
        words=["the", "kätzchen"],
        without_vector=["on"],
        positions=[1],
        is_scaled=True,
        vectors=vectors,
        scores=torch.tensor([[0.0, 4.0]], dtype=torch.float64),
        weights=weights,
        context=weights @ vectors,
    )


def test_a_translation_is_one_line_of_json_with_its_text_unescaped() -> None:
    other = replace(TRANSLATION, text="house.", tokens=["<unk>", "."], score=-0.5, alignment=[1, 2])
    assert translation_as_json(replace(TRANSLATION, alternatives=[other])) == (
        '{"source": "Ein Haus.", "translation": "a “house”.", "tokens": ["a", "<unk>", "."], "log_prob": -0.5, '
        '"score": -0.125, "alignment": "0-0 2-1 2-2", "source_tokens": ["ein", "haus", "."], "alternatives": '
        '[{"translation": "house.", "tokens": ["<unk>", "."], "log_prob": -0.5, "score": -0.5, '
        '"alignment": "1-0 2-1"}]}'
    )


def test_results_are_the_runs_folder_and_the_fields_of_each() -> None:
    (found,) = json.loads(evaluate.results_as_json([Path("runs/mine")], [result("test", 1.7)]))["results"]
    assert found == asdict(result("test", 1.7))
    assert found["bleu_interval"] == {"mean": 35.9, "half_width": 1.663}
    assert found["bleu_by_source_length"][1] == {"shortest": 51, "longest": None, "sentences": 10, "bleu": 20.0}
    text = evaluate.results_as_json([Path("runs/mine")], [])
    assert text == '{"run": "runs/mine", "results": []}'
    ensemble = evaluate.results_as_json([Path("runs/mine"), Path("runs/yours")], [])
    assert ensemble == '{"run": "runs/mine", "others": ["runs/yours"], "results": []}'


def test_a_folder_whose_name_is_no_utf_8_can_be_printed() -> None:
    text = evaluate.results_as_json([Path("runs/\udcff")], [])
    assert text.encode("utf-8") == b'{"run": "runs/\\udcff", "results": []}'


def test_results_are_tables_with_one_line_per_split() -> None:
    middle = replace(result("valid-set", 12.0), bleu_by_source_length=[LengthScore(11, 15, 1000, 35.868)])
    assert evaluate.results_as_table([result("test", 1.71249), middle]).split("\n") == [
        "split      sentences    loss    PPL  loss (batch mean)          BLEU  BLEU (tokens)  chrF  seconds",
        "test           1,000   1.712  5.540              1.750  35.87 ± 1.66          36.00  5.50      7.6",
        "valid-set      1,000  12.000  5.540              1.750  35.87 ± 1.66          36.00  5.50      7.6",
        "± half of the 95 % bootstrap interval",
        "",
        "BLEU by source length         0–10          11–15  51 and more",
        "test                   36.00 (990)                  20.00 (10)",
        "valid-set                           35.87 (1,000)",
        "",
        "BLEU nrefs:1|tok:13a",
        "chrF nrefs:1|nc:6",
    ]
    assert "±" not in evaluate.results_as_table([replace(middle, bleu_interval=None, chrf_interval=None)])


def test_a_prepared_dataset_is_a_table() -> None:
    prepared = Prepared(Path("data/mine"), MANIFEST, created=True)
    assert prepare.prepared_as_table(prepared).split("\n") == [
        "data/mine",
        "split  sentences  side   tokens  unknown  longest",
        "train     29,000    de  360,634    3.00%       44",
        "train     29,000    en  380,188    1.03%       41",
        "vocabulary (min_freq 2): de 7,851, en 5,892",
        "validation references that come back exactly from their tokens: 99.7%",
    ]


def test_an_inspection_is_numbers_and_null_where_nothing_may_be_attended_to(inspection: Inspection) -> None:
    maps = inspection.maps(["decoder"])
    text = json.dumps(inspection.as_record(maps), ensure_ascii=False, allow_nan=False)
    found = json.loads(text)
    (head,) = found["attention"]
    assert (head["kind"], head["layer"], head["head"]) == ("decoder", 1, 1)
    assert (head["scores"], head["weights"]) == ([[1.0, None], [0.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]])
    vectors = [[1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]
    assert found["vectors"] == {"without_positions": vectors, "before": vectors, "after": vectors}
    assert [(pair["token"], pair["positions"], pair["after"]) for pair in found["repetitions"]] == [("ä", [1, 2], 1.0)]
    assert text.startswith('{"source": "Ä ä", "translation": "b", "source_tokens": ["<sos>", "ä", "ä"], "source_ids": ')


def test_word_vectors_are_numbers_or_a_table_of_weights(words: WordAttention) -> None:
    text = inspect.words_as_json(words)
    assert json.loads(text) == {
        "words": ["the", "kätzchen"],
        "without_vector": ["on"],
        "queries": ["kätzchen"],
        "scores": [[0.0, 4.0]],
        "weights": [[0.25, 0.75]],
        "vectors": [[1.0, 0.0], [0.0, 2.0]],
        "context_vectors": [[0.25, 1.5]],
    }
    assert text.startswith('{"words": ["the", "kätzchen"], "without_vector": ["on"], "queries": ["kätzchen"], ')
    assert inspect.words_as_table(words) == "           the  kätzchen\nkätzchen  0.25      0.75"
