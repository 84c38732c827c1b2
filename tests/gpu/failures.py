"""Memory runs out in each part of a step: what is printed before the exception is raised.

Torch's own limit of the process makes the device small, so that any machine can be used.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from checks import MIB, check
from torch import nn

import plimsoll


def leave(spare_bytes: int) -> None:
    """From now on, the process may allocate only this much more."""
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    fraction = (torch.cuda.memory_reserved() + spare_bytes) / total
    torch.cuda.set_per_process_memory_fraction(min(fraction, 1.0))


class Model(nn.Module):
    """Two layers, the second of which has 64 MiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 4096)
        self.head = nn.Linear(4096, 4096)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.body(x).relu())
        return y


def reported_of(part: Callable[[], object]) -> list[str]:
    """Run a failing function; return the lines that were printed before the exception."""
    path = Path("run.oom.txt")
    before = len(path.read_text()) if path.is_file() else 0
    try:
        part()
    except torch.cuda.OutOfMemoryError:
        return path.read_text()[before:].splitlines() if path.is_file() else []
    check("memory runs out", False, "it did not")
    return []


def check_lines(lines: list[str], wanted: dict[str, str]) -> None:
    text = "\n".join(lines)
    for what, word in wanted.items():
        check(what, word in text, word if word in text else text)
    check("about ten lines", 6 <= len(lines) <= 13, len(lines))


def oom_in_backward() -> None:
    """A failure on an autograd thread: the layer and the line are those of forward."""
    with plimsoll.record("run.plim", adapter="libtorch"):
        model = Model().cuda()
        loss = model(torch.randn(256, 64, device="cuda")).square().mean()
        leave(24 * MIB)
        lines = reported_of(loss.backward)
    check_lines(
        lines,
        {
            "the layer": "requested by Model.head",
            "the phase": "backward",
            "the line of forward": "failures.py:",
            "the limit": "set by set_per_process_memory_fraction",
            "what fills it": "parameter 65.",
            "the command": "--at oom:1",
        },
    )


def oom_in_optimizer() -> None:
    """A failure in the first step of Adam, which allocates its state."""
    with plimsoll.record("run.plim", adapter="libtorch"):
        model = Model().cuda()
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        model(torch.randn(256, 64, device="cuda")).square().mean().backward()
        leave(24 * MIB)
        lines = reported_of(optimizer.step)
    check_lines(
        lines,
        {
            "the phase": "optimizer",
            "the line": "failures.py:",
            "parameters": "parameter 65.",
            "gradients": "gradient 65.",
        },
    )


def oom_search() -> None:
    """Searches for the largest batch: errors are caught, and each failure can be examined."""
    with plimsoll.record("run.plim", adapter="libtorch") as recording:
        model = Model().cuda()
        leave(48 * MIB)
        batch = 1 << 14
        lines: list[str] = []
        while batch > 1:
            try:
                model(torch.randn(batch, 64, device="cuda")).square().mean().backward()
                break
            except torch.cuda.OutOfMemoryError:
                lines = Path("run.oom.txt").read_text().splitlines()
                batch //= 4
        failures = sum(recording.failures.values())
    check("memory runs out several times", failures >= 2, failures)
    for number in range(1, min(failures, 3) + 1):
        check(
            f"failure {number} has its command",
            any(f"--at oom:{number}" in x for x in lines),
            number,
        )
    sys.stdout.flush()
    if importlib.util.find_spec("plimsoll._core") is None:
        return  # only the recorder is installed
    for number in range(1, failures + 1):
        trace = plimsoll.open("run.plim", device="cuda:0", at=f"oom:{number}")
        (point,) = trace.tables["points_in_time"]
        wanted = "oom" if failures == 1 else f"oom:{number}"
        check(f"failure {number} can be opened", point["name"] == wanted, point["name"])
