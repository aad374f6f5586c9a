"""The isolation of tests: breaches raise and are recorded, here and in started programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isolation import ROOT, breaches
from isolation.sitecustomize import FORBIDDEN

REACH = "import os, sys\ntry:\n    os.listdir(sys.argv[1])\nexcept AssertionError:\n    sys.exit(3)"


@pytest.mark.parametrize("folder", ["data", "runs", "exports"])
def test_isolation_refuses_writing_in_the_checkout(folder: str) -> None:
    with pytest.raises(AssertionError, match=rf"open .*{folder}/any"):
        (ROOT / folder / "any").open()
    with pytest.raises(AssertionError, match=r"os\.mkdir"):
        (ROOT / folder).mkdir()
    assert len(breaches().splitlines()) == 2


def test_isolation_refuses_home_in_started_programs() -> None:
    (folder, *_) = [name for name in os.environ[FORBIDDEN].split(os.pathsep) if name.endswith(".cache")]
    assert subprocess.run([sys.executable, "-c", REACH, folder]).returncode == 3
    assert breaches() == f"os.listdir {folder}\n"


def test_isolation_removes_variables_of_the_user() -> None:
    assert {name for name in os.environ if name.startswith(("TFM_", "XDG_", "NO_COLOR", "COLUMNS"))} == set()
    assert not ROOT.is_relative_to(Path.home())
