"""A recorded training-like program on fake devices; test_recording.py runs one case per process.

Usage: program.py CASE PATH-OF-LIBC10_CUDA TRACE
"""

import ctypes
import dataclasses
import os
import signal
import sys
from pathlib import Path

import fake_torch
import torch

import plimsoll
from plimsoll import _record
from plimsoll._cuda import cuda_adapter, cuda_history, cuda_hooks
from plimsoll._oom import memory_lines
from plimsoll._torch import adapter, attachment
from plimsoll.errors import AdapterError

MIB = 1 << 20
case, library, trace = sys.argv[1:]

fake = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
for name in ("fake_alloc", "fake_allocated", "fake_reserved", "fake_total"):
    getattr(fake, name).restype = ctypes.c_uint64
fake.fake_alloc.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64]
fake.fake_free.argtypes = [ctypes.c_uint64]
fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
fake.fake_set_fraction.argtypes = [ctypes.c_int, ctypes.c_double]
fake.fake_enlarge_next.argtypes = [ctypes.c_int, ctypes.c_uint64]
cuda_adapter.CUDA = dataclasses.replace(cuda_adapter.CUDA, library_folders=(Path(library).parent,))
devices = fake_torch.pretend(fake)

kept = []


def kernel(x, size):
    """An operator that allocates memory on a device and keeps it."""
    kept.append(fake.fake_alloc(0, size, 0))
    return x.clone()


operators = torch.library.Library("fake", "DEF")
operators.define("kernel(Tensor x, int size) -> Tensor")
operators.impl("kernel", kernel, "CPU")


class Block(torch.nn.Module):
    def forward(self, x):
        return torch.ops.fake.kernel(x, 3 * MIB)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x)


def same_sums():
    for device, row in enumerate(cuda_hooks.state()):
        assert row["allocated_bytes"] == fake.fake_allocated(device), row
        assert row["reserved_bytes"] == fake.fake_reserved(device), row
        assert row["disproved"] == 0, row


model, x = Model(), torch.ones(3)
if case == "late":  # CUDA is initialised while recording runs
    with plimsoll.record(trace) as recording:
        assert cuda_hooks.state() == []
        torch.cuda.init()
        model(x)
        same_sums()
        assert [row["allocated_bytes"] for row in cuda_hooks.state()] == [3 * MIB, 0]
    assert cuda_hooks.state() == []
    assert recording.peaks["cuda:0"] == 3 * MIB
elif case == "early":  # and before it, with live memory
    torch.cuda.init()
    kept.append(fake.fake_alloc(1, 40 * MIB, 0))
    with plimsoll.record(trace):
        model(x)
        same_sums()
        assert [row["allocated_bytes"] for row in cuda_hooks.state()] == [3 * MIB, 40 * MIB]
elif case == "twice":
    for turn in range(2):
        with plimsoll.record(f"{trace}.{turn}"):
            torch.cuda.init()
            model(x)
            same_sums()
        fake.fake_free(kept.pop())  # while nothing is recorded
    with plimsoll.record(trace):
        model(x)
        same_sums()
elif case == "oom":
    torch.cuda.init()
    fake.fake_set_limit(0, 40 * MIB)
    with plimsoll.record(trace):
        for _ in range(2):
            model(x)
            plimsoll.step()
        for _ in range(20):
            model(x)
        sys.stderr.flush()
        print("went on")
elif case == "fragmented":  # every other block is kept, so the free memory is in small pieces
    fake.fake_set_conf(b"expandable_segments:True")
    torch.cuda.init()
    fake.fake_set_limit(0, 40 * MIB)
    with plimsoll.record(trace):
        for _ in range(4):
            model(x)
        plimsoll.step()
        for index in (0, 2):
            fake.fake_free(kept[index])
        fake.fake_alloc(0, 30 * MIB, 0)
elif case == "alone":  # no engine is installed
    sys.modules["plimsoll.trace"] = None
    torch.cuda.init()
    fake.fake_set_limit(0, 40 * MIB)
    with plimsoll.record(trace):
        for _ in range(12):
            model(x)
        plimsoll.step()
        for index in (0, *range(2, 8), 9, 10, 11):  # one block stays in each segment
            fake.fake_free(kept[index])
        fake.fake_alloc(0, 30 * MIB, 0)
elif case == "faulty":  # an error in the lines about what fills the device

    def of_trace(*_):
        yield "device       of the first lines"
        raise KeyError("reserved_bytes")

    memory_lines.of_trace = of_trace
    torch.cuda.init()
    fake.fake_set_limit(0, 20 * MIB)
    with plimsoll.record(trace):
        fake.fake_alloc(0, 30 * MIB, 0)
        print("went on")
