"""What scripts/benchmark.py measures, one module for each kind of work. The plain references are in tests/oracles."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))
