"""Mutations of how a program runs: other types, lengths that vary, a fake CUDA device."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib.util
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer

ROOT = Path(os.environ["PLIMSOLL_MUTATED_FROM"])  # this file may be a copy
FAKE = ROOT / "adapters" / "libtorch_cuda" / "tests"
Applied = Counter[str]  # what was changed while a program ran


@contextlib.contextmanager
def bfloat16(applied: Applied) -> Iterator[None]:
    """Everything that has no type of its own is bfloat16."""
    torch.set_default_dtype(torch.bfloat16)
    applied["types"] += 1
    yield


# The factories run in torch's own file, so that no line of a recording is theirs.
FACTORY = """
def made(*words, **named):
    return original(*vary(sys._getframe(1), words), **named)
"""


def sized(name: str, words: tuple[Any, ...]) -> int:
    """The index of the argument that is the size, or of the first number of it; else -1."""
    if name == "arange":
        return 0 if len(words) == 1 else -1
    if name == "randint":
        return next((i for i, each in enumerate(words) if isinstance(each, tuple | list)), -1)
    return 0 if words and isinstance(words[0], int | tuple | list) else -1


def shorter(size: int, count: int) -> int:
    """A size that depends on how many there were before: the first is the program's own."""
    return size - count * 3 % 5 * max(1, size // 16) if size >= 8 else size


def factory(name: str, number: Callable[[Any], int], applied: Applied) -> Callable[..., Any]:
    """torch's function, with another first dimension in each call by a program."""

    def vary(frame: Any, words: tuple[Any, ...]) -> tuple[Any, ...]:
        at = sized(name, words)
        code = frame.f_code
        if at < 0 or code.co_name == "forward" or "/tests/causes/" not in code.co_filename:
            return words
        size = words[at]
        first = size if isinstance(size, int) else size[0] if len(size) else 0
        new = shorter(first, number(frame))
        applied["lengths"] += new != first
        changed = new if isinstance(size, int) else (new, *size[1:])
        return (*words[:at], changed, *words[at + 1 :])

    names = {"original": getattr(torch, name), "vary": vary, "sys": sys}
    exec(compile(FACTORY, torch.functional.__file__, "exec"), names)
    return names["made"]


FACTORIES = ("rand", "randn", "randint", "zeros", "ones", "empty", "arange")


@contextlib.contextmanager
def lengths_by_call(applied: Applied) -> Iterator[None]:
    """The n-th call of the same place has another size than the one before."""
    calls: Counter[Any] = Counter()

    def number(frame: Any) -> int:
        place = frame.f_code, frame.f_lasti
        calls[place] += 1
        return calls[place] - 1

    for name in FACTORIES:
        setattr(torch, name, factory(name, number, applied))
    yield


@contextlib.contextmanager
def lengths_by_step(applied: Applied) -> Iterator[None]:
    """Sizes depend on the number of optimizer steps so far."""
    steps = itertools.count(1)
    now = [0]
    optimizer.register_optimizer_step_post_hook(lambda *_: now.__setitem__(0, next(steps)))
    for name in FACTORIES:
        setattr(torch, name, factory(name, lambda frame: now[0], applied))
    yield


def load_fake_devices() -> None:
    """Compile the fake devices of the CUDA adapter's tests, if needed, and pretend to have CUDA."""
    sys.path.insert(0, str(FAKE))
    spec = importlib.util.spec_from_file_location("fake_devices", FAKE / "conftest.py")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    import fake_torch

    from plimsoll._cuda import cuda_adapter
    from plimsoll._torch import adapter

    flags = ["-Wl,-soname,libc10_cuda.so"]
    allocator = tests.built(FAKE / "fake_c10_cuda.cc", "libc10_cuda.so", flags)
    flags = [f"-L{allocator.parent}", "-lc10_cuda", "-ltorch_cpu"]
    device = tests.built(FAKE / "fake_cuda_device.cc", "libfake_cuda_device.so", flags)
    fake = ctypes.CDLL(str(allocator), mode=ctypes.RTLD_GLOBAL)
    for name in ("fake_allocated", "fake_reserved", "fake_total"):
        getattr(fake, name).restype = ctypes.c_uint64
    fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    for index in range(2):
        fake.fake_set_limit(index, 16 << 30)
    cuda_adapter.CUDA = dataclasses.replace(cuda_adapter.CUDA, library_folders=(allocator.parent,))
    fake_torch.pretend(fake)
    ctypes.CDLL(str(device), mode=ctypes.RTLD_GLOBAL)
    for each in (adapter.CPU, cuda_adapter.CUDA):  # not within the time of a program
        adapter.compiled(each, lambda text: print(text, file=sys.stderr))


@contextlib.contextmanager
def cuda(applied: Applied) -> Iterator[None]:
    """New tensors are on the first fake device."""
    torch.set_default_device("cuda")
    applied["device"] += 1
    yield


@contextlib.contextmanager
def unchanged(applied: Applied) -> Iterator[None]:
    yield


Context = Callable[[Applied], contextlib.AbstractContextManager[None]]
# By mutation: its versions, of which the first in which a program runs counts.
RUN_MUTATIONS: dict[str, list[Context]] = {
    "bfloat16": [bfloat16],
    "lengths": [lengths_by_call, lengths_by_step],
    "cuda": [cuda],
}


def prepare(mutation: str) -> None:
    """What a process does before it runs programs."""
    torch.set_num_threads(1)
    if mutation == "cuda":
        load_fake_devices()
