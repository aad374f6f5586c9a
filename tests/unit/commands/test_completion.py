"""Shell completion: the names offered, and the protocol of the shells."""

from pathlib import Path

import pytest

from kinds import Tfm
from tables import read_table
from transformer_cli.commands import suggestions


def test_completion_of_set_offers_every_setting() -> None:
    offered = suggestions.settings()
    assert {"name=", "data.corpus=", "data.min_freq=", "model.vectors.target=", "training.epochs="} <= {*offered}
    assert all(each.endswith("=") for each in offered)


@pytest.mark.parametrize(("line", "expected"), read_table(Path(__file__).with_name("completions.txt")))
def test_completion_in_bash_completes_the_last_word(tfm: Tfm, project: Path, line: str, expected: str) -> None:
    words = line.replace("…", "").split(" ")
    asked = {"_TFM_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(["tfm", *words]), "COMP_CWORD": len(words)}
    code, out, err = tfm(cwd=project, environment=asked)
    assert (code, out.split(), err) == (0, expected.split(), "")


def test_completion_script_of_bash_calls_tfm(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm(cwd=tmp_path, environment={"_TFM_COMPLETE": "source_bash"})
    assert (code, err) == (0, "")
    assert "_TFM_COMPLETE=complete_bash" in out
    assert out.rstrip().endswith(" tfm")
