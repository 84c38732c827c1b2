#!/usr/bin/env python3
"""The cost of observing last uses, in instructions of the training thread, under valgrind.

Each variant records the same training in mode full, in a separate process. `micro` is limited by
the CPU: 20 layers of 32 x 32, SGD. `gpt` is a transformer of 4 layers and 128 features. Counting
begins after the warm-up, except for `sampled` (only of micro), where all steps count: the first
three are observed, and every 64th.

    apt install valgrind; pip install . && python bench/uses_cost.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from monitor_cost import control, total_of

STEPS = {"off": 6, "never": 6, "always": 6, "sampled": 200, "never from the first step": 200}
WARM_UP = 5


def micro() -> Callable[[], None]:
    import torch
    from torch import nn

    parts = [part for _ in range(20) for part in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*parts)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
    x = torch.randn(4, 32)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def gpt() -> Callable[[], None]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    blocks, embedding = nn.TransformerEncoder(layer, 4), nn.Embedding(512, 128)
    head = nn.Linear(128, 512)
    parameters = [*blocks.parameters(), *embedding.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    tokens = torch.randint(0, 512, (2, 64))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        scores = head(blocks(embedding(tokens)))
        nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step


WORKLOADS = {"micro": micro, "gpt": gpt}


def train(workload: str, variant: str, folder: str) -> None:
    """Train in the child under callgrind."""
    import torch

    import plimsoll

    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = WORKLOADS[workload]()
    uses = variant.split(" ")[0]
    warm_up = WARM_UP if STEPS[variant] < 64 else 0
    recording = plimsoll.record(Path(folder, "run.plim"), uses=uses) if uses != "off" else None
    with recording or nullcontext():
        for i in range(warm_up + STEPS[variant]):
            if i == warm_up:
                control("--instr=on")
                control("--zero")
            step()
        control("--dump")
    os._exit(0)


def count(workload: str, variant: str) -> float:
    """Return the instructions of one step."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"),
            f"--callgrind-out-file={folder}/out",
            *(sys.executable, __file__, "--child", variant),
            *("--workloads", workload, "--folder", folder),
        ]
        same = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=same)
        return total_of(Path(folder, "out.1-01")) / STEPS[variant]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--child", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return train(args.workloads[0], args.child, args.folder)
    print("instructions added by last uses, in percent of a step without a recording\n")
    print("| workload | a step | recorded, never | always | sampled, 200 steps |")
    print("|---|---|---|---|---|")
    for workload in args.workloads:
        off, never, always = (count(workload, each) for each in ("off", "never", "always"))
        cells = [f"{off:,.0f}", f"{never / off - 1:+.1%}", f"{(always - never) / off:+.2%}"]
        if workload == "micro":
            sampled = count(workload, "sampled") - count(workload, "never from the first step")
            cells.append(f"{sampled / off:+.2%}")
        print(f"| {workload} | {' | '.join(cells)} |", flush=True)
    return None


if __name__ == "__main__":
    main()
