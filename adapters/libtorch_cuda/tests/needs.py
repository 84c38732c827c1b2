"""What a failed step would have needed: programs that run it twice, with and without enough memory.

Usage: needs.py LIBC10_CUDA LIBFAKE_CUDA_DEVICE CASE

Each case trains on a fake device until its last step, which needs most. It prints, as JSON, the
peak of that step, and for each smaller device what Plimsoll estimated when the step failed.
"""

import ctypes
import dataclasses
import json
import sys
from pathlib import Path

import fake_torch
import torch
from torch import nn

import plimsoll
from plimsoll._cuda import cuda_adapter

MIB = 1 << 20
allocator, device, name = sys.argv[1:]

fake = ctypes.CDLL(allocator, mode=ctypes.RTLD_GLOBAL)
for function in ("fake_allocated", "fake_reserved", "fake_total"):
    getattr(fake, function).restype = ctypes.c_uint64
fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
cuda_adapter.CUDA = dataclasses.replace(
    cuda_adapter.CUDA, library_folders=(Path(allocator).parent,)
)
fake_torch.pretend(fake)
ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 4, 3, d // 4).permute(3, 0, 2, 1, 4)
        scores = (q @ k.transpose(-1, -2) / 8).softmax(-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(b, t, d))


def mlp(width=512, depth=6):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).cuda()


def step(model, optimizer, shape):
    x = torch.randn(shape, device="cuda")
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


limit_of_last_step = 1 << 40


def shrink():
    """Make the device as small as this run wants it, before the step that is to fail."""
    torch.cuda.empty_cache()
    fake.fake_set_limit(0, limit_of_last_step)


def train(model, optimizer, batches):
    *others, last = batches
    for batch in others:
        step(model, optimizer, batch)
    shrink()
    step(model, optimizer, last)


def growing_batch():
    """Twice the samples at every other step, as a search for the largest batch does."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, [(batch, 512) for batch in (512, 512, 1024, 1024, 4096)])


def growing_length():
    """The scores of attention grow with the square of the length."""
    model = nn.Sequential(*(Attention(64) for _ in range(3))).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, [(4, length, 64) for length in (96, 128, 112, 512)])


def equal_batches():
    """The same step again, on a device that another process has filled meanwhile."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, lr=0.01)
    train(model, optimizer, [(2048, 512)] * 4)


def optimizer():
    """Adam's temporaries make the peak of every step."""
    model = mlp(1024, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, [(64, 1024)] * 4)


def first_step():
    """Adam's state is as large as the parameters and their gradients together."""
    model = mlp(1024, 8)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    shrink()
    optimizer.step()


def validation():
    """A larger batch, without no_grad(), after training."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        step(model, optimizer, (512, 512))
    shrink()
    loss = validate(model, torch.randn(4096, 512, device="cuda"))
    del loss
    plimsoll.step()


def validate(model, x):
    return model(x).square().mean()


# How much of the last step's own memory the device has.
CASES = {
    growing_batch: (0.1, 0.5, 0.8, 0.95),
    growing_length: (0.02, 0.4, 0.9),
    equal_batches: (0.2, 0.6, 0.9),
    optimizer: (0.2, 0.6, 0.9),
    first_step: (0.05, 0.3, 0.7),
    validation: (0.1, 0.6),
}


def record(case, limit, path):
    """Run a case; return the trace and its device."""
    global limit_of_last_step
    limit_of_last_step = limit
    fake.fake_set_limit(0, 1 << 40)
    torch.manual_seed(0)
    with plimsoll.record(path, adapter="libtorch"):
        torch.cuda.init()
        try:
            case()
        except torch.cuda.OutOfMemoryError as error:
            error.__traceback__ = None
    torch.cuda.empty_cache()
    trace = plimsoll.open(path)
    (row,) = [each for each in trace.devices if each["device"] == 0]
    return trace, row


def main():
    (case,) = [each for each in CASES if each.__name__ == name]
    trace, _ = record(case, 1 << 40, "whole.plim")
    rows = [row for row in trace.tables["steps"] if row["device"] == 0]
    steps = [row for row in rows if row["is_complete"]]
    peak = steps[-1]["peak_bytes"]
    before = steps[-2]["end_bytes"] if len(steps) > 1 else peak * 2 // 5
    runs = []
    for share in CASES[case]:
        limit = before + int(share * (peak - before))
        trace, row = record(case, limit, f"failed{len(runs)}.plim")
        details = row["oom_details"][-1] if row["oom_details"] else None
        (finding, *_) = [each for each in trace.findings if each["id"] == "out_of_memory"] or [None]
        runs.append({"limit": limit, "details": details, "finding": finding})
    print(json.dumps({"peak": peak, "runs": runs}))


main()
