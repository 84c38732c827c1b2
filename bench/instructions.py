#!/usr/bin/env python3
"""The cost of recording in instructions of the training thread, counted by valgrind.

The times of a step vary by several percent on a shared machine. Its instructions vary by tenths of
a percent, with the addresses of dicts and of the C library's blocks. Each variant runs in a process
of its own, with the same hashes. Counting begins after the warm-up; variants of a whole recording
count all steps from the first, which is observed.

    apt install valgrind; pip install . && python bench/instructions.py --workloads micro
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

WARM_UP = 5
WORKLOADS = ["micro", "language_model", "burgers_unet"]


@dataclass(frozen=True)
class Variant:
    """What records the steps."""

    mode: Literal["off", "full", "lite", "monitor"]
    uses: Literal["always", "sampled", "never"] = "never"
    is_whole: bool = False  # all steps count
    attribution: Literal["observer", "native"] = "observer"

    def steps_in(self, args: argparse.Namespace) -> int:
        """Return how many steps count."""
        return int(args.whole if self.is_whole else args.steps)


VARIANTS = {
    "off": Variant("off"),
    "full": Variant("full"),
    "native": Variant("full", attribution="native"),
    "lite": Variant("lite"),
    "monitor": Variant("monitor"),
    "always": Variant("full", "always"),
    "whole": Variant("full", "never", is_whole=True),
    "sampled": Variant("full", "sampled", is_whole=True),
}


def control(*words: str) -> None:
    command = ["callgrind_control", *words, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def total_of(path: Path) -> int:
    lines = path.read_text(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def under_callgrind(program: str, *words: str, out: Path, seed: int = 0) -> None:
    """Run a Python program that begins to count with ``control``; its main thread has number 1."""
    command = [
        *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"),
        *(f"--callgrind-out-file={out}", sys.executable, program, *words),
    ]
    same = os.environ | {"PYTHONHASHSEED": str(seed)}
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=same)


@contextmanager
def recorded(variant: Variant, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the recorder's figures, of which ``events`` is filled in at the end."""
    import plimsoll

    figures: dict[str, Any] = {"after_step": lambda _: None, "events": 0}
    if variant.mode == "off":
        yield figures
    elif variant.mode == "monitor":
        with plimsoll.TrainingMonitor(output_dir=folder, interval=10_000) as monitor:
            figures["after_step"] = monitor.step
            yield figures
    else:
        path = Path(folder, "run.plim")
        with plimsoll.record(
            path, mode=variant.mode, uses=variant.uses, attribution=variant.attribution
        ) as recording:
            yield figures
        figures["events"] = recording.state["events"]


def train(workload: str, name: str, folder: str, args: argparse.Namespace) -> None:
    """Train in the child under callgrind."""
    import torch
    from workloads import WORKLOADS as MAKE

    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = MAKE[workload]().step
    variant = VARIANTS[name]
    warm_up = 0 if variant.is_whole else WARM_UP
    with recorded(variant, folder) as figures:
        for i in range(warm_up + variant.steps_in(args)):
            if i == warm_up:
                control("--instr=on")
                control("--zero")
            step()
            figures["after_step"](i)
        control("--dump")
    events = figures["events"] / (warm_up + variant.steps_in(args))
    Path(folder, "events.json").write_text(json.dumps(events))
    os._exit(0)


def count(workload: str, name: str, args: argparse.Namespace) -> tuple[float, float]:
    """Return the instructions and the events of one step."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--child", name, "--workloads", workload, "--folder", folder]
        words += ["--steps", str(args.steps), "--whole", str(args.whole)]
        under_callgrind(__file__, *words, out=Path(folder, "out"))
        total = total_of(Path(folder, "out.1-01")) / VARIANTS[name].steps_in(args)
        return total, json.loads(Path(folder, "events.json").read_text())


def cells_of(workload: str, args: argparse.Namespace) -> list[str]:
    # Last uses are added to the mode full without them.
    less = {"always": "full", "sampled": "whole"}
    names = {"off", *args.variants, *(less[each] for each in args.variants if each in less)}
    counts = {name: count(workload, name, args) for name in sorted(names)}
    off = counts["off"][0]
    added = {name: counts[name][0] - counts[less.get(name, "off")][0] for name in args.variants}
    full, events = counts.get("full", (off, 0.0))
    each = f"{(full - off) / events:,.0f}" if events else ""
    shares = [f"{added[name] / off:+.2%}" for name in args.variants]
    return [f"{off:,.0f}", f"{events:,.0f}", *shares, each]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    added = ["full", "native", "lite", "monitor", "always", "sampled"]
    parser.add_argument("--variants", nargs="+", choices=added, default=added)
    parser.add_argument("--steps", type=int, default=30, help="that count, after the warm-up (30)")
    parser.add_argument("--whole", type=int, default=200, help="steps of a whole recording (200)")
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    if args.child:
        return train(args.workloads[0], args.child, args.folder, args)
    print("| workload | a step | events | " + " | ".join(args.variants) + " | an event, full |")
    print("|---" * (len(args.variants) + 4) + "|")
    for workload in args.workloads:
        print(f"| {workload} | {' | '.join(cells_of(workload, args))} |", flush=True)
    return None


if __name__ == "__main__":
    main()
