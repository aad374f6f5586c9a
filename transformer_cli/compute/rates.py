"""How fast a device multiplies matrices, measured in a second. Knows nothing of models."""

import time

import torch

from transformer_cli.compute.devices import Precision

FIRST, LARGEST = 256, 8192  # rows of the square matrices
LONG_ENOUGH_S = 0.001  # for one product, so that its start does not count; longer ones meet other programs
BUDGET_S = 0.5


def matrix_rate(device: torch.device, precision: Precision) -> float:
    """Returns the operations per second of the fastest of several products; one of n × n matrices has 2 n³.

    The matrices are as large as they must be for one product to take long enough.

    Raises RuntimeError if the device cannot compute in this precision.
    """
    size = FIRST
    while True:
        generator = torch.Generator().manual_seed(0)
        matrix = torch.rand(size, size, generator=generator).to(device, getattr(torch, precision))
        _seconds(matrix)  # the first one may compile something
        seconds = min(_seconds(matrix) for _ in range(3))
        if seconds >= LONG_ENOUGH_S or size >= LARGEST:
            break
        size *= 2
    until = time.perf_counter() + BUDGET_S
    while time.perf_counter() < until:
        seconds = min(seconds, _seconds(matrix))
    return 2 * size**3 / seconds


def _seconds(matrix: torch.Tensor) -> float:
    started = time.perf_counter()
    (matrix @ matrix)[0, 0].item()  # which waits for the device
    return time.perf_counter() - started
