"""Imported models are those of Marian and of transformers, where these are installed; pytest -s shows how near."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import hostile

pytestmark = pytest.mark.long
NEAR = 1e-4  # nats, or logits


@pytest.mark.skipif(find_spec("pymarian") is None, reason="pymarian is not installed")
@pytest.mark.parametrize("name", hostile.MARIAN)
def test_model_that_marian_trains_has_its_scores(name: str, tmp_path: Path) -> None:
    worst = hostile.marian(tmp_path, name)
    sys.stdout.write(f"{name}: scores within {worst:.1e}\n")
    assert worst < NEAR


@pytest.mark.filterwarnings("default")  # transformers has many
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize("name", hostile.HUGGING_FACE)
def test_model_that_transformers_writes_has_its_ids_and_logits(name: str, tmp_path: Path) -> None:
    n_wrong, worst = hostile.hugging_face(tmp_path, name)
    sys.stdout.write(f"{name}: ids of {n_wrong} lines differ, logits within {worst:.1e}\n")
    assert (n_wrong, worst < NEAR) == (0, True)
