"""The measurements of scripts/benchmark.py, a module for each kind of work. References are in tests/oracles."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))
