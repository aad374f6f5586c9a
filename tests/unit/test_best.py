"""scripts/best.py: its tokens are those of other projects."""

import best


def test_best_words_splits_words_and_signs() -> None:
    assert best.words("A T-shirt, grün!") == ["a", "t", "-", "shirt", ",", "grün", "!"]
    assert best.words("it's 3.50 …") == ["it", "'", "s", "3", ".", "50", "…"]
