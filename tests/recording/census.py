"""The slow, obvious reference of the recorder: every storage that an operator was given or gave
back, held by a weak reference and counted when asked. It shares no code and no hook with the recorder: a
dispatch mode sees tensors, where the recorder sees the allocator.
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


def bytes_of(tensors: Iterable[Any]) -> int:
    """Bytes of the distinct storages behind the tensors."""
    return sum({s._cdata: s.nbytes() for s in storages(tensors)}.values())


class Census(TorchDispatchMode):
    """Counts the bytes of what is alive of all that passed through an operator while it was on."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, StorageWeakRef] = {}
        self._ignored: set[int] = set()

    def ignore(self, tensors: Iterable[Any]) -> None:
        """These are not the allocator's: memory of numpy, for instance."""
        self._ignored.update(s._cdata for s in storages(tensors))

    def note(self, tensors: Iterable[Any]) -> None:
        for storage in storages(tensors):
            # The weak reference keeps the handle from being used again.
            self._seen.setdefault(storage._cdata, StorageWeakRef(storage))

    def live_bytes(self) -> int:
        total = 0
        for handle, reference in list(self._seen.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._seen[handle]
            elif handle not in self._ignored:
                total += storage.nbytes()
        return total

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        self.note(tree_leaves((args, kwargs)))
        result = func(*args, **kwargs)
        self.note(tree_leaves(result))
        return result


def roles(modules: Iterable[torch.nn.Module], optimizers: Iterable[Any]) -> dict[str, int]:
    """The categories that modules and optimizers tell themselves; a storage counts once."""
    modules, optimizers = list(modules), list(optimizers)
    parameters = [p for m in modules for p in m.parameters()]
    parameters += [p for o in optimizers for group in o.param_groups for p in group["params"]]
    groups = {
        "parameter": parameters,
        "gradient": [p.grad for p in parameters],
        "optimizer_state": [
            value
            for optimizer in optimizers
            for state in optimizer.state.values()
            for value in state.values()
        ],
        "buffer": [b for m in modules for b in m.buffers()],
    }
    taken: set[int] = set()
    totals = {}
    for role, tensors in groups.items():
        own = {s._cdata: s.nbytes() for s in storages(tensors) if s._cdata not in taken}
        taken.update(own)
        totals[role] = sum(own.values())
    return totals
