"""scripts/speedrun.py: its arithmetic by hand, and which configs it takes."""

import pytest

import speedrun
from isolation import ROOT
from speedrun import TARGET, Cost, judged


def test_cost_ratio_counts_steps_and_validations() -> None:
    cost = Cost(
        tokens=800, tokens_per_second=20.0, plain_tokens_per_second=10.0, validation_seconds=10.0, epoch_tokens=500
    )
    assert cost.ratio == pytest.approx((8 * 500 / 10) / (800 / 20 + 10))  # 400 s against 50 s


def test_judged_mean_has_to_be_below_the_target_beyond_chance() -> None:
    clearly = judged([TARGET - 0.010, TARGET - 0.012, TARGET - 0.011, TARGET - 0.009, TARGET - 0.013])
    assert clearly["met"]
    assert clearly["mean"] == pytest.approx(TARGET - 0.011)
    by_chance = judged([TARGET - 0.030, TARGET + 0.020, TARGET - 0.010, TARGET + 0.015, TARGET - 0.005])
    assert not by_chance["met"]
    assert by_chance["p"] == pytest.approx(0.4200, abs=0.005)  # t = -0.002 / (0.0202 / √5) = -0.222 with 4 degrees


def test_judged_one_seed_does_not_meet_the_target() -> None:
    assert judged([TARGET - 1.0]) == {"losses": [TARGET - 1.0], "mean": TARGET - 1.0, "p": None, "met": False}


def test_speedrun_data_of_another_config_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        speedrun.main(["--config", str(ROOT / "configs/subwords.yaml")])
    assert "its data section must be that of configs/multi30k.yaml" in capsys.readouterr().err
