"""The slow, obvious reference for the recorder.

It keeps a weak reference to every storage that an operator received or returned, and counts on
request. It shares neither code nor hooks with the recorder: a dispatch mode observes tensors,
whereas the recorder observes the allocator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def storages(tensors: Iterable[Any]) -> Iterator[torch.UntypedStorage]:
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
            yield tensor.untyped_storage()


class Census(TorchDispatchMode):
    """Counts the live bytes of all storages that passed through an operator while it was on."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, StorageWeakRef] = {}

    def note(self, tensors: Iterable[Any]) -> None:
        for storage in storages(tensors):
            # The weak reference prevents reuse of the handle.
            self._seen.setdefault(storage._cdata, StorageWeakRef(storage))

    def live(self) -> dict[int, int]:
        """Bytes of each live storage, by a handle that is never reused."""
        found = {}
        for handle, reference in self._seen.items():
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is not None:
                found[handle] = storage.nbytes()
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.note(tree_leaves((args, kwargs)))
        result = func(*args, **kwargs)
        self.note(tree_leaves(result))
        return result


def roles(modules: Iterable[torch.nn.Module], optimizers: Iterable[Any]) -> dict[str, list[Any]]:
    """The tensors by category, as far as modules and optimizers define it."""
    modules, optimizers = list(modules), list(optimizers)
    parameters = [p for m in modules for p in m.parameters()]
    parameters += [p for o in optimizers for group in o.param_groups for p in group["params"]]
    return {
        "parameter": parameters,
        "gradient": [p.grad for p in parameters],
        "optimizer_state": [
            value
            for optimizer in optimizers
            for value in tree_leaves(list(optimizer.state.values()))
        ],
        "buffer": [b for m in modules for b in m.buffers()],
    }
