#!/usr/bin/env python3
"""Compares fleets with Holistic Trace Analysis: the same ranks, in torch.profiler's format.

Eight processes train with FSDP2 on the CPU; one has a larger batch. Both tools read the profiler's
traces and are asked which rank differs. The time and the memory are those of all their processes.

    pip install '.[fleet]' HolisticTraceAnalysis && python bench/fleet_hta.py

--hta takes another Python, in whose environment HolisticTraceAnalysis is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAINING = """
import os, sys, torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.profiler import ProfilerActivity, profile

distributed.init_process_group("gloo")
torch.set_num_threads(1)
rank = distributed.get_rank()
model = nn.Sequential(*[
    nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(6)
])
for block in model:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
rows = 4096 if rank == ODD else 512
with profile(
    activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
) as profiler:
    for _ in range(int(sys.argv[2])):
        model(torch.randn(rows, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()
profiler.export_chrome_trace(f"{sys.argv[1]}/trace-{rank}.json.gz")
distributed.destroy_process_group()
"""

HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="/")
names = [name for name in dir(analysis) if name.startswith("get_")]
about = [name for name in names if "memory" in name]
print(f"{len(names)} analyses; about memory: {', '.join(about) or 'none'}")
"""

PLIMSOLL = """
import sys, tempfile
from plimsoll import fleet
with tempfile.TemporaryDirectory() as folder:
    added = fleet.add(folder, sys.argv[1:], run="traces")
    assert not added.problems, added.problems
    print(fleet.open(folder).show().verdicts[0]["title"])
"""


def tree_bytes(root: int) -> int:
    """Return the resident bytes of a process and its descendants."""
    parents, pages = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            pages[int(stat.parent.name)] = int(fields[21])
        except OSError:  # it has ended
            continue
    members = {root}
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more
    return sum(pages.get(pid, 0) for pid in members) * os.sysconf("SC_PAGE_SIZE")


def measured(python: str, program: str, paths: list[str]) -> tuple[float, int, str]:
    """Run the program; return its seconds, the most bytes of its processes, and its last line."""
    begin = time.perf_counter()
    most = 0
    with tempfile.TemporaryFile("w+") as out:
        command = [python, "-c", program, *paths]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        while process.poll() is None:
            most = max(most, tree_bytes(process.pid))
            time.sleep(0.05)
        seconds = time.perf_counter() - begin
        out.seek(0)
        text = out.read().strip()
        if process.returncode != 0:
            raise SystemExit(f"{python} ended with {process.returncode}:\n{text}")
        return seconds, most, text.rpartition("\n")[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hta", default=sys.executable, metavar="PYTHON")
    args = parser.parse_args()
    if subprocess.run([args.hta, "-c", "import hta"], capture_output=True, check=False).returncode:
        raise SystemExit("HTA is not installed: pip install HolisticTraceAnalysis, or use --hta")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "train.py")
        program.write_text(TRAINING.replace("ODD", str(args.ranks - 3)))
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={args.ranks}"]
        command = [*launch, "--standalone", str(program), folder, str(args.steps)]
        subprocess.run(command, check=True, capture_output=True)
        paths = [f"{folder}/trace-{rank}.json.gz" for rank in range(args.ranks)]
        size = sum(map(os.path.getsize, paths)) / 1e6
        print(f"{args.ranks} ranks of {args.steps} steps, {size:.0f} MB\n")
        print("| tool | time | memory of its processes | answer |\n|---|---|---|---|")
        for tool, python, source in (
            ("plimsoll fleet add and show", sys.executable, PLIMSOLL),
            ("HTA: TraceAnalysis()", args.hta, HTA),
        ):
            seconds, most, answer = measured(python, source, paths)
            print(f"| {tool} | {seconds:.1f} s | {most / 2**20:,.0f} MiB | {answer} |", flush=True)


if __name__ == "__main__":
    main()
