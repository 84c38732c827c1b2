#!/usr/bin/env python3
"""The cost of monitors in a step limited by the CPU, in instructions of the training thread.

The times of a step vary by several percent on a shared machine. Its instructions vary by tenths of
a percent, with the addresses of dicts and of the C library's blocks. Each variant trains the same
model, once for each seed of Python's hashes, in a separate process under valgrind's callgrind.
Counting begins after the warm-up. Steps between samples, and samples with the step that they end,
are counted separately.

    apt install valgrind; pip install . && python bench/monitor_cost.py            # half an hour
    python bench/monitor_cost.py --layers 12 --variants monitor                    # one row
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from instructions import control, total_of, under_callgrind

INTERVAL = 50  # steps
WARM_UP = 2 * INTERVAL + 1  # steps, with three samples, so that nothing runs for the first time
BETWEEN = INTERVAL - 2  # steps counted between samples; then two with a sample

VARIANTS = {
    "off": "no monitor",
    "monitor": "TrainingMonitor, text log and TensorBoard",
    "profiling": "the same with profile_tensors",
    "breakdown": "log_tensor_memory_breakdown with a SummaryWriter",
}


def after_step_of(variant: str, folder: str) -> Callable[[int], object]:
    """Return the function that the variant calls at the end of each step."""
    import plimsoll

    if variant in ("monitor", "profiling"):
        monitor = plimsoll.TrainingMonitor(
            output_dir=folder,
            tensorboard=True,
            interval=INTERVAL,
            profile_tensors=variant == "profiling",
        )
        return monitor.step
    if variant == "breakdown":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(folder)
        return lambda step: plimsoll.log_tensor_memory_breakdown(writer, step, INTERVAL)
    return lambda _: None


def train(variant: str, layers: int, samples: int, folder: str) -> None:
    """Train in the child under callgrind, which counts the steps after the warm-up."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(4, 32)
    after_step = after_step_of(variant, folder)
    for step in range(WARM_UP + samples * INTERVAL):
        if step == WARM_UP:
            control("--instr=on")
            control("--zero")
        elif step > WARM_UP and (step - WARM_UP) % INTERVAL in (0, BETWEEN):
            control("--dump")
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()
        after_step(step)
    control("--dump")
    os._exit(0)


class Counts(NamedTuple):
    """Instructions of the training thread."""

    step: float  # between samples
    sample: float  # including the last two steps of its interval


def count(variant: str, layers: int, samples: int, seed: int) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--child", variant, "--folder", folder]
        words += ["--layers", str(layers), "--samples", str(samples)]
        under_callgrind(__file__, *words, out=Path(folder, "out"), seed=seed)
        # The training thread has number 1; dumps are counted from 1.
        totals = [total_of(Path(f"{folder}/out.{1 + i}-01")) for i in range(2 * samples)]
    return Counts(sum(totals[::2]) / (samples * BETWEEN), sum(totals[1::2]) / samples)


def row(off: list[Counts], ours: list[Counts]) -> str:
    added = [after.step / before.step - 1 for before, after in zip(off, ours, strict=True)]
    samples = [
        (after.sample - before.sample) / before.step
        for before, after in zip(off, ours, strict=True)
    ]
    return (
        f"{fmean(each.step for each in ours):,.0f} | {fmean(added):+.2%}"
        f" | {min(added):+.2%} to {max(added):+.2%} | {fmean(samples):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--layers", type=int, default=75, help="12: micro of bench/overhead.py")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return train(args.child, args.layers, args.samples, args.folder)
    print(f"{args.layers} layers, {args.samples} samples, one every {INTERVAL} steps\n")
    print("| variant | a step between samples | added | by seed | a sample, in steps |")
    print("|---|---|---|---|---|")
    off = [count("off", args.layers, args.samples, seed) for seed in args.seeds]
    print(f"| {VARIANTS['off']} | {fmean(each.step for each in off):,.0f} | | | |", flush=True)
    for variant in args.variants:
        if variant != "off":
            ours = [count(variant, args.layers, args.samples, seed) for seed in args.seeds]
            print(f"| {VARIANTS[variant]} | {row(off, ours)} |", flush=True)
    return None


if __name__ == "__main__":
    main()
