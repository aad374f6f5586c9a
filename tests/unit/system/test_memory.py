"""Memory that the process keeps."""

import ctypes
import subprocess
import sys

import pytest

# 64 MB, far more than what malloc usually keeps, are freed and taken again.
AGAIN = """
import resource
from transformer_cli.system.memory import keep_freed_memory
keep_freed_memory()
size = 64 << 20
b"x" * size
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
b"x" * size
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only glibc has mallopt")
def test_keep_freed_memory_takes_no_new_pages_for_a_second_allocation() -> None:
    taken = int(subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, check=True, text=True).stdout)
    assert taken < 1 << 20
