"""The tiny run, served."""

from collections.abc import Iterator

import pytest
import torch

from served import Running, running
from transformer_cli.runs.run import Run
from transformer_cli.translator import Translator


@pytest.fixture(scope="session")
def single(tiny: Run) -> Translator:
    """The tiny run, as a server loads it."""
    return Translator(tiny, torch.device("cpu"), batches_at_a_time=1)


@pytest.fixture(scope="session")
def served(single: Translator) -> Iterator[Running]:
    """A server of the tiny run, with two workers."""
    with running(single, n_workers=2) as found:
        yield found
