"""The cost of recording on a GPU, next to the cost of torch's allocator history and torch.profiler.

Every variant is measured in pairs: a block of steps with it, next to a block of the same steps
without it. Rounds of all variants in random order repeat until the time is used up.
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

MOST_ROUNDS, LEAST_ROUNDS = 20, 5
BLOCK_SECONDS = 0.25


def overhead(
    make: Callable[[int, int], nn.Module], kind: str, limit_percent: str, seconds: str = "24"
) -> Iterator[tuple[str, bool, str]]:
    """Measure each variant, in percent of a step; Plimsoll must stay below the limit.

    Args:
        make: Creates the model of a width and a depth.
        kind: "compute" (steps of about 0.1 s that fill an H100) or "launch" (many small kernels).
        limit_percent: Of the medians of "full" and "lite".
        seconds: For the rounds, without the first one, which compiles and imports.
    """
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

    block(3)
    step = block(3)
    steps = max(3, round(BLOCK_SECONDS / step))
    ratios = measured(block, steps, float(seconds))
    for name, values in ratios.items():
        middle, low, high = interval(values)
        found = (
            f"{middle:+.2f} % ({low:+.2f} to {high:+.2f}), {len(values)} pairs of {steps} steps of "
            f"{1000 * step:.1f} ms"
        )
        yield name, name not in ("full", "lite") or middle <= float(limit_percent), found


def variants() -> dict[str, Callable[[], Any]]:
    """Return the measured variants: functions that return context managers."""

    @contextlib.contextmanager
    def history(stacks: str) -> Iterator[None]:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks=stacks)
        try:
            yield
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)

    return {
        "full": lambda: plimsoll.record("full.plim", overwrite=True, adapter="libtorch"),
        "lite": lambda: plimsoll.record(
            "lite.plim", overwrite=True, mode="lite", adapter="libtorch"
        ),
        "torch's history, python": lambda: history("python"),
        "torch's history, all": lambda: history("all"),
        "torch.profiler": lambda: torch.profiler.profile(profile_memory=True),
    }


def measured(block: Callable[[int], float], steps: int, seconds: float) -> dict[str, list[float]]:
    """Return the overhead of each pair in percent, by variant.

    A block without recording lies between two variants and is paired with both.
    """
    dice, wanted = random.Random(0), variants()
    ratios: dict[str, list[float]] = {name: [] for name in wanted}

    def with_variant(name: str) -> float:
        with wanted[name]():
            block(2)
            return block(steps)

    for name in wanted:
        with_variant(name)
    end = time.monotonic() + seconds
    for turn in range(MOST_ROUNDS):
        if turn >= LEAST_ROUNDS and time.monotonic() >= end:
            break
        names = list(wanted)
        dice.shuffle(names)
        for first in range(0, len(names), 2):
            pair = names[first : first + 2]
            before = with_variant(pair[0])
            without = block(steps)
            ratios[pair[0]].append(100 * (before / without - 1))
            for name in pair[1:]:
                ratios[name].append(100 * (with_variant(name) / without - 1))
    return ratios


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median and its 95 % interval, by bootstrap."""
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]
