"""What modules and optimizers hold on CUDA, told to the recorder where nobody else tells it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

from plimsoll import _record
from plimsoll._program_errors import leave_to_program

_PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER = 1, 2, 3, 4


def tell_cuda_tensors() -> None:
    """Tells each of them once, as of now: they are not followed."""
    told: list[tuple[int, int]] = []
    for role, name, tensor in _held():
        if tensor.device.type == "cuda":
            told += _tell(role, name, tensor)
    for device, address in told:
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
            if parameter.grad is not None:
                yield _GRADIENT, f"{root}.{path}", parameter.grad
        for path, buffer in module.named_buffers():
            yield _BUFFER, f"{root}.{path}", buffer
    for optimizer in objects:
        if not issubclass(type(optimizer), torch.optim.Optimizer):
            continue
        for state in optimizer.state.values():
            for key, tensor in state.items() if isinstance(state, dict) else ():
                if isinstance(tensor, torch.Tensor):
                    yield _OPTIMIZER_STATE, str(key), tensor


def _tell(role: int, name: str, tensor: Any) -> Iterator[tuple[int, int]]:
    try:
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        dtype, shape = str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape))
    except (NotImplementedError, RuntimeError) as error:  # sparse, or without memory
        leave_to_program(error)
        return
    if size == 0 or address == 0:
        return
    device = _record.device("cuda", tensor.device.index or 0)
    _record.adopt(device, address, size, _record.tensor(role, name, dtype, shape))
    yield device, address
