"""Trains on the fake devices while plimsoll verify overwrites their memory, which is the host's.

Prints sums, which operators compute. First two models with streams, then the programs of
tests/uses/mechanisms.py, each with all its tensors on one of the devices.

Usage: overwritten.py LIBC10_CUDA LIBFAKE_CUDA_DEVICE train|read_by_address
"""

import ctypes
import importlib
import sys
from types import SimpleNamespace

import fake_torch
import torch
from tests.uses import mechanisms, programs
from torch.utils.checkpoint import checkpoint

from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._torch import adapter

ADAPTER = adapter.load(print)
ADDRESS = ADAPTER.overwriting(_record.api_address())

# The fake devices have no LSTM, no sparse tensors, and no array or capsule that shares memory.
NEED_LIBRARIES = {
    "uses/exchanged_by_capsule",
    "uses/read_without_an_operator",
    "uses/recurrent",
    "uses/sparse_tensors",
}


def steps(model, device, count=4):
    """Each step takes its batch from another stream."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = torch.cuda.Stream()
    for _ in range(count):
        with torch.cuda.stream(loader):
            x = torch.randn(32, 64).to(device)
        x.record_stream(loader)
        hidden = checkpoint(model[:2], x, use_reentrant=False)
        loss = model[2:](hidden).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del x
        torch.cuda.synchronize()
    return loss


def train():
    """Two devices, whose backward runs on a thread of autograd for each."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    results = []
    for device in ("cuda:0", "cuda:1"):
        layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)]
        results.append(steps(torch.nn.Sequential(*layers).to(device), device))
    first, second = torch.nn.Linear(64, 64).to("cuda:0"), torch.nn.Linear(64, 8).to("cuda:1")
    for _ in range(4):
        loss = second(first(torch.randn(32, 64).to("cuda:0")).relu().to("cuda:1")).square().mean()
        loss.backward()
    results += [loss, first.weight.grad.sum(), second.weight.grad.sum()]
    print([each.item() for each in results])
    for number, name in enumerate(mechanisms.NAMES):
        if name not in NEED_LIBRARIES:
            with torch.device(f"cuda:{number % 2}"):
                programs.run(name)


def read_by_address():
    """Reads memory of a device without an operator; no function of torch returns the address."""
    hidden = torch.ones(1000, device="cuda:1")
    address = fake_torch.address_of(hidden)
    kept = [torch.ones(10, device="cuda:1") for _ in range(20)]
    print(ctypes.c_float.from_address(address).value, len(kept))


def recorded(case):
    def run():
        # The recording began with `import torch`, when torch did not report that it has CUDA.
        cuda_hooks.begin(ADAPTER, lambda: None)
        case()

    return run


if __name__ == "__main__":
    _record.api_address = lambda: ADDRESS  # for the CUDA adapter
    cases = {case.__name__: recorded(case) for case in (train, read_by_address)}
    sys.modules["cases"] = SimpleNamespace(CASES=cases, ARGUMENTS={})
    importlib.import_module("on_fake")  # runs the case
