#!/usr/bin/env python3
"""The cost of MemoryTracer: of a block by itself, and of a model traced in it.

First the CPU time of entering and leaving an empty block, and of reading it afterwards. Then the
time of a forward, untraced and traced (each in a separate block, and all in one block), in full and
in lite mode, in turns. The clock runs inside the block, as in a program that measures its own step;
the first table has the cost of the block itself.

    pip install . && python bench/tracer_cost.py
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import plimsoll

WIDTH = 512


def model_of(blocks: int) -> nn.Module:
    """Blocks of two linear layers and a GELU: a transformer's feed-forward part."""
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(blocks)
        )
    )


def quantiles(values: list[float]) -> str:
    ordered = sorted(values)
    return (
        f"{statistics.median(ordered):.2f}"
        f" ({ordered[len(ordered) // 10]:.2f}-{ordered[len(ordered) * 9 // 10]:.2f})"
    )


def cost_of_blocks(blocks: int, times: int) -> None:
    print(f"{len(gc.get_objects()):,} objects in the process\n")
    print("| mode | first enter + leave, ms | enter, ms | leave, ms | reading a block, ms |")
    print("|---|---|---|---|---|")
    for mode in ("full", "lite"):
        model, rows = model_of(blocks), torch.randn(8, WIDTH)
        tracer = plimsoll.MemoryTracer(mode=mode)
        entering, leaving = [], []
        for _ in range(times + 1):
            block = tracer.trace(model)
            before = time.process_time_ns()
            block.__enter__()
            entered = time.process_time_ns()
            with torch.no_grad():
                model(rows)
            done = time.process_time_ns()
            block.__exit__(None, None, None)
            after = time.process_time_ns()
            entering.append((entered - before) / 1e6)
            leaving.append((after - done) / 1e6)
        before = time.process_time_ns()
        tracer.get_layer_stats()
        reading = (time.process_time_ns() - before) / 1e6 / (times + 1)
        first = entering.pop(0) + leaving.pop(0)
        print(
            f"| {mode} | {first:.1f} | {quantiles(entering)} | {quantiles(leaving)}"
            f" | {reading:.2f} |"
        )


def overhead(blocks: int, times: int, batch: int) -> None:
    model, rows = model_of(blocks), torch.randn(batch, WIDTH)
    calls = sum(1 for _ in model.modules())

    def forward() -> float:
        began = time.perf_counter()
        model(rows)
        return (time.perf_counter() - began) * 1e3

    for _ in range(10):
        forward()

    def alone() -> float:
        return forward()

    def in_a_block(tracer: plimsoll.MemoryTracer) -> Callable[[], float]:
        def run() -> float:
            with tracer.trace(model):
                return forward()

        return run

    tracers = {mode: plimsoll.MemoryTracer(mode=mode) for mode in ("full", "lite")}
    variants = {"not traced": alone}
    variants |= {f"{mode}, a block each": in_a_block(each) for mode, each in tracers.items()}
    took: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(times):
        for name, run in variants.items():
            took[name].append(run())
    for mode in ("full", "lite"):
        name = f"{mode}, one block"
        took[name] = []
        tracer = plimsoll.MemoryTracer(mode=mode)
        plain: list[float] = []
        for _ in range(10):  # alternating, so that both run under the same conditions
            with tracer.trace(model):
                took[name] += [forward() for _ in range(times // 10)]
            plain += [forward() for _ in range(times // 10)]
        took[f"{name}: not traced"] = plain
    print(f"\n{calls} module calls a forward, batch {batch}, {times} forwards each\n")
    print("| | forward, ms | against not traced |")
    print("|---|---|---|")
    for name, values in took.items():
        if name.endswith(": not traced"):
            continue
        against = took.get(f"{name}: not traced", took["not traced"])
        ratio = statistics.median(
            ours / other for ours, other in zip(values, against, strict=False)
        )
        print(f"| {name} | {quantiles(values)} | {ratio - 1:+.1%} |")


def resident_bytes() -> int:
    """Return the memory of the process, without what malloc only keeps for reuse."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_of_events() -> None:
    model, rows = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.ones(4, 64)

    def read_block(steps: int) -> tuple[int, int, int]:
        """Return the events of a block, and the bytes of its tracer before and after reading."""
        tracer = plimsoll.MemoryTracer(max_events=10_000_000)
        before = resident_bytes()
        with tracer.trace(model):
            for _ in range(steps):
                model(rows).sum().backward()
        unread = resident_bytes() - before
        events = len(tracer.events)
        tracer.get_layer_stats()
        return events, unread, resident_bytes() - before

    read_block(10)
    print("\n| events of a block | not read, MB | read, MB | bytes an event |")
    print("|---|---|---|---|")
    for steps in (2_800, 28_000):
        events, unread, read = read_block(steps)
        print(f"| {events:,} | {unread / 1e6:.1f} | {read / 1e6:.1f} | {read / events:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=8, help="of three layers each")
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, torch {torch.__version__}, plimsoll {plimsoll.__version__}"
    )
    cost_of_blocks(arguments.blocks, arguments.times)
    overhead(arguments.blocks, arguments.times, arguments.batch)
    memory_of_events()


if __name__ == "__main__":
    main()
