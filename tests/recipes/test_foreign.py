"""Imported models are those of Marian and of transformers, where these are installed; pytest -s shows how near."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import foreign


@pytest.mark.long
@pytest.mark.skipif(find_spec("pymarian") is None, reason="pymarian is not installed")
@pytest.mark.parametrize("name", [*foreign.MARIAN, *foreign.REFUSED])
def test_model_that_marian_trains_has_its_scores_and_greedy_translations_or_is_refused_by_key(
    name: str, tmp_path: Path
) -> None:
    compared = foreign.marian(tmp_path, text=foreign.captions(), name=name)
    sys.stdout.write(f"{name}: {compared.text}\n")
    assert compared.agrees, compared.text


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # transformers has many
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize("name", foreign.HUGGING_FACE)
def test_model_that_transformers_writes_has_its_ids_logits_and_translations(name: str, tmp_path: Path) -> None:
    compared = foreign.hugging_face(tmp_path, text=foreign.captions(), name=name)
    sys.stdout.write(f"{name}: {compared.text}\n")
    assert compared.agrees, compared.text
