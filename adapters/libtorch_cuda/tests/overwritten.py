"""Trains on the fake devices while plimsoll verify overwrites their memory, which is the host's.

Usage: overwritten.py LIBC10_CUDA LIBFAKE_CUDA_DEVICE train
"""

import importlib
import sys
from types import SimpleNamespace

import torch
from torch.utils.checkpoint import checkpoint

from plimsoll import _record
from plimsoll._torch import adapter

ADDRESS = adapter.load(print).overwriting(_record.api_address())


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


if __name__ == "__main__":
    _record.api_address = lambda: ADDRESS  # for the CUDA adapter
    sys.modules["cases"] = SimpleNamespace(CASES={"train": train}, ARGUMENTS={})
    importlib.import_module("on_fake")  # runs the case
