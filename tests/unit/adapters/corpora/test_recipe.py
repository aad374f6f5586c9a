"""How long, and how, `tfm prepare FILE` lets a new run be trained."""

import pytest

from transformer_cli.adapters.corpora.configs import vocab_size_for
from transformer_cli.adapters.corpora.recipe import choose


@pytest.mark.parametrize(
    ("passes", "steps", "train_pairs", "valid_pairs", "chosen"),
    [  # dropout, label smoothing, epochs, max_steps, warmup_steps, validate_every, best_checkpoint_metric
        (0.4, 500, 100_000, 1000, (0.0, 0.1, 1, 200, 50, 100, "bleu")),
        (0.0004, 500, 1_000_000, 1000, (0.0, 0.1, 1, 1, 0, 1, "bleu")),
        (1.0, 500, 28_000, 600, (0.0, 0.1, 1, None, 50, 250, "bleu")),
        (4.4, 500, 49_000, 1000, (0.0, 0.1, 4, None, 50, 223, "bleu")),
        (9.6, 500, 9_800, 200, (0.1, 0.1, 10, None, 50, 500, "bleu")),
        (9.6, 20, 2_000, 1000, (0.1, 0.1, 10, None, 50, 200, "bleu")),
        (45.0, 22, 9_751, 199, (0.1, 0.1, 45, None, 50, 99, "last")),
        (45.0, 23, 1_960, 40, (0.2, 0.2, 45, None, 50, 104, "last")),
        (29.0, 80, 4_900, 100, (0.15, 0.1, 29, None, 50, 232, "last")),
        (59.0, 70, 4_900, 100, (0.2, 0.2, 59, None, 50, 413, "last")),
        (150.0, 23, 2_000, 1014, (0.3, 0.3, 150, None, 50, 345, "bleu")),
        (1e6, 23, 1_960, 40, (0.3, 0.3, 250, None, 50, 575, "last")),
        (1e6, 1, 195, 5, (0.1, 0.1, 250, None, 50, 25, "last")),
        (3.0, 10, 588, 12, (0.0, 0.1, 3, None, 7, 5, "last")),
    ],
)
def test_choose_by_passes_and_steps(
    passes: float, steps: int, train_pairs: int, valid_pairs: int, chosen: tuple[object, ...]
) -> None:
    assert tuple(choose(passes, steps, train_pairs, valid_pairs, warmup_steps=50).values()) == chosen


@pytest.mark.parametrize(("n_pairs", "size"), [(10, 500), (1500, 1500), (3000, 2000), (5000, 2500), (29_000, 6000)])
def test_vocab_size_by_pairs(n_pairs: int, size: int) -> None:
    assert vocab_size_for(n_pairs, at_most=6_000) == size
