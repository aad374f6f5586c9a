"""How a run translates: settings that cannot be, the n best, and what is drawn; and several runs together."""

import json
import shutil
from pathlib import Path

import pytest

from kinds import Refused, Tfm
from sealed import reseal

SENTENCE = "Der alte Hund singt im Park."
SAMPLE = ("--set", "decoding.sample=true", "--set", "decoding.temperature=4", "--set", "decoding.seed=3")


def test_translate_n_best_are_numbered_lines_with_a_score(tfm: Tfm, project: Path) -> None:
    options = ("--beam-size", 4, "--n-best", 2)
    code, out, _ = tfm("translate", *options, SENTENCE, " ", "Hund", cwd=project)
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert (code, [row[0] for row in rows]) == (0, ["1", "1", "2", "3", "3"])
    assert rows[2] == ["2", "0.0000", ""]
    found = [
        json.loads(line)
        for line in tfm("translate", "--json", *options, SENTENCE, " ", "Hund", cwd=project)[1].split("\n")[:-1]
    ]
    assert [(each["source"], len(each["alternatives"])) for each in found] == [(SENTENCE, 1), (" ", 0), ("Hund", 1)]
    written = [each for line in found for each in (line, *line["alternatives"])]
    assert [row[1:] for row in rows] == [[f"{each['score']:.4f}", each["translation"]] for each in written]


@pytest.mark.parametrize("search", [("--set", "decoding.beam_size=4"), SAMPLE], ids=["beam", "sample"])
def test_inspect_looks_into_the_translation_that_is_printed(tfm: Tfm, project: Path, search: tuple[str, ...]) -> None:
    found = json.loads(tfm("translate", *search, "--json", SENTENCE, cwd=project)[1])
    inspected = json.loads(tfm("inspect", *search, "--json", SENTENCE, cwd=project)[1])
    assert inspected["translation"] == found["translation"]
    assert inspected["target_tokens"] == ["<sos>", *found["tokens"]]


def test_translate_and_evaluate_take_several_runs(tfm: Tfm, refused: Refused, workspace: Path, tmp_path: Path) -> None:
    shutil.copytree(workspace / "runs/tiny", workspace / "runs/twin")
    both = ("--run", "tiny", "--run", "twin")
    assert tfm("translate", *both, SENTENCE, cwd=workspace) == tfm("translate", SENTENCE, cwd=workspace)
    alone, together = (
        json.loads(tfm("evaluate", "--json", *runs, cwd=workspace)[1]) for runs in (("--run", "tiny"), both)
    )
    assert (together["run"], together["others"]) == ("runs/tiny", ["runs/twin"])
    assert "others" not in alone
    for key in ("loss", "loss_batch_mean", "bleu"):
        assert together["results"][0][key] == pytest.approx(alone["results"][0][key], rel=1e-5)
    (workspace / "runs/twin/target.vocab.txt").write_text("<unk>\n<pad>\n<sos>\n<eos>\n", encoding="utf-8")
    reseal(workspace / "runs/twin")
    for command in (("translate", SENTENCE), ("evaluate",)):
        err = refused(*command, *both, cwd=workspace)
        assert err.startswith("tfm: error: runs/tiny and runs/twin cannot translate together")
        assert "(other vocabularies)" in err
