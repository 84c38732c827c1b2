#!/usr/bin/env python3
"""The cost of recording a training step, next to torch.profiler and MemTracker, in one run.

Every round runs a block of the same steps under each variant, in an order that changes from round
to round, and compares each block with the block of that round without any variant. The table has
the median of these ratios and its 95 % interval (bootstrap over rounds). Starting, stopping and the
first step under a variant are not counted; writing the file is.

    pip install . && python bench/overhead.py                 # some minutes
    python bench/overhead.py --rounds 5 --workloads micro     # a quick run
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from workloads import WORKLOADS, Step, Workload

import plimsoll

# Variants -----------------------------------------------------------------------------------------


@dataclass
class Recorded:
    """The sums of the recordings of one workload and mode."""

    events: int = 0
    file_bytes: int = 0
    dropped: int = 0
    steps: int = 0


# Each variant is a context that returns the step to run in it.
Variant = Callable[[Workload], AbstractContextManager[Step]]


@contextmanager
def nothing(workload: Workload) -> Iterator[Step]:
    yield workload.step


def recording(mode: Literal["full", "lite"], reported: Recorded) -> Variant:
    @contextmanager
    def variant(workload: Workload) -> Iterator[Step]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.plim")
            with plimsoll.record(path, mode=mode, adapter="libtorch") as running:
                yield workload.step
            reported.events += running.state["events"]
            reported.dropped += running.state["dropped"]
            reported.file_bytes += os.path.getsize(path)

    return variant


@contextmanager
def monitored(workload: Workload) -> Iterator[Step]:
    """The usual monitors at their default intervals, with text log and TensorBoard."""
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(io.StringIO()):  # its banner
            batches = plimsoll.EpochMemoryMonitor(verbose_batches=0)
        with plimsoll.TrainingMonitor(output_dir=folder, tensorboard=True) as monitor:

            def step() -> None:
                workload.step()
                number = next(numbers)
                batches.on_batch_end(number)
                monitor.step(number)

            yield step
    plimsoll.stop_monitoring()


def profiler(with_stack: bool) -> Variant:
    @contextmanager
    def variant(workload: Workload) -> Iterator[Step]:
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            profile_memory=True,
            record_shapes=True,
            with_stack=with_stack,
        ):
            yield workload.step

    return variant


@contextmanager
def mem_tracker(workload: Workload) -> Iterator[Step]:
    tracker = MemTracker()
    tracker.track_external(workload.model, workload.optimizer)

    def step() -> None:
        workload.step()
        tracker.reset_mod_stats()  # required between steps

    with tracker:
        yield step


# Measuring ----------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Seconds per step of each round, by variant."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # the reason, by variant

    def ratios(self, variant: str) -> list[float]:
        """The ratio of each round to its block without any variant."""
        pairs = zip(self.seconds[variant], self.seconds["off"], strict=True)
        return [with_it / without for with_it, without in pairs]


RIVALS = ("profiler", "profiler, stacks", "MemTracker")
CLOCKS = {"wall": time.perf_counter, "thread": time.thread_time}
now = time.perf_counter


def seconds_a_step(workload: Workload, variant: Variant, steps: int) -> float:
    with variant(workload) as step:
        step()  # warm-up
        began = now()
        for _ in range(steps):
            step()
        return (now() - began) / steps


def measure(
    workload: Workload, variants: dict[str, Variant], args: argparse.Namespace
) -> tuple[Measured, int]:
    """Return all rounds, and the number of steps in a block."""
    for _ in range(5):
        workload.step()
    steps = max(2, round(args.seconds / seconds_a_step(workload, nothing, 5)))
    measured = Measured({name: [] for name in variants})
    order = random.Random(args.seed)
    for name, variant in variants.items():  # compiles and imports on first use
        try:
            seconds_a_step(workload, variant, 1)
        except Exception as problem:
            if name not in RIVALS:
                raise
            measured.refused[name] = f"{type(problem).__name__}: {problem}"
            workload.optimizer.zero_grad(set_to_none=True)
    willing = [name for name in variants if name not in measured.refused]
    for _ in range(args.rounds):
        for name in order.sample(willing, len(willing)):
            measured.seconds[name].append(seconds_a_step(workload, variants[name], steps))
    return measured, steps


def interval(values: list[float], seed: int) -> tuple[float, float, float]:
    """The median, and its 95 % interval by bootstrap."""
    dice = random.Random(seed)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


def percent(values: list[float], seed: int) -> str:
    middle, low, high = (100 * (value - 1) for value in interval(values, seed))
    return f"{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block (0.5)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (1); 0: as torch likes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="thread: CPU time of the training thread alone, for a busy machine; without the "
        "recorder's own thread",
    )
    parser.add_argument("--only-plimsoll", action="store_true", help="leave the others out")
    return parser.parse_args()


def main() -> int:
    global now
    args = parse_arguments()
    now = CLOCKS[args.clock]
    torch.manual_seed(args.seed)
    if args.threads > 0:
        torch.set_num_threads(args.threads)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} thread(s) of torch; Linux {platform.release()}; "
        f"Python {platform.python_version()}; torch {torch.__version__}; "
        f"plimsoll {plimsoll.__version__}; {args.rounds} rounds, "
        f"{args.clock} clock, median (95 % interval)\n"
    )
    names = ["full", "lite", "monitors"]
    if not args.only_plimsoll:
        names += RIVALS
    columns = ["workload", "ms a step", *names, "events a step", "ns an event", "bytes an event"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    for name in args.workloads:
        workload, full, lite = WORKLOADS[name](), Recorded(), Recorded()
        variants: dict[str, Variant] = {
            "off": nothing,
            "full": recording("full", full),
            "lite": recording("lite", lite),
            "monitors": monitored,
            "profiler": profiler(False),
            "profiler, stacks": profiler(True),
            "MemTracker": mem_tracker,
        }
        used = {each: variants[each] for each in ("off", *names)}
        measured, steps = measure(workload, used, args)
        blocks = args.rounds * (steps + 1) + 2
        off = statistics.median(measured.seconds["off"])
        per_step = full.events / blocks
        extra = off * (statistics.median(measured.ratios("full")) - 1)
        cells = [name, f"{1e3 * off:.2f}"]
        cells += [
            "refused" if each in measured.refused else percent(measured.ratios(each), args.seed)
            for each in names
        ]
        cells += [f"{per_step:,.0f}", f"{1e9 * extra / per_step:.0f}"]
        cells += [f"{full.file_bytes / full.events:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        for each, why in measured.refused.items():
            print(f"\n{each} refused {name}: {why}", file=sys.stderr)
        if full.dropped or lite.dropped:
            print(f"\n{full.dropped + lite.dropped} events were dropped.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
