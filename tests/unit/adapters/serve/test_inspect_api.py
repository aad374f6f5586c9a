"""`POST /inspect/…`: steps, an attention map, vectors in a plane."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from served import Running, running
from transformer_cli import Translator
from transformer_cli.adapters.interop.to_ctranslate2 import export
from transformer_cli.adapters.study.inspection import Kind, inspect_translation

ASKED = {"q": "Der kleine Hund und der Hund.", "source": "de", "target": "en"}
PATHS = ("/inspect/steps", "/inspect/attention", "/inspect/vectors")


def test_inspect_steps_has_candidates_and_takes_a_prefix(served: Running, translator: Translator) -> None:
    found = served.post("/inspect/steps", **ASKED).body
    (translation,) = translator.translate_detailed([ASKED["q"]])
    assert found["translation"] == translation.text
    assert [len(step["candidates"]) for step in found["steps"]] == [10] * len(found["steps"])
    assert len(found["attention"]) == len(found["steps"])
    assert {len(row) for row in found["attention"]} == {len(found["source_tokens"])}
    assert (found["layers"], found["heads"], found["tokens"]) == ({"encoder": 1, "decoder": 1}, 2, "words")
    ids = [found["steps"][0]["written"]["id"], found["steps"][1]["candidates"][3]["id"]]
    for again in (post("/inspect/steps", **ASKED, prefix=ids).body for post in (served.post, served.post_form)):
        assert [step["written"]["id"] for step in again["steps"]][:2] == ids
        assert again["translation"] != found["translation"]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_inspect_attention_has_one_head_or_the_mean_of_all(served: Running, translator: Translator, kind: Kind) -> None:
    expected = inspect_translation(translator, translator.translate_detailed([ASKED["q"]])[0])
    heads = [each.weights for each in expected.maps([kind])]
    mean = served.post("/inspect/attention", **ASKED, kind=kind).body
    second = served.post_form("/inspect/attention", **ASKED, kind=kind, layer="1", head="2").body
    assert_close(torch.tensor(mean["weights"]), torch.stack(heads).mean(dim=0), atol=1e-4, rtol=0)
    assert_close(torch.tensor(second["weights"]), heads[1], atol=1e-4, rtol=0)
    assert (mean["kind"], mean["layer"], mean["head"], second["head"]) == (kind, 1, None, 2)
    assert mean["target_tokens"] == expected.maps([kind])[0].target_tokens


def test_inspect_vectors_has_coordinates_and_repeated_words(served: Running) -> None:
    found = served.post("/inspect/vectors", **ASKED).body
    for stage in ("before", "after"):
        assert len(found[stage]["places"]) == len(found["source_tokens"])
        assert 0 < sum(found[stage]["explained"]) <= 1 + 1e-9
    assert [each["token"] for each in found["repetitions"]] == ["der", "hund"]


def test_inspect_exported_model_returns_400_without_its_folder(translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    exported = Translator(export(translator.run.folder, tmp_path / "export").folder, device="cpu")
    with running(exported) as found:
        assert [each["inspectable"] for each in found.ask("/languages").body] == [[], []]
        for path in PATHS:
            answer = found.post(path, **ASKED, kind="cross")
            assert (answer.status, "cannot be inspected" in answer.body["error"]) == (400, True)
            assert str(tmp_path) not in answer.body["error"]
        assert found.post("/translate", **ASKED).body["translatedText"] == translator.translate([ASKED["q"]])[0]
