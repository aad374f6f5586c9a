"""Arguments that are not UTF-8, or have escape codes and line feeds."""

from pathlib import Path

import pytest

from kinds import Tfm

TEXT = "a\udc9b\udc80é\x1b]0;a\x07\n\x9b2J"


@pytest.mark.parametrize(
    "command",
    [
        *("{}", "translate --run {} Hund", "translate --set {} Hund", "translate --prefix {} Hund"),
        *("compare {} {} --reference {}", "serve --port 0 --host {}", "prepare --multi30k-dir {}"),
        "train --set name={}",
    ],
)
def test_hostile_argument_is_refused_without_control_codes(tfm: Tfm, project: Path, command: str) -> None:
    code, out, err = tfm(*(part.replace("{}", TEXT) for part in command.split(" ")), cwd=project)
    assert out == ""
    assert code in (1, 2)
    assert err
    assert "defect" not in err
    if code == 1:
        assert err.startswith("tfm: error: ")
        assert err.count("\n") == 1
        assert err.removesuffix("\n").isprintable()


@pytest.mark.parametrize("command", ["translate", "translate Hund", "inspect", "inspect --vectors a.vec"])
def test_translate_sentence_not_utf8_is_refused(tfm: Tfm, project: Path, command: str) -> None:
    code, out, err = tfm(*command.split(" "), "Hund \udcff", cwd=project)
    assert (code, out) == (1, "")
    assert err.endswith(": character 6 is the byte 0xff, which is not UTF-8; give it in UTF-8\n")


def test_prepare_file_whose_name_is_not_utf8_is_refused(tfm: Tfm, tmp_path: Path) -> None:
    code, _, err = tfm("prepare", "m\udcfcller.tsv", "--source", "de", "--target", "en", cwd=tmp_path)
    assert (code, "m\\xfcller.tsv: its name has bytes that are not UTF-8; rename it" in err) == (1, True)


def test_picture_with_non_utf8_name_is_written(tfm: Tfm, workspace: Path) -> None:
    code, _, err = tfm("inspect", "--output", "a\udcff.png", "Hund", cwd=workspace)
    assert code == 0, err
    assert (workspace / "a\udcff.png").stat().st_size > 1000
