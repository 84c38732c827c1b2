"""Modules and their tensors, read from torch's own dictionaries.

Programs may override the methods of a module, such as ``named_modules`` and ``children``; these may
raise or have side effects. A module whose ``__init__`` has not called ``super().__init__`` has none
of the dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from plimsoll._torch.tensor_memory import memory_of


def modules_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the module and all modules in it once, with their paths; the module's own is empty."""
    seen: set[int] = set()
    pending = [("", module)]
    while pending:
        path, each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield path, each
        below = [(_join(path, name), child) for name, child in children_of(each)]
        pending.extend(reversed(below))


def children_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules directly in this one, with their names."""
    return _entries(module, "_modules", torch.nn.Module)


def parameters_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters of the module and of all modules in it once, with their paths."""
    return _tensors(module, "_parameters")


def buffers_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the buffers of the module and of all modules in it once, with their paths."""
    return _tensors(module, "_buffers")


def tensors_of(module: torch.nn.Module, dictionary: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in the module's own "_parameters" or "_buffers", with their names."""
    return _entries(module, dictionary, torch.Tensor)


def parameter_bytes(module: torch.nn.Module) -> int:
    """Return the bytes of the parameters that the module has directly."""
    memory = (memory_of(tensor) for _, tensor in tensors_of(module, "_parameters"))
    return sum(each[2] for each in memory if each is not None)


def _tensors(module: torch.nn.Module, dictionary: str) -> Iterator[tuple[str, torch.Tensor]]:
    seen: set[int] = set()
    for path, each in modules_of(module):
        for name, tensor in _entries(each, dictionary, torch.Tensor):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield _join(path, name), tensor


def _entries(module: torch.nn.Module, dictionary: str, kind: type) -> Iterator[tuple[str, Any]]:
    entries = object.__getattribute__(module, "__dict__").get(dictionary)
    for name, value in list(entries.items()) if entries is not None else ():  # may be TorchScript's
        if issubclass(type(value), kind):
            yield str(name), value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
