"""Finds the memory of a tensor without side effects on the program.

The program's overrides of torch's functions do not run. Copy-on-write memory is not copied. Tensors
without memory (fake, sparse, batched, subclasses) cause no error or warning.
"""

from __future__ import annotations

from typing import Any

import torch

from plimsoll._process.program_errors import leave_to_program


def _address_by_storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _never(*_: Any) -> bool:
    return False


# Older versions of torch lack these functions and do not need them.
_address_of: Any = getattr(torch._C, "_data_address", _address_by_storage)
_is_copied_on_write: Any = getattr(torch._C, "_is_cow_tensor", _never)


def memory_of(tensor: torch.Tensor) -> tuple[Any, int, int] | None:
    """Return the storage, its address and its bytes; None if there is no memory to record."""
    try:
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
            if storage.device.type == "meta" or _is_copied_on_write(tensor):
                return None
            address, size = _address_of(tensor), storage.nbytes()
        return (storage, address, size) if address and size else None
    except (NotImplementedError, RuntimeError) as error:
        leave_to_program(error)
        return None


def kind_of(tensor: torch.Tensor) -> tuple[str, str]:
    """Return the dtype and the shape; empty for nested tensors."""
    try:
        with torch._C.DisableTorchFunction():
            return str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape))
    except (NotImplementedError, RuntimeError) as error:
        leave_to_program(error)
        return "", ""


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    with torch._C.DisableTorchFunction():
        return tensor.grad


def is_computed(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return tensor.grad_fn is not None
