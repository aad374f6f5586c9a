"""Dropout with a cheap mask on the CPU: 16-bit random integers drawn four at a time, instead of a float per element.

With `torch.nn.functional.dropout`, drawing masks takes a fifth of a CPU training step. The dropped share is rounded to
a 65,536th. Masks come from torch's global generator, or inside `use_generator` from another one, so that several
threads can draw at the same time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

LEVELS = 1 << 16
INT64_MIN = -(1 << 63)

_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def use_generator(generator: torch.Generator) -> Iterator[None]:
    """Within the block, draw this thread's masks from this CPU generator."""
    before = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(before)


def current_generator() -> torch.Generator:
    """Returns the CPU generator that masks are drawn from: in training, that of the shard and the step.

    What is drawn from it follows from (seed, step, rank, shard): `torch.rand(3, generator=current_generator())`.
    """
    return _generator.get() or torch.default_generator


def replay_rng() -> Callable[[], AbstractContextManager[None]]:
    """Save the random state. Returns a context manager function: within its block, masks are drawn from that state."""
    state = current_generator().get_state()
    return lambda: use_generator(torch.Generator().set_state(state))


class Dropout(nn.Dropout):
    """In training mode, sets a share `p` of the elements to zero and scales the others by 1/(1-p) (section 5.4)."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns a tensor shaped like x, which may have any shape. On other devices than the CPU, uses torch's own."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return super().forward(x)
        return x * keep_mask(x, self.p)


def keep_mask(x: Tensor, p: float) -> Tensor:
    """Returns a tensor like x: 0 with probability p (to a 65,536th), else the scale that keeps the expectation.

    For example, 10 numbers with p = 0.1 need three words of 64 bits: 12 integers of 16 bits, two of them unused. 6,554
    of an integer's 65,536 values become 0, and all others 65,536 / 58,982 = 1.1111.
    """
    dropped = min(round(p * LEVELS), LEVELS - 1)  # even p = 0.999999 keeps a little
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    words.random_(INT64_MIN, None, generator=_generator.get())
    noise = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform on [-32768, 32768)
    lowest, scale = dropped - LEVELS // 2, torch.tensor(LEVELS / (LEVELS - dropped), dtype=x.dtype)
    if x.dtype == torch.bfloat16:  # 0 or 1 times the scale's bits, as integers: equal, but twice as fast
        return torch.ge(noise, lowest, out=torch.empty_like(noise)).mul_(scale.view(torch.int16)).view(x.dtype)
    return torch.ge(noise, lowest, out=torch.empty_like(noise, dtype=x.dtype)).mul_(scale)  # without a mask of bools
