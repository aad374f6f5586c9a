"""`tfm compare` as it is typed: single systems, and several runs of each recipe."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from transformer_cli.commands.compare import CAUTION, RECIPE_CAUTION
from transformer_cli.evaluation import statistics

Tfm = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _few_shuffles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SHUFFLES", 200)


@pytest.fixture
def files(corpus: Path, tmp_path: Path) -> Path:
    """A folder with a reference, r, and four translations of it, a to d."""
    lines = (corpus / "test.en").read_text("utf-8").split("\n")[:-1]
    for name, step in (("r", 99), ("a", 4), ("b", 5), ("c", 6), ("d", 7)):
        written = ["nothing" if row % step == 3 else line for row, line in enumerate(lines)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return tmp_path


def test_files_are_compared_with_the_first(tfm: Tfm, files: Path) -> None:
    code, out, err = tfm("compare", "a", "b", "c", "--reference", "r", "--examples", "1", cwd=files)
    assert (code, err) == (0, "")
    assert out.startswith("r: 30 sentences\n\nBLEU")
    assert out.endswith(
        "\n(4 differences share the level of 0.05, by Holm: the smallest p must be below 0.05 / 4, the next one below "
        f"0.05 / 3, …)\n\n{CAUTION}\n"
    )
    assert out.count("chrF 100.0 → ") + out.count(" → 100.0") == 2
    code, out, _ = tfm("compare", "a", "b", "--reference", "r", "--json", cwd=files)
    (found,) = json.loads(out)["comparisons"]
    assert ([each["name"] for each in found["systems"]], found["sentences"]) == (["a", "b"], 30)
    assert (found["judges"], len(found["bleu_signatures"])) == ("weights", 2)
    first, second = (each["bleu"] for each in found["systems"])
    assert first.keys() == second.keys() == {"score", "interval", "difference"}
    assert (first["interval"].keys(), first["difference"]) == ({"mean", "half_width"}, None)
    assert second["difference"].keys() == {"points", "p_bootstrap", "p_randomization"}
    assert len(found["systems"][1]["examples"]) == 3
    assert len(found["systems"][1]["examples"][0]["translations"]) == 2


def test_commas_join_the_runs_of_a_recipe(tfm: Tfm, files: Path) -> None:
    code, out, err = tfm("compare", "a,b", "c,d", "--reference", "r", cwd=files)
    assert (code, err) == (0, "")
    assert "\n2 and 2 runs cannot tell c,d and a,b apart: " in out
    assert out.endswith(f"\n\n{RECIPE_CAUTION}\n")
    code, out, _ = tfm("compare", "a,b", "c,d", "--reference", "r", "--json", cwd=files)
    (found,) = json.loads(out)["comparisons"]
    assert ([each["runs"] for each in found["recipes"]], found["judges"]) == ([["a", "b"], ["c", "d"]], "recipes")
    code, out, err = tfm("compare", "a,b", "c", "--reference", "r", cwd=files)
    assert (code, out, err[:34]) == (1, "", "tfm: error: c: one run has no spre")


def test_a_name_with_a_comma_in_it_is_one_name(tfm: Tfm, files: Path) -> None:
    shutil.copy(files / "b", files / "b,c")
    code, out, _ = tfm("compare", "a", "b,c", "--reference", "r", cwd=files)
    assert code == 0
    assert out.endswith(f"{CAUTION}\n")


def test_runs_are_compared_on_their_test_set(tfm: Tfm, project: Path) -> None:
    code, out, _ = tfm("compare", "tiny", "runs/tiny", "--split", "test", "--device", "cpu", cwd=project)
    assert code == 0
    assert "runs/tiny and tiny have equal scores: 30 sentences show no difference at all\n" in out
