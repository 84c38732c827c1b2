"""Workspaces of libraries: their category equals the bytes that torch frees when it clears them."""

from __future__ import annotations

import importlib.util

import torch
from checks import check
from torch import nn

import plimsoll
from plimsoll import _record
from plimsoll._cuda import cuda_hooks


class Net(nn.Module):
    """Two multiplications with a bias, for which torch uses cuBLASLt where it can."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x).relu())
        return y


def shares() -> tuple[dict[str, int], dict[str, int]]:
    """Return the live bytes of the first device by category and by layer."""
    torch.cuda.synchronize()
    (row,) = [each for each in _record.take_sample().devices if each.name == "cuda:0"]
    categories = {each.name: each.size_bytes for each in row.categories}
    return categories, {each.name: each.size_bytes for each in row.layers}


def multiply() -> None:
    """Multiply on the main thread, on autograd's and on two more streams."""
    model, x = Net().cuda(), torch.randn(64, 256, device="cuda")
    for _ in range(2):
        model(x).square().mean().backward()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream), torch.no_grad():
            torch.mm(x, x.t())
    torch.cuda.synchronize()


def compare(mode: str) -> None:
    """Compare the recorded workspaces with what torch frees; layers must not change."""
    torch._C._cuda_clearCublasWorkspaces()  # of earlier work, which a recording would adopt
    with plimsoll.record("run.plim", mode=mode, adapter="libtorch", overwrite=True):
        multiply()
        categories, layers = shares()
        allocated = torch.cuda.memory_allocated()
        torch._C._cuda_clearCublasWorkspaces()
        freed = allocated - torch.cuda.memory_allocated()
        after, layers_after = shares()
        ours = categories.get("workspace", 0)
        check(f"{mode}: workspaces are torch's", ours == freed > 0, f"{ours} for {freed} bytes")
        check(f"{mode}: none remains", after.get("workspace", 0) == 0, after)
        (state, *_) = cuda_hooks.state()
        found = f"{state['walks']} for {state['events']} events"
        check(f"{mode}: the stack is rarely unwound", 0 < state["walks"] < 200, found)
        same = {name: size for name, size in layers.items() if name}
        same_after = {name: size for name, size in layers_after.items() if name}
        check(f"{mode}: layers exclude them", same == same_after, f"{same}, then {same_after}")


def convolve() -> None:
    """Let cuDNN try its plans: the memory that this takes belongs to no layer."""
    torch.backends.cudnn.benchmark = True
    with plimsoll.record("conv.plim", adapter="libtorch", overwrite=True):
        model = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()).cuda()
        model(torch.randn(8, 32, 64, 64, device="cuda")).square().mean().backward()
        categories, _ = shares()
    check("cuDNN's have been freed", categories.get("workspace", 0) == 0, categories)
    if importlib.util.find_spec("plimsoll._core") is None:
        return  # only the recorder is installed; the trace is kept
    events = plimsoll.open("conv.plim", device="cuda:0").events.to_pydict()
    rows = [
        row
        for row, action in enumerate(events["action"])
        if action == "alloc" and events["category"][row] == "workspace"
    ]
    sizes = [events["size_bytes"][row] for row in rows]
    check("cuDNN's are recognized", rows, f"{len(rows)}, the largest {max(sizes, default=0)} bytes")
    found = {(events["layer"][row] or "", events["stack"][row] or 0) for row in rows}
    check("without layer and line", found <= {("", 0)}, found)


def workspaces() -> None:
    """Run all checks."""
    for mode in ("full", "lite"):
        compare(mode)
    convolve()
