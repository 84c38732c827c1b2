"""Digests of parameters and optimizer state, which `plimsoll verify` compares between runs."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from typing import Any


def digest_steps(path: str) -> None:
    """Append a line to the file after each optimizer step, from now on."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(optimizer: Any, args: object, kwargs: object) -> None:
        digest = hashlib.blake2b(digest_size=8)
        parameters = [group["params"] for group in optimizer.param_groups]
        for tensor in tensors_of([parameters, list(optimizer.state.values())]):
            digest.update(_bytes(tensor))
        with open(path, "a") as file:
            file.write(digest.hexdigest() + "\n")

    register_optimizer_step_post_hook(stepped)


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value, and in the lists and dictionaries in it."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_of(each)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def _bytes(tensor: Any) -> bytes:
    """Return the content of the storage, read without an operator: that would be a use."""
    import torch

    if tensor.layout != torch.strided:
        return b""
    storage = tensor.detach().cpu().untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b""
