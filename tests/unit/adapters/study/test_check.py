"""`tfm train --check`: what it says of a sound model and text, and of broken ones."""

import re
from pathlib import Path

import pytest
import torch

from kinds import Tfm
from transformer_cli.adapters.study import check
from transformer_cli.model import layout

SOUND = r"16 pairs by heart: loss \d\.\d\d → 0\.0\d in \d+ steps \(0 is right\), BLEU (9\d|100) \(100 is right\): fine"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps at rising rates; pairs take as long as they need."""
    monkeypatch.setattr(check, "SWEEP_STEPS", (40, 40))


def last_lines(tfm: Tfm, folder: Path, config: Path, *overrides: str) -> list[str]:
    settings = [word for each in overrides for word in ("--set", each)]
    code, out, err = tfm("train", "--check", "--config", config, *settings, cwd=folder)
    assert (code, "warning" in err, "error" in err) == (0, False, False), err
    return out.splitlines()


@pytest.mark.usefixtures("short")
def test_check_of_sound_text_leaves_only_a_picture(tfm: Tfm, prepared: Path, corpus: Path) -> None:
    lines = last_lines(tfm, prepared, corpus / "tiny.yaml")
    assert lines[0] == "batch 1 of 13, 16 pairs:"
    pairs = [line.split(" ||| ")[1] for line in lines if " ||| " in line]
    known = [line.lower() for line in (corpus / "train.en").read_text().splitlines()]
    assert len(pairs) == 15
    assert {pair for pair in pairs if "<unk>" not in pair} <= set(known)
    said = [re.sub(r"[\d.,e-]*\d( GB)?", lambda found: "0 MB" if found[1] else "0", line) for line in lines[-4:]]
    assert said[0] == (
        "text: padding 0%; unknown 0% of the source, 0% of the target; too long, so left out: 0 of 0 pairs; all "
        "sentences of a side are equally long"
    )
    assert said[1] == (
        "speed: 0 s per step, peak memory 0 MB, less than a minute until the end; with half the batch size 0 MB, and "
        "0 times as long"
    )
    rate = r"learning rate: suggested 0, since the loss rises from 0 on \(tiny-check.png\); the config has 0: .+"
    assert re.fullmatch(rate, said[2])
    assert re.fullmatch(SOUND, lines[-1])
    assert sorted(path.name for path in prepared.iterdir()) == ["data", "tiny-check.png"]
    assert (prepared / "tiny-check.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("short")
def test_check_says_what_is_wrong_with_model_and_rate(
    tfm: Tfm, prepared: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_mask(length: int, device: torch.device) -> torch.Tensor:
        return torch.ones(length, length, dtype=torch.bool, device=device)

    with monkeypatch.context() as patch:
        patch.setattr(layout, "causal_mask", no_mask)
        lines = last_lines(tfm, prepared, corpus / "tiny.yaml", "training.learning_rate=1", "name=high")
    assert lines[-2].endswith("(high-check.png); the config has 1: TOO HIGH")
    assert "BLEU 100" not in lines[-1]
    assert "WRONG: the decoder sees in training what it should predict" in lines[-1]
    monkeypatch.setattr(check, "LEARN_S", 0)
    lines = last_lines(tfm, prepared, corpus / "tiny.yaml")
    assert re.search(r" in 1 step \(0 is right\), BLEU \d \(100 is right\): WRONG: look for the mistake", lines[-1])
