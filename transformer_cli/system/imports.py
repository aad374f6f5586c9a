"""Importing a library without another one, which it would import only because it is there."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(library: str) -> Iterator[None]:
    """Let a library seem not to be installed during the block, unless it is imported already."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # as Python documents it: its import raises ImportError
    try:
        yield
    finally:
        del sys.modules[library]
