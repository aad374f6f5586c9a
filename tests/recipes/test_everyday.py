"""The everyday road, as a user types it: prepare, train, evaluate, translate; and what a user sees of files."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from kinds import Refused, Tfm
from outcomes import power_cut
from sealed import edit_sealed
from transformer_cli.runs.finding import find_run

RESULT_KEYS = {
    *("split", "sentences", "tokens", "loss", "loss_batch_mean", "ppl", "bleu", "bleu_signature"),
    *("bleu_tokens", "chrf", "chrf_signature", "seconds", "bleu_interval", "chrf_interval"),
    *("extra_metrics", "terms", "terms_kept", "brevity_penalty", "length_ratio", "precisions"),
}
INSPECTION_KEYS = {
    *("source", "translation", "source_tokens", "source_ids", "target_tokens", "target_ids"),
    *("attention", "vectors", "repetitions"),
}
WORDS_KEYS = {"words", "without_vector", "queries", "scores", "weights", "vectors", "context_vectors"}


def test_prepare_again_prints_json_and_makes_nothing(tfm: Tfm, corpus: Path, workspace: Path) -> None:
    (folder,) = (workspace / "data").iterdir()
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    code, out, err = tfm("prepare", "--config", corpus / "tiny.yaml", "--json", cwd=workspace)
    assert (code, json.loads(out)) == (0, json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    assert "already prepared" in err
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_translate_by_a_run_copied_elsewhere_needs_no_data(tfm: Tfm, workspace: Path, tmp_path: Path) -> None:
    sentence = "Der alte Hund singt im Park."
    expected = tfm("translate", sentence, cwd=workspace)
    moved = Path(shutil.copytree(workspace / "runs/tiny", tmp_path / "elsewhere/mine"))
    shutil.rmtree(workspace)
    assert tfm("translate", "--run", moved, sentence, cwd=tmp_path) == expected
    assert tfm("translate", "--run", "mine", sentence, cwd=moved.parent) == expected


def test_evaluate_split_and_the_same_files_are_equal(tfm: Tfm, corpus: Path, project: Path) -> None:
    files = ("--input", corpus / "test.de", "--reference", corpus / "test.en")
    answers = [tfm("evaluate", "--json", *choice, cwd=project) for choice in ((), files)]
    assert [code for code, _, _ in answers] == [0, 0]
    by_split, by_files = (json.loads(out)["results"][0] for _, out, _ in answers)
    assert by_split.keys() == RESULT_KEYS
    assert by_split["bleu_interval"].keys() == {"mean", "half_width"}
    assert (by_split["sentences"], by_split["bleu"] > 30) == (30, True)
    assert (by_split.pop("split"), by_files.pop("split")) == ("test", "test.de")
    assert by_split.pop("seconds") * by_files.pop("seconds") > 0
    assert by_split == by_files


def test_evaluate_writes_each_named_split_once(tfm: Tfm, corpus: Path, project: Path, tmp_path: Path) -> None:
    texts, tokens = tmp_path / "texts", tmp_path / "tokens"
    splits = ("--split", "test", "--split", "valid", "--split", "test")
    search = ("--beam-size", 3, "--set", "decoding.length_penalty=2")
    code, out, _ = tfm("evaluate", *search, *splits, "--output", texts, "--output-tokens", tokens, cwd=project)
    assert code == 0
    assert [row.split()[:2] for row in out.split("\n")[1:3]] == [["test", "30"], ["valid", "40"]]
    command = ("translate", *search, "--json", "--input")
    answers = [tfm(*command, corpus / f"{split}.de", cwd=project) for split in splits[1:4:2]]
    assert [code for code, _, _ in answers] == [0, 0], answers
    found = [json.loads(line) for _, out, _ in answers for line in out.splitlines()]
    assert texts.read_text(encoding="utf-8") == "".join(f"{each['translation']}\n" for each in found)
    assert tokens.read_text(encoding="utf-8") == "".join(f"{' '.join(each['tokens'])}\n" for each in found)
    assert "<unk>" in tokens.read_text(encoding="utf-8")
    assert "<unk>" not in texts.read_text(encoding="utf-8")


def test_inspect_writes_a_picture_and_numbers(tfm: Tfm, workspace: Path) -> None:
    sentence = "Der alte Hund singt im Park."
    translation = tfm("translate", sentence, cwd=workspace)[1]
    assert tfm("inspect", sentence, cwd=workspace) == (0, f"{translation}inspect.png\n", "")
    assert (workspace / "inspect.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert tfm("inspect", "--on-too-long", "truncate", "--text", sentence + " Hund" * 10, cwd=workspace)[0] == 0
    code, out, err = tfm("inspect", sentence, "--text", cwd=workspace)
    assert (code, err) == (0, "")
    assert out.startswith(translation)
    assert "encoder–decoder attention, layer 1" in out
    assert "██" in out
    code, out, _ = tfm("inspect", sentence, "--json", "--attention", "decoder", "--head", "2", cwd=workspace)
    found = json.loads(out)
    assert (code, found.keys()) == (0, INSPECTION_KEYS)
    assert f"{found['translation']}\n" == translation
    (attention,) = found["attention"]
    assert [attention[key] for key in ("kind", "layer", "head")] == ["decoder", 1, 2]
    n_target = len(found["target_tokens"])
    assert attention["scores"][0][1:] == [None] * (n_target - 1)  # the first position may not see the later ones
    assert attention["weights"][0] == [1.0] + [0.0] * (n_target - 1)
    assert [*found["vectors"]] == ["without_positions", "before", "after"]


def test_inspect_vectors_needs_no_run(tfm: Tfm, tmp_path: Path) -> None:
    (tmp_path / "my.vec").write_text("the 1 0 0\ncat 0 2 0\nmat 0 0 2\n", encoding="utf-8")
    command = ("inspect", "--vectors", "my.vec", "The cat on the mat")
    code, out, err = tfm(*command, "--scale", "none", cwd=tmp_path)
    assert (code, err) == (0, "warning: my.vec: no vector for on; left out\n")
    assert out.split("\n") == [
        "      The   cat   the   mat",
        "The  0.37  0.13  0.37  0.13",  # e, 1, e, 1 over 2e + 2
        "cat  0.02  0.95  0.02  0.02",  # 1, e⁴, 1, 1 over e⁴ + 3
        "the  0.37  0.13  0.37  0.13",
        "mat  0.02  0.02  0.02  0.95",
        "inspect.png",
        "",
    ]
    assert (tmp_path / "inspect.png").read_bytes().startswith(b"\x89PNG\r\n")
    code, out, _ = tfm(*command, "--query", "cat", "--json", cwd=tmp_path)
    found = json.loads(out)
    assert (code, found.keys()) == (0, WORDS_KEYS)
    assert found["words"] == ["The", "cat", "the", "mat"]
    assert (found["without_vector"], found["queries"]) == (["on"], ["cat"])
    assert found["scores"] == [[0.0, pytest.approx(4 / 3**0.5), 0.0, 0.0]]


def test_curves_are_drawn_on_demand(tfm: Tfm, workspace: Path) -> None:
    assert tfm("curves", cwd=workspace) == (0, "curves.png\n", "")
    assert (workspace / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert tfm("curves", "tiny", "--output", "other.svg", cwd=workspace) == (0, "other.svg\n", "")
    assert (workspace / "other.svg").exists()
    refused = "tfm: error: other.jpg: unknown picture format; use a name that ends in .svg, .pdf or .png\n"
    for command in (("curves", "--output"), ("inspect", "a", "--output")):
        assert tfm(*command, "other.jpg", cwd=workspace) == (1, "", refused)


@pytest.mark.parametrize("command", [("translate", "Der alte Hund singt."), ("inspect", "Hund", "--json")])
def test_translate_warns_of_another_tokenizer_version(tfm: Tfm, workspace: Path, command: tuple[str, ...]) -> None:
    assert "tokenised its training text" not in tfm(*command, cwd=workspace)[2]
    made_by = {"library": "spacy", "version": "0.0.18"}
    edit_sealed(workspace / "runs/tiny/run.json", lambda value: value.update(tokenizer=made_by))
    code, _, err = tfm(*command, cwd=workspace)
    assert code == 0
    assert err.startswith("warning: runs/tiny: spacy 0.0.18 tokenised its training text, but ")
    assert err.endswith("`pip install spacy==0.0.18` if that matters\n")


def test_edited_config_is_used_where_it_may_change(tfm: Tfm, refused: Refused, workspace: Path) -> None:
    path = workspace / "runs/tiny/config.yaml"
    path.write_text(path.read_text().replace("beam_size: 1", "beam_size: 3"))
    code, _, err = tfm("translate", "--n-best", "3", "Der alte Hund singt.", cwd=workspace)
    assert (code, err) == (0, "")
    path.write_text(path.read_text().replace("num_heads: 2", "num_heads: 4"))
    said = "settings of the run have been changed (model.num_heads: 2 → 4); put the old ones back"
    assert said in refused("translate", "Hallo", cwd=workspace)


def test_latest_names_a_run_with_a_checkpoint(tfm: Tfm, corpus: Path, workspace: Path) -> None:
    train = ("train", "--config", corpus / "tiny.yaml", "--set")
    (workspace / "runs/tiny.old-1").mkdir()  # this name is taken
    with power_cut(workspace, "step-0000013-unvalidated"):  # before the first save
        tfm(*train, "name=begun", cwd=workspace)
    assert find_run(None, workspace / "runs").name == "tiny"
    with power_cut(workspace, "step-0000013-unvalidated"):
        tfm(*train, "training.seed=1", "--fresh", cwd=workspace)
    assert find_run(None, workspace / "runs").name == "tiny.old-2"  # it was moved, and is still what there is to use
    assert tfm(*train, "training.epochs=1", "--set", "name=begun", cwd=workspace)[0] == 0
    assert find_run(None, workspace / "runs").name == "begun"


def test_curves_of_a_damaged_history_are_refused(refused: Refused, workspace: Path) -> None:
    path = workspace / "runs/tiny/history.jsonl"
    first, *rest = path.read_text().splitlines()
    for line in ("{}", first.replace('"epoch": 1', '"epoch": 5'), first.replace('"train_loss": ', '"train_loss": 1')):
        path.write_text("\n".join([line, *rest, ""]))
        said = "runs/tiny/history.jsonl: damaged: its first 6 lines are not those that were saved; restore it"
        assert said in refused("curves", cwd=workspace)


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


def test_evaluate_subwords_scores_words(tfm: Tfm, trained: Path) -> None:
    code, out, _ = tfm("evaluate", "--json", "--output", "texts", "--output-tokens", "tokens", cwd=trained)
    texts, tokens = ((trained / name).read_text(encoding="utf-8").splitlines() for name in ("texts", "tokens"))
    assert [line.replace(" ", "").replace("▁", " ") for line in tokens] == [f" {each}" for each in texts]
    (result,) = json.loads(out)["results"]
    assert code == 0
    assert "case:mixed" in result["bleu_signature"]
    assert result["bleu_tokens"] == pytest.approx(result["bleu"])  # spaCy and 13a cut this text in the same places


def test_subwords_inspect_shows_a_space_as_a_space(tfm: Tfm, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr("transformer_cli.adapters.study.plots.save", lambda figure, path: drawn.append(figure))
    code, _, err = tfm("inspect", "Der 漢 alte", "--attention", "encoder", "--output", "picture.png", cwd=trained)
    assert (code, err) == (0, "")
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert labels[:2] == ["<sos>", " Der"]
    assert "".join(labels[1:-1]) == " Der <0xE6><0xBC><0xA2> alte"
