"""data.tokens: spaces by the commands: train, resume, translate and score text that another program has cut."""

import json
import shutil
from pathlib import Path

import pytest
import sacrebleu

from kinds import Refused, Tfm


def cut(line: str, joiner: str) -> str:
    """A line whose long words are cut after two letters; "." is a word."""
    words = line.replace(".", " .").split()
    parts = [[word[:2], word[2:]] if len(word) > 4 else [word] for word in words]
    if joiner == "@@":
        return " ".join("@@ ".join(each) for each in parts)
    return " ".join(f"▁{' '.join(each)}" for each in parts)


@pytest.mark.parametrize("joiner", ["@@", "▁"])
def test_text_that_is_cut_is_trained_on_and_scored_as_joined_text(
    joiner: str, corpus: Path, tmp_path: Path, tfm: Tfm, refused: Refused
) -> None:
    for path in (*corpus.glob("*.de"), *corpus.glob("*.en")):
        lines = [cut(line, joiner) for line in path.read_text(encoding="utf-8").splitlines()]
        (tmp_path / path.name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shutil.copy(corpus / "tiny.yaml", tmp_path)
    cut_text = ("data.tokens=spaces", f"data.joiner='{joiner}'", "model.max_length=32")
    settings = (*cut_text, "training.best_checkpoint_metric=bleu")
    given = ("--config", "tiny.yaml", *(word for each in settings for word in ("--set", each)))
    code, _, err = tfm("prepare", *given, cwd=tmp_path)
    assert (code, "warning" in err) == (0, False), err
    assert tfm("train", *given, "--set", "training.epochs=3", cwd=tmp_path)[0] == 0
    assert tfm("train", *given, cwd=tmp_path)[0] == 0  # resumed
    code, out, _ = tfm("translate", "--input", "test.de", cwd=tmp_path)
    assert code == 0
    assert joiner not in out
    references = [line.replace(".", " .") for line in (corpus / "test.en").read_text(encoding="utf-8").splitlines()]
    expected = sacrebleu.corpus_bleu(out.splitlines(), [references], force=True).score
    assert expected > 30
    table = tfm("evaluate", "--json", cwd=tmp_path)[1]
    assert json.loads(table)["results"][0]["bleu"] == pytest.approx(expected)
    said = "data.tokens: spaces cannot be exported, only words or subwords; use the run itself"
    assert refused("export", cwd=tmp_path).endswith(said)
