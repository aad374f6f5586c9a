"""A GPU that is not there: tensors are computed on the CPU, but may not be mixed with those that were never moved.

`PretendedDevice(device)` is a context in which `tensor.to(device)` and `device=device` mark tensors as moved. A mark
belongs to a tensor's storage, so views share it, and so does a parameter whose data is exchanged. As with a real GPU,

- an operation whose tensors are on both sides raises RuntimeError, except where torch allows it: a single number of the
  CPU, indices on the CPU, and copies;
- a moved tensor has no `numpy()`, and its `device` is the pretended one, so that the code takes the paths for it.

Two modes of torch work together: one sees what the code calls (`to`, `device`, factories), the other one every
operation that is computed, those of the backward pass too. (torch's own FakeTensorMode stops at `.item()`.)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
MAY_MIX = {  # operation → how many of its tensors, the first ones, have to be on one side
    aten._to_copy.default: 1,
    aten.copy_.default: 1,
    aten.index.Tensor: 1,  # indices may be on the CPU
}
WAITS = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default}  # for what is computed
VALUES_BUT_NO_INDICES = {aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
DEVICE, IS_CPU, IS_CUDA = (getattr(Tensor, name).__get__ for name in ("device", "is_cpu", "is_cuda"))


class PretendedDevice:
    """A context in which `device` seems to exist. Tensors that were moved to it stay so after the context."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.n_operations = 0
        """how many operations have been computed on the device"""
        self.n_waits = 0
        """how often the caller has waited for what the device has yet to compute"""

    def __enter__(self) -> "PretendedDevice":
        self._modes = (_Operations(self), _Calls(self))
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)


@contextmanager
def pretended_gpus(n_cuda: int = 0, name: str = "Pretended", capability: tuple[int, int] = (7, 5)) -> Iterator[None]:
    """During the block torch says that there are so many CUDA devices, each with 1 GB free."""
    with mock.patch.multiple(
        torch.cuda,
        is_available=lambda: n_cuda > 0,
        device_count=lambda: n_cuda,
        get_device_name=lambda device: name,
        get_device_capability=lambda device: capability,
        mem_get_info=lambda device: (10**9, 2 * 10**9),
    ):
        yield


def is_moved(tensor: Tensor) -> bool:
    """Whether a tensor was moved to a pretended device, or computed there."""
    return getattr(tensor.untyped_storage(), "is_moved", False)


def _mark(result: Any, moved: bool) -> None:
    for tensor in _tensors(result):
        tensor.untyped_storage().is_moved = moved  # type: ignore[attr-defined]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


class _Calls(TorchFunctionMode):
    """Answers what the code asks about devices, and moves tensors."""

    def __init__(self, pretended: PretendedDevice) -> None:
        super().__init__()
        self.pretended = pretended

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        first: Any = arguments[0] if arguments else None
        if function == DEVICE:
            return self.pretended.device if is_moved(first) else torch.device("cpu")
        if function == IS_CPU:
            return not is_moved(first)
        if function == IS_CUDA:
            return is_moved(first) and self.pretended.device.type == "cuda"
        if function in (Tensor.numpy, Tensor.__array__) and is_moved(first):
            raise TypeError(f"can't convert {self.pretended.device} device type tensor to numpy")
        if function is Tensor.pin_memory:  # it needs a real device
            assert not is_moved(first)
            return first
        if function is Tensor.cpu:
            return self._moved(first, torch.device("cpu"))
        if function is Tensor.to:
            device = next((each for each in arguments[1:] if isinstance(each, str | torch.device)), None)
            device = keywords.pop("device", device)
            dtype = next((each for each in arguments[1:] if isinstance(each, torch.dtype)), keywords.get("dtype"))
            if device is not None:
                return self._moved(first, torch.device(device), dtype)
        if keywords.get("device") is not None:  # a factory, such as torch.zeros
            is_here = torch.device(keywords.pop("device")) == self.pretended.device
            made = function(*arguments, **keywords)
            _mark(made, is_here)
            return made
        return function(*arguments, **keywords)

    def _moved(self, tensor: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
        assert device.type in ("cpu", self.pretended.device.type), device
        dtype = dtype or tensor.dtype
        if is_moved(tensor) == (device.type != "cpu") and dtype == tensor.dtype:
            return tensor
        self.pretended.n_waits += device.type == "cpu" and is_moved(tensor)
        there = Tensor.to(tensor, dtype=dtype, copy=True)
        _mark(there, device.type != "cpu")
        return there


class _Operations(TorchDispatchMode):
    """Computes every operation, and refuses those whose tensors are on both sides."""

    def __init__(self, pretended: PretendedDevice) -> None:
        super().__init__()
        self.pretended = pretended

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        given = list(_tensors([*arguments, *keywords.values()]))
        checked = given[: MAY_MIX.get(function)]  # all, except where torch allows a mixture
        if function in VALUES_BUT_NO_INDICES:
            checked = [arguments[0], arguments[2]]
        moved = [is_moved(each) for each in checked]
        if any(moved) and not all(there or each.dim() == 0 for there, each in zip(moved, checked, strict=True)):
            raise RuntimeError(f"{function}: expected all tensors on {self.pretended.device}, but some are on the CPU")
        result = function(*arguments, **keywords)
        inputs = {id(each) for each in given}
        fresh = [each for each in _tensors(result) if id(each) not in inputs]
        if any(moved):
            self.pretended.n_operations += 1
            by_mask = function == aten.index.Tensor and any(each.dtype == torch.bool for each in given[1:])
            self.pretended.n_waits += by_mask or function in WAITS
            _mark(fresh, True)
        return result
