"""Two torchrun agents as two nodes: workers and agents that are killed come back, and the weights end the same."""

from pathlib import Path

import pytest

import two_nodes


@pytest.mark.long
def test_two_nodes_killed_on_either_change_nothing(tmp_path: Path) -> None:
    assert two_nodes.main(tmp_path) < 1e-6
