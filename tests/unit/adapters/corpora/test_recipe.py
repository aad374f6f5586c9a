"""How long, and how, `tfm prepare FILE` lets a new run be trained."""

from typing import Any

import pytest

from transformer_cli.adapters.corpora.recipe import choose


@pytest.mark.parametrize(
    ("passes", "steps", "valid_pairs", "options", "chosen"),
    [  # dropout, label smoothing, consistency, epochs, validate_every, best_checkpoint_metric
        (0.4, 500, 1000, {}, (0.0, 0.0, 0.0, 1, 500, "bleu")),
        (4.9, 500, 1000, {}, (0.0, 0.0, 0.0, 5, 500, "bleu")),
        (9.6, 500, 200, {}, (0.1, 0.1, 0.0, 10, 500, "bleu")),
        (45.0, 22, 199, {}, (0.1, 0.1, 0.0, 45, 99, "last")),
        (45.0, 23, 40, {}, (0.2, 0.3, 0.0, 45, 104, "last")),
        (90.0, 23, 40, {}, (0.3, 0.3, 0.0, 90, 207, "last")),
        (59.0, 70, 100, {}, (0.3, 0.3, 0.0, 59, 413, "last")),
        (90.0, 45, 100, {}, (0.2, 0.0, 3.0, 45, 203, "last")),
        (90.0, 45, 100, {"may_read_twice": False}, (0.3, 0.3, 0.0, 90, 405, "last")),
        (1e6, 23, 40, {}, (0.2, 0.0, 3.0, 125, 288, "last")),
        (1e6, 1, 5, {}, (0.1, 0.1, 0.0, 250, 25, "last")),
    ],
)
def test_choose_by_passes_and_steps(
    passes: float, steps: int, valid_pairs: int, options: dict[str, Any], chosen: tuple[object, ...]
) -> None:
    assert tuple(choose(passes, steps, valid_pairs, **options).values()) == chosen
