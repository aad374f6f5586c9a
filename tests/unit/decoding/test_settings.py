"""How long a translation may be."""

import pytest

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import DecodingConfig
from transformer_cli.decoding.interface import score
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import ConfigError


@pytest.mark.parametrize(
    ("max_tokens", "source_tokens", "max_length", "limit"),
    [
        pytest.param(None, 5, None, 20, id="the default"),
        pytest.param(None, 5, 16, 14, id="the model's positions, less <sos> and <eos>"),
        pytest.param(7, 5, 16, 7, id="what was asked for"),
        pytest.param(99, 5, None, 99, id="what was asked for, of a model without a last position"),
    ],
)
def test_the_limit_of_a_translation(
    max_tokens: int | None, source_tokens: int, max_length: int | None, limit: int
) -> None:
    assert SearchSettings(max_tokens=max_tokens).limit(source_tokens, max_length) == limit


@pytest.mark.parametrize(
    ("n_best", "decoding", "what"),
    [
        (5, {"beam_size": 4}, r"--n-best 5: a beam of 4 does not hold so many; add --beam-size 5$"),
        (2, {}, r"--n-best 2: a beam of 1 does not hold so many"),
        (0, {"sample": True}, r"--n-best 0: at least one translation"),
    ],
)
def test_no_more_translations_than_the_beam_holds(n_best: int, decoding: dict[str, object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        SearchSettings(n_best=n_best, decoding=DecodingConfig.model_validate(decoding))


def test_as_many_samples_as_one_likes() -> None:
    assert SearchSettings(n_best=50, decoding=DecodingConfig(sample=True)).n_best == 50


def test_a_beam_and_sampling_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"decoding: sample: true draws .* a beam of 4 searches .* set beam_size: 1"):
        load_config(overrides=["decoding.sample=true", "decoding.beam_size=4"])


def test_a_score_divides_by_the_length_to_the_power_of_the_penalty() -> None:
    assert score(-6.0, 4, 0.5) == -3.0
    assert score(-6.0, 4, 0.0) == -6.0
    assert score(-6.0, 1, 3.0) == -6.0
