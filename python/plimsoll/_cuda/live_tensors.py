"""Records the CUDA tensors of modules and optimizers if nothing else does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

from plimsoll import _record
from plimsoll._torch.tensor_memory import gradient_of, kind_of, memory_of

_PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER = 1, 2, 3, 4


def report_cuda_tensors() -> None:
    """Record the CUDA tensors of modules and optimizers once; later changes are not followed."""
    reported: list[tuple[int, int]] = []
    for role, name, tensor in _held():
        reported += _report(role, name, tensor)
    for device, address in reported:
        _record.free(device, address)


def _held() -> Iterator[tuple[int, str, Any]]:
    torch: Any = sys.modules["torch"]
    objects = gc.get_objects()
    modules = [each for each in objects if issubclass(type(each), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    for module in modules:
        if id(module) in inner:
            continue
        root = type(module).__name__
        for path, parameter in module.named_parameters():
            yield _PARAMETER, f"{root}.{path}", parameter
            gradient = gradient_of(parameter)
            if gradient is not None:
                yield _GRADIENT, f"{root}.{path}", gradient
        for path, buffer in module.named_buffers():
            yield _BUFFER, f"{root}.{path}", buffer
    for optimizer in objects:
        if not issubclass(type(optimizer), torch.optim.Optimizer):
            continue
        for state in optimizer.state.values():
            for key, tensor in state.items() if isinstance(state, dict) else ():
                if isinstance(tensor, torch.Tensor):
                    yield _OPTIMIZER_STATE, str(key), tensor


def _report(role: int, name: str, tensor: Any) -> Iterator[tuple[int, int]]:
    memory = memory_of(tensor)
    if memory is None or memory[0].device.type != "cuda":
        return
    storage, address, size = memory
    device = _record.device("cuda", storage.device.index or 0)
    _record.adopt(device, address, size, _record.tensor(role, name, *kind_of(tensor)))
    yield device, address
