"""How long, and how, `tfm prepare FILE` lets a new run be trained."""

import pytest

from transformer_cli.adapters.corpora.configs import vocab_size_for
from transformer_cli.adapters.corpora.recipe import choose


@pytest.mark.parametrize(
    ("passes", "steps", "valid_pairs", "chosen"),
    [  # dropout, label smoothing, epochs, validate_every, best_checkpoint_metric
        (0.4, 500, 1000, (0.0, 0.1, 1, 500, "bleu")),
        (4.4, 500, 1000, (0.0, 0.1, 4, 500, "bleu")),
        (9.6, 500, 200, (0.1, 0.1, 10, 500, "bleu")),
        (45.0, 22, 199, (0.1, 0.1, 45, 99, "last")),
        (45.0, 23, 40, (0.2, 0.2, 45, 104, "last")),
        (29.0, 80, 100, (0.15, 0.1, 29, 232, "last")),
        (59.0, 70, 100, (0.2, 0.2, 59, 413, "last")),
        (150.0, 23, 40, (0.3, 0.3, 150, 345, "last")),
        (1e6, 23, 40, (0.3, 0.3, 250, 575, "last")),
        (1e6, 1, 5, (0.1, 0.1, 250, 25, "last")),
    ],
)
def test_choose_by_passes_and_steps(passes: float, steps: int, valid_pairs: int, chosen: tuple[object, ...]) -> None:
    assert tuple(choose(passes, steps, valid_pairs).values()) == chosen


@pytest.mark.parametrize(
    ("n_pairs", "size"), [(10, 500), (1_500, 1_500), (3_000, 2_000), (5_000, 2_500), (29_000, 6_000)]
)
def test_vocab_size_by_pairs(n_pairs: int, size: int) -> None:
    assert vocab_size_for(n_pairs, at_most=6_000) == size
