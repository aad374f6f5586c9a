"""Shell completion: the names offered, and the protocol of the shells."""

from pathlib import Path

import pytest

from kinds import Tfm
from transformer_cli.commands import suggestions


def test_completion_of_set_offers_every_setting() -> None:
    offered = suggestions.settings("")
    assert {"name=", "data.corpus=", "data.min_freq=", "model.vectors.target=", "training.epochs="} <= {*offered}
    assert all(each.endswith("=") for each in offered)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        *((("tr",), ["train", "translate"]), (("evaluate", "--run", ""), ["tiny"]), (("curves", ""), ["tiny"])),
        *((("config", "de"), ["demo", "demo-captions"]), (("train", "--config", "sub"), ["subwords"])),
        *((("train", "--config", "configs/"), []), (("export", ""), ["tiny"]), (("compare", ""), ["tiny"])),
        (("evaluate", "--split", "t"), ["test", "train"]),
        (("train", "--set", "training.batch_"), [f"training.batch_{end}=" for end in ("size", "by", "order")]),
        (("evaluate", "--set", "decoding.top"), ["decoding.top_k=", "decoding.top_p="]),
        (("evaluate", "--set", "training."), []),
        (("inspect", "--attention", ""), ["encoder", "decoder", "cross"]),
        (("translate", "--input", "t"), []),
        (("evaluate", "--run", "elsewhere/"), []),
    ],
    ids=str,
)
def test_completion_in_bash_completes_the_last_word(
    tfm: Tfm, project: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    asked = {"_TFM_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(["tfm", *words]), "COMP_CWORD": len(words)}
    code, out, err = tfm(cwd=project, environment=asked)
    assert (code, out.split(), err) == (0, expected, "")


def test_completion_script_of_bash_calls_tfm(tfm: Tfm, tmp_path: Path) -> None:
    code, out, err = tfm(cwd=tmp_path, environment={"_TFM_COMPLETE": "source_bash"})
    assert (code, err) == (0, "")
    assert "_TFM_COMPLETE=complete_bash" in out
    assert out.rstrip().endswith(" tfm")
