"""The road of subwords, as a user types it: prepare, train, evaluate, translate, inspect, and on with the codecs."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from kinds import Tfm


@pytest.fixture(scope="module")
def trained(tfm: Tfm, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a run of subwords. Not to be written to."""
    folder = tmp_path_factory.mktemp("subwords")
    joint = ("--set", "data.joint_vocabulary=true", "--set", "training.epochs=2")
    for command in ("prepare", "train"):
        code, out, err = tfm(command, "--config", corpus / "subwords.yaml", *joint, cwd=folder)
        assert code == 0, err
        assert command == "train" or "one for both languages): de 400, en 400" in out
    return folder


def test_subwords_run_copied_elsewhere_translates(tfm: Tfm, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs/tiny", tmp_path / "copy")
    code, out, err = tfm("translate", "--run", "copy", "Der alte Hund singt.", " ", "漢字 <unk>", cwd=tmp_path)
    assert (code, err) == (0, "")
    first, blank, hostile = out.split("\n")[:-1]
    assert (blank, "<unk>" in first + hostile) == ("", False)
    assert first[0].isupper()  # cased, where nothing else is said


def test_evaluate_subwords_scores_words_and_marks_spaces_of_tokens(tfm: Tfm, trained: Path) -> None:
    code, out, _ = tfm("evaluate", "--json", "--output", "texts", "--output-tokens", "tokens", cwd=trained)
    texts, tokens = ((trained / name).read_text(encoding="utf-8").splitlines() for name in ("texts", "tokens"))
    assert [line.replace(" ", "").replace("▁", " ") for line in tokens] == [f" {each}" for each in texts]
    (result,) = json.loads(out)["results"]
    assert code == 0
    assert "case:mixed" in result["bleu_signature"]
    assert result["bleu_tokens"] == pytest.approx(result["bleu"])  # spaCy and 13a cut this text in the same places


def test_subwords_inspect_shows_a_space_as_a_space(tfm: Tfm, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr("transformer_cli.inspection.plots.save", lambda figure, path: drawn.append(figure))
    code, _, err = tfm("inspect", "Der 漢 alte", "--kind", "encoder", "--output", "picture.png", cwd=trained)
    assert (code, err) == (0, "")
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert labels[:2] == ["<sos>", " Der"]
    assert "".join(labels[1:-1]) == " Der <0xE6><0xBC><0xA2> alte"
