"""How long, and how, `tfm prepare FILE` lets a new run be trained."""

from typing import Any

import pytest

from transformer_cli.adapters.corpora.recipe import choose


@pytest.mark.parametrize(
    ("passes", "steps", "valid_pairs", "options", "chosen"),
    [  # dropout, consistency, epochs, validate_every, best_checkpoint_metric
        (2.0, 500, 1000, {}, (0.0, 0.0, 2, 500, "bleu")),
        (9.6, 500, 1000, {}, (0.1, 0.0, 10, 500, "bleu")),
    ],
)
def test_choose_by_passes(
    passes: float, steps: int, valid_pairs: int, options: dict[str, Any], chosen: tuple[object, ...]
) -> None:
    assert tuple(choose(passes, steps, valid_pairs, **options).values()) == chosen
