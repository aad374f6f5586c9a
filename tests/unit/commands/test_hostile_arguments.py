"""Arguments that are not UTF-8, or hold escape codes and line feeds, in every place of every command."""

from pathlib import Path

import pytest

from kinds import Tfm

TEXTS = {"bytes": "a\udc9b\udc80é", "escape": "\x1b]0;a\x07\n\x9b2J"}
REFUSED = [
    "{}",
    "--{}",
    "translate --{}",
    "translate --input {}",
    "translate --run {} Hund",
    "translate --run runs/{} Hund",
    "translate --set {} Hund",
    "translate --set decoding.{}=1 Hund",
    "translate --set decoding.beam_size={} Hund",
    "translate --beam-size {} Hund",
    "translate --on-error {} Hund",
    "translate --device {} Hund",
    "translate --prefix {} Hund",
    "inspect --run {} Hund",
    "inspect --kind {} Hund",
    "inspect --layer {} Hund",
    "inspect --device {} Hund",
    "inspect --set {}=1 Hund",
    "inspect --vectors {} Hund",
    "inspect --vectors /no/{} Hund",
    "evaluate --run {}",
    "evaluate --split {}",
    "evaluate --set decoding.{}=1",
    "evaluate --input {} --reference {}",
    "evaluate --device {}",
    "compare {} tiny",
    "compare tiny {}",
    "compare tiny,{} tiny,tiny",
    "compare tiny tiny --split {}",
    "compare {} {} --reference {}",
    "score --input {} --target {}",
    "score --input train.de --target train.en --run {}",
    "serve --port 0 --run {}",
    "serve --port 0 --host {}",
    "serve --port {}",
    "serve --device {}",
    "curves {}",
    "export {}",
    "export tiny --quantization {}",
    "prepare --config {}",
    "prepare --config {}.yaml",
    "prepare --set {}",
    "prepare --set name={}",
    "prepare --set data.source={}",
    "prepare --set data.codec={}",
    "prepare --set data.corpus={}",
    "prepare --source-dir {}",
    "train --config {}",
    "train --set name={}",
    "train --set training.{}=1",
    "train --set training.device={}",
]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("command", REFUSED)
def test_a_hostile_argument_is_refused_in_plain_text(tfm: Tfm, project: Path, command: str, text: str) -> None:
    code, out, err = tfm(*(part.replace("{}", text) for part in command.split(" ")), cwd=project)
    assert out == ""
    assert code in (1, 2)
    assert err
    if code == 1:
        assert err.startswith("tfm: error: ")
        assert err.count("\n") == 1
        assert err.removesuffix("\n").isprintable()


@pytest.mark.parametrize("command", ["translate", "translate Hund", "inspect", "inspect --vectors a.vec"])
def test_a_sentence_that_is_not_utf_8_is_refused(tfm: Tfm, project: Path, command: str) -> None:
    code, out, err = tfm(*command.split(" "), "Hund \udcff", cwd=project)
    assert (code, out) == (1, "")
    assert err.endswith(": character 6 is the byte 0xff, which is not UTF-8; give it in UTF-8\n")


@pytest.mark.parametrize("option", ["translate --attention", "inspect --output", "curves --output"])
def test_a_picture_may_have_any_name(tfm: Tfm, workspace: Path, option: str) -> None:
    sentence = [] if option.startswith("curves") else ["Hund"]
    code, _, err = tfm(*option.split(" "), "a\udcff.png", *sentence, cwd=workspace)
    assert code == 0, err
    assert (workspace / "a\udcff.png").stat().st_size > 1000 or option.startswith("curves")