elif case == "limited":  # the device has free memory that the process may not use
    torch.cuda.init()
    fake.fake_set_limit(0, 200 * MIB)
    fake.fake_set_fraction(0, 0.1)
    with plimsoll.record(trace):
        model(x)
        fake.fake_alloc(0, 30 * MIB, 0)
elif case == "search":  # search for the largest batch: failures that are caught
    torch.cuda.init()
    fake.fake_set_limit(1, 40 * MIB)
    with plimsoll.record(trace) as recording:
        for mib in (300, 200, 100, 50, 20):
            fake.fake_alloc(1, mib * MIB, 0)
    assert recording.failures == {1: 4}
elif case == "corrected":
    torch.cuda.init()
    with plimsoll.record(trace):
        fake.fake_enlarge_next(1, 4096)
        kept.append(fake.fake_alloc(1, 1000, 0))
elif case == "killed":
    torch.cuda.init()
    fake.fake_set_limit(0, 40 * MIB)
    plimsoll.record(trace).start()
    for _ in range(13):
        model(x)
    os.kill(os.getpid(), signal.SIGKILL)
elif case == "end":  # it catches some failures, makes progress, and ends with another one
    torch.cuda.init()
    fake.fake_set_limit(0, 40 * MIB)
    with plimsoll.record(trace):
        for _ in range(20):
            model(x)
        for address in kept[1:]:
            if address != 0:
                fake.fake_free(address)
        plimsoll.step()
        fake.fake_set_limit(0, 1 * MIB)
        torch.ops.fake.kernel(x, 21 * MIB)
        raise torch.OutOfMemoryError("CUDA out of memory.")
elif case == "switched":  # a monitor begins while the adapters are compiled
    load, is_compiled = attachment._load, []

    class Compilation:
        since_ns = 0

        def __init__(self, folder):
            pass

        def has_ended(self):
            return bool(is_compiled)

    def load_if_compiled(say, elsewhere_since_ns=None):
        if elsewhere_since_ns is not None and not is_compiled:
            raise adapter.NotCompiledError("cache")
        load(say, elsewhere_since_ns)

    attachment.Compilation, attachment._load = Compilation, load_if_compiled
    torch.cuda.init()
    model(x)
    tracker = plimsoll.MemoryTracker()
    model(x)
    assert cuda_hooks.state() == []
    assert not cuda_history.is_on()
    is_compiled.append(True)
    tracker.record("between two steps")
    for live in (6, 3, 0):
        same_sums()
        (cuda,) = [each for each in _record.take_sample().devices if each.name == "cuda:0"]
        assert (cuda.live_bytes, cuda.allocated_bytes) == (live * MIB, live * MIB)
        if kept:
            fake.fake_free(kept.pop())
    plimsoll.stop_monitoring()
    assert cuda_hooks.state() == []
elif case == "never":  # a CUDA build, and a program that uses no CUDA
    with plimsoll.record(trace):
        model = torch.nn.Linear(3, 3)
        model(x)
    assert cuda_hooks.state() == []
    assert "plimsoll._cuda.cuda_adapter" in sys.modules  # this program itself imports it
elif case in ("refused", "python"):
    if case == "refused":
        load = adapter.load_adapter

        def refuse(source, *words):
            if source is cuda_adapter.CUDA:
                raise AdapterError("there are no headers of CUDA")
            return load(source, *words)

        adapter.load_adapter = refuse
    reported = []
    torch.cuda.memory._record_memory_history = lambda enabled="all", **words: reported.append(
        enabled
    )
    torch.cuda.memory._snapshot = fake_torch.snapshot
    with plimsoll.record(trace, adapter="auto" if case == "refused" else "python"):
        torch.cuda.init()
    assert reported == ["all", None], reported
elif case == "async":  # an allocator without a history, which throws

    def throw(*words, **others):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory.\nAt line 1")

    fake.fake_set_backend(b"cudaMallocAsync")
    torch._C._cuda_isHistoryEnabled = torch.cuda.memory._record_memory_history = throw
    with plimsoll.record(trace):
        torch.cuda.init()
        assert torch.cuda.is_initialized()
        fake.fake_alloc(0, 3 * MIB, 0)
    with plimsoll.record(trace, overwrite=True):  # and started afterwards
        model(x)
else:
    raise SystemExit(f"no case {case}")
