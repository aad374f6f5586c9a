"""`tfm compare`: single systems, several runs of each recipe, and the printed tables."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kinds import Tfm
from tables import read_sections
from transformer_cli.adapters.study.compare import Comparison, Example, System
from transformer_cli.adapters.study.statistics import Difference, GroupDifference, GroupScore, PairedScore
from transformer_cli.commands.evaluation import GROUP_CAUTION, WEIGHTS_CAUTION, comparisons_as_table
from transformer_cli.commands.tables import Column, TableFormat, plus_minus, render_table
from transformer_cli.scoring.metrics import Interval

pytestmark = pytest.mark.usefixtures("few_samples")
PRINTED = {  # table by name
    name: table.replace("{WEIGHTS_CAUTION}", WEIGHTS_CAUTION).replace("{GROUP_CAUTION}", GROUP_CAUTION)
    for name, table in read_sections(Path(__file__).with_name("printed_tables.txt")).items()
}


@pytest.fixture
def files(corpus: Path, tmp_path: Path) -> Path:
    """A folder with a reference, r, and four translations of it, a to d."""
    lines = (corpus / "test.en").read_text("utf-8").split("\n")[:-1]
    for name, step in (("r", 99), ("a", 4), ("b", 5), ("c", 6), ("d", 7)):
        written = ["nothing" if row % step == 3 else line for row, line in enumerate(lines)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return tmp_path


def test_compare_files_compares_each_with_the_first(tfm: Tfm, files: Path) -> None:
    code, out, err = tfm("compare", "a", "b", "c", "--reference", "r", "--examples", "1", cwd=files)
    assert (code, err) == (0, "")
    assert out.startswith("r: 30 sentences\n\nBLEU")
    assert out.endswith(
        "\n(4 tests at the level of 0.05 with Holm's correction: the smallest p must be below 0.05 / 4, the next one "
        f"below 0.05 / 3, …)\n\n{WEIGHTS_CAUTION}\n"
    )
    assert out.count("chrF 100.0 → ") + out.count(" → 100.0") == 2
    code, out, _ = tfm("compare", "a", "b", "--reference", "r", "--json", cwd=files)
    (found,) = json.loads(out)["comparisons"]
    assert ([each["name"] for each in found["systems"]], found["sentences"]) == (["a", "b"], 30)
    assert (found["compares"], len(found["signatures"]["BLEU"])) == ("systems", 2)
    first, second = (each["bleu"] for each in found["systems"])
    assert first.keys() == second.keys() == {"score", "interval", "difference"}
    assert (first["interval"].keys(), first["difference"]) == ({"mean", "half_width"}, None)
    assert second["difference"].keys() == {"points", "p_bootstrap", "p_randomization"}
    assert len(found["systems"][1]["examples"]) == 3
    assert len(found["systems"][1]["examples"][0]["translations"]) == 2


def test_compare_commas_join_runs_of_a_recipe(tfm: Tfm, files: Path) -> None:
    code, out, err = tfm("compare", "a,b", "c,d", "--reference", "r", cwd=files)
    assert (code, err) == (0, "")
    assert "\n2 and 2 runs cannot tell c,d and a,b apart: " in out
    assert out.endswith(f"\n\n{GROUP_CAUTION}\n")
    code, out, _ = tfm("compare", "a,b", "c,d", "--reference", "r", "--json", cwd=files)
    (found,) = json.loads(out)["comparisons"]
    assert ([each["name"] for each in found["groups"]], found["compares"]) == (["a,b", "c,d"], "groups")


def test_compare_single_recipe_prints_mean_and_deviation(tfm: Tfm, files: Path) -> None:
    code, out, err = tfm("compare", "a,b,c", "--reference", "r", cwd=files)
    assert (code, err) == (0, "")
    assert out.count(" ± ") == 4  # two headings, two figures
    assert out.rstrip("\n").split("\n")[-1].startswith("chrF nrefs:1")
    assert "better" not in out
    assert GROUP_CAUTION not in out


def test_compare_with_several_references_and_metrics(tfm: Tfm, files: Path) -> None:
    references = ("--reference", "r", "--reference", "d")
    code, out, err = tfm("compare", "a", "b", *references, "--metrics", "bleu,chrf++,ter", cwd=files)
    assert (code, err) == (0, "")
    for head in ("BLEU ", "chrF ", "chrF++ ", "TER "):
        assert f"\n{head}" in out
    assert "\nTER nrefs:2|ar:200|" in out
    code, out, _ = tfm("compare", "a,b", "c,r", *references, "--metrics", "ter", "--json", cwd=files)
    (found,) = json.loads(out)["comparisons"]
    assert found["groups"][1]["extra_metrics"]["ter"]["scores"][1] == 0.0  # the first reference itself
    assert found["signatures"]["ter"][0].startswith("nrefs:2|")
    (files / "short").write_text("one line\n")
    code, _, err = tfm("compare", "a", "b", "--reference", "r", "--reference", "short", cwd=files)
    assert (code, err.count("\n")) == (1, 1)
    assert "short" in err


def test_compare_existing_name_with_comma_is_one_system(tfm: Tfm, files: Path) -> None:
    shutil.copy(files / "b", files / "b,c")
    code, out, _ = tfm("compare", "a", "b,c", "--reference", "r", cwd=files)
    assert code == 0
    assert out.endswith(f"{WEIGHTS_CAUTION}\n")


def test_compare_runs_uses_their_test_set(tfm: Tfm, project: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(project / "runs/tiny", tmp_path / "copy")
    code, out, _ = tfm("compare", "tiny", copy, "--split", "valid", "--split", "test", "--device", "cpu", cwd=project)
    assert code == 0
    assert "valid: 40 sentences, greedy\n" in out
    assert f"{copy} and tiny have equal scores: 30 sentences show no difference at all\n" in out


@pytest.fixture
def comparison() -> Comparison[PairedScore]:
    """A comparison of two systems with one example."""
    interval = Interval(35.0, 1.5)
    example = Example(7, "Ein Hund.", "A dog.", ("a cat.", "a dog."), (33.33, 100.0))
    score = PairedScore(36.2, interval, Difference(1.2, 0.003, 0.00004))
    same = PairedScore(50.0, interval, Difference(0.0, None, None))
    return Comparison(
        "test",
        1000,
        "systems",
        {"BLEU": ["bleu-bs", "bleu-ar"], "chrF": ["chrf-bs", "chrf-ar"]},
        [
            System("old", PairedScore(35.0, interval, None), PairedScore(50.0, interval, None)),
            System("newer", score, same, {}, "newer is better", [example, replace(example, source=None)]),
        ],
    )


def test_compare_table_has_scores_examples_and_a_verdict(comparison: Comparison[PairedScore]) -> None:
    assert comparisons_as_table([comparison]) == PRINTED["systems"]


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_compare_tables_for_pages_have_one_column_per_metric(
    comparison: Comparison[PairedScore], form: TableFormat
) -> None:
    """The best is bold: of TER the lowest. The mark needs p < 0.05 by both tests."""
    old, newer = comparison.systems
    unsure = Difference(0.1, 0.01, 0.05)
    old.extra_metrics.update(ter=old.chrf, z=replace(old.chrf, score=-0.2))
    ter, z = (replace(old.chrf, score=score, difference=unsure) for score in (50.1, -0.1))
    newer.extra_metrics.update(ter=ter, z=z)
    comparison.signatures.update(ter=["ter-bs"], z=["z-bs"])
    assert comparisons_as_table([comparison], form).startswith(PRINTED[f"page {form}"])


def test_compare_scores_option_adds_a_metric(tfm: Tfm, files: Path) -> None:
    for name in "ab":
        (files / f"{name}.comet").write_text("".join(f"{0.5 + (name == 'b') / 10}{row:02d}\n" for row in range(30)))
    words = ("compare", "a", "b", "--reference", "r", "--scores", "COMET=a.comet,b.comet")
    code, out, err = tfm(*words, cwd=files)
    assert (code, err) == (0, "")
    assert "\n\nCOMET  score ± 95 %  difference  p (bootstrap)  p (randomisation)\na       0.51 ± " in out
    code, out, _ = tfm(*words, "--json", cwd=files)
    comet = json.loads(out)["comparisons"][0]["systems"][1]["extra_metrics"]["COMET"]
    assert (comet["score"], comet["difference"]["points"]) == pytest.approx((0.6145, 0.1))
    code, out, _ = tfm(*words, "--format", "markdown", cwd=files)
    assert out.startswith("| system | BLEU | chrF | COMET |\n")


def test_compare_table_of_recipes_has_means_and_spread() -> None:
    score = GroupScore([35.0, 36.0], 35.5, 0.7071, None)
    surer, unsure = GroupDifference(1.0, 0.25, 0.0213), GroupDifference(-1.0, None, None)
    recipes = [
        System("a1,a2", score, score),
        System("b1,b2", replace(score, difference=surer), replace(score, difference=unsure), {}, "no verdict"),
    ]
    found = Comparison("test", 30, "groups", {"BLEU": ["sig-b"], "chrF": ["sig-c"]}, recipes)
    assert comparisons_as_table([found]) == PRINTED["recipes"]


def test_compare_patterns_and_names_make_recipes(tfm: Tfm, files: Path) -> None:
    for name in "abcd":
        (files / name).rename(files / f"{'one' if name in 'ab' else 'two'}-s{name}")
    words = ("compare", "first=one-s*", "two-s*", "--reference", "r", "--format")
    code, out, err = tfm(*words, "csv", cwd=files)
    assert (code, err) == (0, "")
    heads, *rows = csv.reader(out.splitlines())
    assert heads[:5] == ["system", "BLEU runs", "BLEU mean", "BLEU mean ± SD", "BLEU difference (95 %)"]
    assert [row[0] for row in rows] == ["first", "two-s*"]
    assert float(rows[1][4]) == pytest.approx(float(rows[1][2]) - float(rows[0][2]))
    code, out, _ = tfm(*words, "latex", cwd=files)
    assert out.startswith("\\begin{tabular}{lrr}\n\\toprule\nsystem & BLEU & chrF \\\\\n\\midrule\nfirst & ")
    notes = "% r: 30 sentences\n% ± the standard deviation of the runs\n% † p < 0.05 against first "
    assert f"\\end{{tabular}}\n{notes}" in out
    assert "\n% BLEU         runs     mean ± SD  difference (95 %)  p (Welch)\n% first " in out
    code, out, _ = tfm(*words, "markdown", cwd=files)
    assert out.startswith("| system | BLEU | chrF |\n|---|--:|--:|\n| first | ")
    assert "\n| two-s* | **" in out
    assert json.loads(tfm(*words[:-1], "--json", cwd=files)[1])["comparisons"][0]["groups"][0]["name"] == "first"
    code, _, err = tfm("compare", "x=r", "x=r", "--reference", "r", cwd=files)
    assert (code, "x is named twice; give one another name" in err) == (2, True)
    code, _, err = tfm("compare", "none-*", "r", "--reference", "r", cwd=files)
    assert (code, "none-*: no run matches; runs/ has none" in err) == (1, True)


def test_compare_five_seeds_fit_80_columns() -> None:
    score = GroupScore([23.45] * 5, 23.45, 0.41, None)
    other = replace(score, difference=GroupDifference(57.17, 25.59, 0.0218))
    recipes = [System("base", score, score, search="greedy"), System("rate3", other, other, search="greedy")]
    text = comparisons_as_table([Comparison("test", 1000, "groups", {"BLEU": ["b"], "chrF": ["c"]}, recipes)])
    assert max(map(len, text.split("\n\n")[1].splitlines())) <= 80


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_render_table_in_each_format(form: TableFormat) -> None:
    columns = [
        Column("a|b", ["x&y_", "z"]),
        Column("score", [(1.0, 0.5), (2.0, None)], plus_minus),
        Column("n", [None, -4], unknown="–"),
        Column("how", ["beam", None]),
    ]
    assert render_table(columns, form, "note") == PRINTED[f"small {form}"]
