#!/usr/bin/env python3
"""What monitors cost a step that the host bounds, in instructions of the training thread.

Times of a step vary by several percent on a shared machine; its instructions do not. Each variant
trains the same model in a process of its own under valgrind's callgrind. Counting begins after the
warm-up and covers whole intervals, samples included.

    apt install valgrind; pip install . && python bench/monitor_cost.py            # some minutes
    python bench/monitor_cost.py --layers 12 --steps 100 --variants monitor        # one row
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

WARM_UP = 101  # steps: two samples at an interval of 50, so that all first times are over
INTERVAL = 50

VARIANTS = {
    "off": "no monitor",
    "monitor": "TrainingMonitor, text log and TensorBoard",
    "profiling": "the same with profile_tensors",
    "breakdown": "log_tensor_memory_breakdown with a SummaryWriter",
}


def after_step_of(variant: str, folder: str) -> Callable[[int], object]:
    """What the variant calls at the end of each step."""
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


def control(*words: str) -> None:
    command = ["callgrind_control", *words, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def train(variant: str, layers: int, steps: int, folder: str) -> None:
    """The child: trains under callgrind and has the steps after the warm-up counted."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(4, 32)
    after_step = after_step_of(variant, folder)
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            control("--instr=on")
            control("--zero")
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()
        after_step(step)
    control("--dump")
    os._exit(0)


def instructions_per_step(variant: str, layers: int, steps: int) -> float:
    """Of the training thread, which has the number 1."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"),
            f"--callgrind-out-file={folder}/out",
            *(sys.executable, __file__, "--child", variant, "--folder", folder),
            *("--layers", str(layers), "--steps", str(steps)),
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        counts = [
            int(line.split()[1])
            for path in Path(folder).glob("out*-01")
            for line in path.read_text(errors="replace").splitlines()
            if line.startswith("totals:")
        ]
    return max(counts) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--layers", type=int, default=75, help="12: micro of bench/overhead.py")
    parser.add_argument("--steps", type=int, default=2 * INTERVAL)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return train(args.child, args.layers, args.steps, args.folder)
    off = instructions_per_step("off", args.layers, args.steps)
    print(f"{args.layers} layers, {args.steps} steps, a sample every {INTERVAL}\n")
    print("| variant | instructions a step | added |")
    print("|---|---|---|")
    print(f"| {VARIANTS['off']} | {off:,.0f} | |")
    for variant in args.variants:
        if variant != "off":
            count = instructions_per_step(variant, args.layers, args.steps)
            print(f"| {VARIANTS[variant]} | {count:,.0f} | {count / off - 1:+.1%} |", flush=True)
    return None


if __name__ == "__main__":
    main()
