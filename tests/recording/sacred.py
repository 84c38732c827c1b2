"""Observes programs, so that observations with and without a recording can be compared.

A program is a function that returns its observations. An exception is an observation too.
`observe` turns everything into plain text, exact to the bit.
"""

from __future__ import annotations

import gc
import hashlib
import random
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

gc.freeze()  # excludes torch's objects: programs that collect garbage run faster
PROGRAMS: dict[str, Callable[[], Any]] = {}
# Called by a program between two iterations, where a training loop calls its monitor.
_boundaries: list[Callable[[], object]] = []


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    assert function.__name__ not in PROGRAMS
    PROGRAMS[function.__name__] = function
    return function


def boundary() -> None:
    for each in _boundaries:
        each()


@contextmanager
def boundaries_call(action: Callable[[], object]) -> Iterator[None]:
    _boundaries.append(action)
    try:
        yield
    finally:
        _boundaries.remove(action)


def digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:12]


def _bits(tensor: torch.Tensor) -> str:
    if tensor.device.type == "meta" or tensor.layout not in (torch.strided, torch.sparse_coo):
        return "-"
    if tensor.is_sparse:
        return repr([plain(tensor._indices()), plain(tensor._values())])
    if tensor.is_nested:
        return repr([plain(each) for each in tensor.unbind()])
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return digest(dense.flatten().view(torch.uint8).numpy().tobytes())


def plain(value: Any) -> Any:
    """Convert to JSON types; a tensor becomes its properties and a digest of its bits."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value.hex()
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        kind = [type(value).__name__, str(value.dtype), str(value.layout), value.requires_grad]
        shape = [] if value.is_nested else [list(value.shape)]
        return [*kind, *shape, _bits(value)]
    if isinstance(value, dict):
        return [[plain(key), plain(each)] for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return digest(value)
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def counts(*tensors: torch.Tensor) -> list[Any]:
    """Return the counts of a tensor: uses, versions, references, weak references."""
    found = []
    for tensor in tensors:
        found.append(
            [
                tensor._use_count(),
                "inference" if tensor.is_inference() else tensor._version,
                sys.getrefcount(tensor),
                weakref.getweakrefcount(tensor),
            ]
        )
    return found


def raised_by(action: Callable[[], object]) -> list[str]:
    try:
        action()
    except BaseException as error:
        return [type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))]
    return ["nothing"]


def observe(name: str) -> Any:
    """Run a program from the same initial state every time."""
    gc.collect()
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        try:
            result = plain(PROGRAMS[name]())
        except BaseException as error:
            result = ["raised", type(error).__name__, plain(str(error))]
    said = [[w.category.__name__, re.sub(r"0x[0-9a-f]+", "0x", str(w.message))] for w in reported]
    random_state = [plain(torch.get_rng_state()), random.random().hex()]
    modes = [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        str(torch.get_default_dtype()),
        torch._C._len_torch_function_stack(),
    ]
    return {"result": result, "warnings": said, "random": random_state, "modes": modes}
