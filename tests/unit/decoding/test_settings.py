"""How long a translation may be."""

import pytest

from transformer_cli.decoding.settings import DEFAULT_LIMIT, SearchSettings, default_limit


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


@pytest.mark.parametrize("source", [0, 1, 17])
def test_the_help_text_says_what_is_computed(source: int) -> None:
    assert default_limit(source) == eval(DEFAULT_LIMIT.replace("×", "*").replace("source", str(source)))
