"""Trainings on the fake devices, recorded through torch's own history; run by test_history.py.

Usage: without_adapter.py CASE LIBC10_CUDA LIBFAKE_CUDA_DEVICE TRACE
"""

import ctypes
import json
import os
import sys

import fake_history
import fake_torch
import torch
from torch import nn

import plimsoll
from plimsoll._cuda import cuda_history, cuda_hooks

case, allocator, device, path = sys.argv[1:]
fake = ctypes.CDLL(allocator, mode=ctypes.RTLD_GLOBAL)
for name in ("fake_allocated", "fake_reserved"):
    getattr(fake, name).restype = ctypes.c_uint64
fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
fake_torch.pretend(fake)
ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)


history = fake_history.History(fake)
cuda_history._SOONEST_S = float("inf")  # never a snapshot only because time has passed
MIB = 1 << 20


class Net(nn.Module):
    def __init__(self, width=256, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x) * self.scale)
        return x


def bytes_of(tensors):
    return sum(each.untyped_storage().nbytes() for each in tensors)


def train(model, steps, x=None):
    """The requested bytes of each category at the end."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(32, 256).cuda() if x is None else x
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    parameters = list(model.parameters())
    return {
        "keep": (optimizer, x),
        "parameter": bytes_of(parameters),
        "gradient": bytes_of(each.grad for each in parameters),
        "optimizer_state": bytes_of(each for each in states if each.is_cuda),
        "buffer": bytes_of(model.buffers()),
        "input": bytes_of([x]),
    }


def refuse():
    """Make the CUDA adapter unavailable, but not the CPU adapter."""
    fake.fake_set_backend(b"other")


adapter = "python"
if case in ("cpu_adapter",):
    adapter = "auto"
    refuse()
if case == "theirs":
    torch.cuda.memory._record_memory_history(max_entries=1000)
if case == "before":
    model = Net().cuda()

reported = {}
if case in ("train", "cpu_adapter", "theirs"):
    with plimsoll.record(path, adapter=adapter) as recording:
        model = Net().cuda()
        reported = train(model, 3)
        fake.fake_alloc(0, 5000, 0)  # allocated by a library outside any operator
        reported["allocated"] = fake.fake_allocated(0)
        reported["reserved"] = fake.fake_reserved(0)
elif case == "before":
    with plimsoll.record(path, adapter=adapter):
        reported = train(model, 2)
elif case == "oom":
    with plimsoll.record(path, adapter=adapter):
        model = Net().cuda()
        reported = train(model, 2)
        fake.fake_set_limit(0, fake.fake_reserved(0) + 4 * MIB)
        try:
            torch.empty(64 * MIB, device="cuda")
        except torch.cuda.OutOfMemoryError:
            print("went on", file=sys.stderr)
elif case == "killed":
    cuda_history._SOONEST_S = 0.0
    cuda_history._COST = 0
    recording = plimsoll.record(path, adapter=adapter).start()
    model = Net().cuda()
    reported = train(model, 3)
    recording.flush()
    print(json.dumps({"snapshots": history.snapshots}), flush=True)
    os.kill(os.getpid(), 9)
elif case == "taken":
    with plimsoll.record(path, adapter=adapter):
        model = Net().cuda()
        torch.cuda.memory._record_memory_history(max_entries=77)  # now it is the program's
        reported = train(model, 1)
    assert history.enabled == "all"
elif case == "report":
    with plimsoll.record(path, adapter=adapter) as recording:
        model = Net().cuda()
        reported = train(model, 2)
        devices = {each["device"] for each in recording.report().devices}
        assert 0 in devices, devices
else:
    raise SystemExit(f"no case {case}")

assert not cuda_history.is_on()
assert torch._C._cuda_record_memory_history == history.switch
reported.pop("keep", None)
print(
    json.dumps(
        reported
        | {"calls": history.calls, "snapshots": history.snapshots, "problem": cuda_hooks.problem()}
    )
)
