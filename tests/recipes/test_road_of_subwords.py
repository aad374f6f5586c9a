"""The road of subwords, as a user types it: prepare, train, evaluate, translate, inspect, and on with the codecs."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from kinds import Tfm

SETTINGS = {
    "data.tokens": "subwords",
    "data.subwords.size": 350,
    "data.joint_vocabulary": "true",
    "model.tie_embeddings": "all",
    "model.max_length": 60,
    "training.epochs": 2,
    "training.batch_by": "tokens",
}


def arguments(**more: str) -> list[str]:
    return [part for key, value in (SETTINGS | more).items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def trained(tfm: Tfm, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a run of subwords. Not to be written to."""
    folder = tmp_path_factory.mktemp("subwords")
    for command in ("prepare", "train"):
        code, out, err = tfm(command, "--config", corpus / "tiny.yaml", *arguments(), cwd=folder)
        assert code == 0, err
        assert command == "train" or "one for both languages): de 350, en 350" in out
    return folder


def test_subwords_run_copied_elsewhere_translates(tfm: Tfm, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs/tiny", tmp_path / "copy")
    code, out, err = tfm("translate", "--run", "copy", "Der alte Hund singt.", " ", "漢字 <unk>", cwd=tmp_path)
    assert (code, err) == (0, "")
    first, blank, hostile = out.split("\n")[:-1]
    assert (blank, "<unk>" in first + hostile) == ("", False)
    assert first[0].isupper()  # cased, where nothing else is said


def test_subwords_tokens_of_evaluate_are_one_line_with_spaces_marked(tfm: Tfm, trained: Path) -> None:
    _, tokens, _ = tfm("evaluate", "--output", "texts", "--output-tokens", "-", cwd=trained)
    texts = (trained / "texts").read_text(encoding="utf-8").splitlines()
    assert [line.replace(" ", "").replace("▁", " ") for line in tokens.splitlines()] == [f" {each}" for each in texts]
    _, text, _ = tfm("translate", "Der alte Hund singt.", cwd=trained)
    _, out, _ = tfm("translate", "--json", "Der alte Hund singt.", cwd=trained)
    assert "".join(json.loads(out)["tokens"]) == f" {text.strip()}"


def test_subwords_evaluate_scores_words(tfm: Tfm, trained: Path) -> None:
    code, out, _ = tfm("evaluate", "--json", cwd=trained)
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


def test_subwords_codecs_of_a_run_prepare_and_train_new_text(
    tfm: Tfm, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "mine")
    own = shutil.copytree(corpus, tmp_path / "own")
    (own / "train.de").write_text((own / "train.de").read_text().replace("Hund", "Quokka"), encoding="utf-8")
    chosen = ["--config", own / "tiny.yaml", *arguments(name="new", **{"data.codec": "tiny", "training.epochs": "1"})]
    for command in ("prepare", "train", "train"):  # the second time, to find nothing left to do
        code, _, err = tfm(command, *chosen, cwd=tmp_path / "mine")
        assert code == 0, err
    models = [(tmp_path / f"mine/runs/{run}/source.subwords.model").read_bytes() for run in ("tiny", "new")]
    assert models[0] == models[1]
    shutil.rmtree(tmp_path / "mine/runs/tiny")
    code, _, err = tfm("evaluate", "--run", "new", cwd=tmp_path / "mine")  # the dataset is pinned by now
    assert code == 0, err
