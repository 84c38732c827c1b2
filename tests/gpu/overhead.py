"""The cost of recording on a GPU, compared with torch's allocator history and torch.profiler.

Pairs of blocks of the same steps, with and without recording, in random order.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import plimsoll


def overhead(
    make: Callable[[int, int], nn.Module], kind: str, limit_percent: str
) -> Iterator[tuple[str, bool, str]]:
    """Measure each variant, in percent of a step; Plimsoll must stay below the limit."""
    width, depth, batch = (4096, 8, 8192) if kind == "compute" else (64, 40, 8)
    model, x = make(width, depth).cuda(), torch.randn(batch, width, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def block(steps: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps

    @contextlib.contextmanager
    def torchs_history(stacks: str) -> Iterator[None]:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks=stacks)
        try:
            yield
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)

    variants: dict[str, Callable[[], Any]] = {
        "full": lambda: plimsoll.record("full.plim", overwrite=True, adapter="libtorch"),
        "lite": lambda: plimsoll.record(
            "lite.plim", overwrite=True, mode="lite", adapter="libtorch"
        ),
        "torch's history, python": lambda: torchs_history("python"),
        "torch's history, all": lambda: torchs_history("all"),
        "torch.profiler": lambda: torch.profiler.profile(profile_memory=True),
    }
    block(10)
    steps = max(5, round(0.5 / block(10)))
    dice = random.Random(0)
    for name, variant in variants.items():
        ratios = []
        for turn in range(22):
            first_without = dice.random() < 0.5
            without = block(steps) if first_without else 0.0
            with variant():
                block(2)
                seconds = block(steps)
            if not first_without:
                without = block(steps)
            if turn > 0:  # the first one compiles and imports
                ratios.append(100 * (seconds / without - 1))
        middle, low, high = interval(ratios)
        found = f"{middle:+.2f} % ({low:+.2f} to {high:+.2f}), {steps} steps a block"
        yield name, name not in ("full", "lite") or middle <= float(limit_percent), found


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median and its 95 % interval, by bootstrap."""
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]
