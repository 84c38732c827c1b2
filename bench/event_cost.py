#!/usr/bin/env python3
"""The cost of recording an operator with one allocation, and the part of it that the stack takes.

Times single calls of an operator that allocates and frees one small tensor, from a Python function
some frames deep, in short alternating blocks: nothing, `lite`, `full` without and with stacks. The
table has the quantiles of a call, and what recording adds to each. A call makes two events (an
allocation and a free), so the cost of one event is half of that.

    pip install . && python bench/event_cost.py
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager

import torch

import plimsoll

VARIANTS: dict[str, dict[str, object] | None] = {
    "off": None,
    "lite": {"mode": "lite"},
    "full, no stacks": {"mode": "full", "stacks": False},
    "full": {"mode": "full", "stacks": True},
}


def block(calls: int) -> list[int]:
    """Nanoseconds of each call, including those of the clock."""
    now, empty = time.perf_counter_ns, torch.empty
    took = []
    for _ in range(calls):
        begin = now()
        empty(64)
        took.append(now() - begin)
    return took


def deep(frames: int, calls: int) -> list[int]:
    return block(calls) if frames == 0 else deep(frames - 1, calls)


def variant(name: str, folder: str) -> AbstractContextManager[object]:
    options = VARIANTS[name]
    if options is None:
        return contextlib.nullcontext()
    path = os.path.join(folder, "bench.plim")
    return plimsoll.record(path, adapter="libtorch", overwrite=True, **options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=3000, help="of a block (3000)")
    parser.add_argument("--frames", type=int, default=10, help="below the call (10)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    took: dict[str, list[int]] = {name: [] for name in VARIANTS}
    medians: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for name in VARIANTS:
                with variant(name, folder):
                    deep(args.frames, 200)  # warm-up
                    gc.disable()
                    some = deep(args.frames, args.calls)
                    gc.enable()
                took[name] += some
                medians[name].append(statistics.median(some))
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}; {args.rounds} rounds of {args.calls} calls, "
        f"{args.frames} frames deep\n\n"
        "| variant | p50 ns | p99.9 ns | added, p50 ns | in the rounds (quartiles) |\n"
        "|---|---|---|---|---|"
    )
    for name, all_calls in took.items():
        all_calls.sort()
        middle = all_calls[len(all_calls) // 2]
        high = all_calls[len(all_calls) * 999 // 1000]
        pairs = zip(medians[name], medians["off"], strict=True)
        added = [with_it - without for with_it, without in pairs]
        low, half, upper = statistics.quantiles(added, n=4)
        print(f"| {name} | {middle} | {high} | {half:.0f} | {low:.0f} to {upper:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
