"""Counts random numbers where torch draws them, below all of its Python."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Draws(TorchDispatchMode):
    """`counts` has each random operation inside the block, such as aten.uniform_.default, with how often it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(operation, "tags", ()):
            self.counts[str(operation)] += 1
        return operation(*arguments, **(keywords or {}))
