"""How a run translates: what its config says, what `--set` says, and what a flag says; and several runs together."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kinds import Tfm
from sealed import reseal, set_config
from transformer_cli.config.load import load_config
from transformer_cli.inspection import plots

SENTENCE = "Der alte Hund singt im Park."
SAMPLE = ("--set", "decoding.sample=true", "--set", "decoding.temperature=4", "--set", "decoding.seed=3")


@pytest.fixture
def beamed(workspace: Path) -> Path:
    """A working folder whose run keeps a beam of 3 in its config."""
    config = load_config(workspace / "runs/tiny/config.yaml", ["decoding.beam_size=3"])
    set_config(workspace / "runs/tiny", config)
    return workspace


def n_best(tfm: Tfm, cwd: Path, *arguments: object) -> tuple[int, str]:
    """The number of translations of a sentence, or 0, and what stands on standard error."""
    code, out, err = tfm("translate", *arguments, SENTENCE, cwd=cwd)
    assert (code == 0) == (err == "")
    return out.count("\n"), err


def test_a_flag_goes_before_set_and_set_before_the_runs_config(tfm: Tfm, project: Path, beamed: Path) -> None:
    assert n_best(tfm, project, "--n-best", 1) == (1, "")
    assert n_best(tfm, beamed, "--n-best", 3) == (3, "")
    assert n_best(tfm, beamed, "--n-best", 4, "--set", "decoding.beam_size=4") == (4, "")
    assert n_best(tfm, beamed, "--n-best", 5, "--set", "decoding.beam_size=4", "--beam-size", 5) == (5, "")
    for arguments in ((), ("--set", "decoding.beam_size=4"), ("--set", "decoding.beam_size=8", "--beam-size", 4)):
        count, err = n_best(tfm, beamed, "--n-best", 5, *arguments)
        assert (count, err.count("\n")) == (0, 1)
        assert err.startswith(f"tfm: error: --n-best 5: a beam of {4 if arguments else 3} does not hold so many")


@pytest.mark.parametrize("command", ["translate", "evaluate"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "decoding.beam_size=0"), "--set decoding.beam_size=0: decoding.beam_size: must be at least 1"),
        (("--set", "decoding.beam=4"), "--set decoding.beam=4: decoding.beam: unknown key; did you mean beam_size?"),
        (("--set", "model.d_model=4"), "--set model.d_model=4: only decoding.* can be set here; model.d_model is what"),
        (("--beam-size", 0), "--beam-size 0: decoding.beam_size: must be at least 1, not 0"),
        (("--beam-size", 10_000), "--beam-size 10000: decoding.beam_size: must be at most 1,000"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line(
    tfm: Tfm, project: Path, command: str, arguments: tuple[object, ...], message: str
) -> None:
    sentence = () if command == "evaluate" else (SENTENCE,)
    code, out, err = tfm(command, *arguments, *sentence, cwd=project)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"tfm: error: {message}")


def test_the_n_best_are_numbered_lines_with_a_score(tfm: Tfm, project: Path) -> None:
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
    tokens = tfm("translate", "--tokens", *options, SENTENCE, cwd=project)[1].split("\n")
    assert tokens[0].split("\t")[2].split() == found[0]["tokens"]


@pytest.mark.parametrize("search", [("--set", "decoding.beam_size=4"), SAMPLE], ids=["beam", "sample"])
def test_what_is_drawn_is_the_translation_that_is_printed(
    tfm: Tfm, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: tuple[str, ...]
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "draw_attention", lambda maps, path: drawn.extend(maps))
    found = json.loads(tfm("translate", *search, "--json", SENTENCE, cwd=project)[1])
    inspected = json.loads(tfm("inspect", *search, "--json", SENTENCE, cwd=project)[1])
    assert inspected["translation"] == found["translation"]
    assert inspected["target_tokens"] == ["<sos>", *found["tokens"]]
    options = ("--prefix", "the young", "--attention", tmp_path / "a.png", "--tokens")
    code, out, _ = tfm("translate", *search, *options, SENTENCE, cwd=project)
    assert (code, out.split()[:2]) == (0, ["the", "young"])
    assert drawn[0].target_tokens == ["<sos>", *out.split()]


def test_evaluate_judges_what_translate_prints(tfm: Tfm, project: Path, corpus: Path, tmp_path: Path) -> None:
    search = ("--beam-size", 3, "--set", "decoding.length_penalty=2")
    assert tfm("evaluate", *search, "--output", tmp_path / "texts", cwd=project)[0] == 0
    printed = tfm("translate", *search, "--input", corpus / "test.de", cwd=project)[1]
    assert (tmp_path / "texts").read_text(encoding="utf-8") == printed


def test_several_runs_translate_and_are_judged_together(tfm: Tfm, workspace: Path, tmp_path: Path) -> None:
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
        code, out, err = tfm(*command, *both, cwd=workspace)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("tfm: error: runs/tiny and runs/twin cannot translate together")
        assert "(other vocabularies)" in err
