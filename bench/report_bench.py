#!/usr/bin/env python3
"""How fast is `plimsoll report`, against CPython's `pickle.load` alone? One table from one run.

Generates the files, then runs both programs in turn, pair after pair, and prints medians with
their spread. `plimsoll report` does all it does for a user; `pickle.load` only builds the objects
that every Python tool starts from. Peak memory is the kernel's own count for each child (wait4).
The files have been read once before, so the disk plays no part.

    python3 bench/report_bench.py                    the full table: 8 M events, 6 GB of memory
    python3 bench/report_bench.py --events 500000    the same, smaller
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LATENCY_EVENTS = 28_000  # about 4 MB
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


@dataclass
class Run:
    """The cost of one child."""

    seconds: float
    peak_bytes: int


@dataclass
class Row:
    """One file, and the cost of both programs on it, pair by pair."""

    name: str
    events: int
    file_bytes: int
    ours: list[Run]
    theirs: list[Run]


def measure(command: list[str]) -> Run:
    """Runs a command to its end.

    The peak is at least that of this script, about 15 MB, because the kernel
    also counts the time between fork and exec.
    """
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_maxrss * unit)


def read_once(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 18):
            pass


def run_pairs(name: str, path: Path, events: int, options: argparse.Namespace) -> Row:
    ours = [options.plimsoll, "report", str(path)]
    theirs = [options.python, "-c", LOAD, str(path)]
    row = Row(name, events, path.stat().st_size, [], [])
    read_once(path)
    for pair in range(options.pairs):
        # The programs alternate in going first, so that neither always finds a warmer machine.
        for is_ours in (True, False) if pair % 2 == 0 else (False, True):
            run = measure(ours if is_ours else theirs)
            (row.ours if is_ours else row.theirs).append(run)
            who = "plimsoll report" if is_ours else "pickle.load"
            print(f"  {name}: {who} {run.seconds:.3f} s", file=sys.stderr)
    return row


def seconds_text(runs: list[Run]) -> str:
    values = [run.seconds for run in runs]
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def peak(runs: list[Run]) -> float:
    return statistics.median(run.peak_bytes for run in runs)


def rate(row: Row, runs: list[Run]) -> float:
    return row.events / statistics.median(run.seconds for run in runs) / 1e6


def table(rows: list[Row]) -> str:
    lines = [
        "| file | events | MB | `plimsoll report` s | M events/s | peak MB | peak / file "
        "| `pickle.load` s | M events/s | peak MB | peak / file | speed-up |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        pairs = zip(row.ours, row.theirs, strict=True)
        ratio = statistics.median(theirs.seconds / ours.seconds for ours, theirs in pairs)
        cells = [row.name, f"{row.events:,}", f"{row.file_bytes / 1e6:,.0f}"]
        for runs in (row.ours, row.theirs):
            cells += [
                seconds_text(runs),
                f"{rate(row, runs):.2f}",
                f"{peak(runs) / 1e6:,.0f}",
                f"{peak(runs) / row.file_bytes:.2f}",
            ]
        lines.append("| " + " | ".join([*cells, f"{ratio:.1f} x"]) + " |")
    return "\n".join(lines)


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = models[0].split(":", 1)[1].strip() if models else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def version_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (
        (done.stdout or done.stderr).strip().splitlines()[0] if done.returncode == 0 else "unknown"
    )


def built(path: str) -> str:
    for preset in ("release", "dev"):
        candidate = ROOT / "build" / preset / path
        if candidate.is_file():
            return str(candidate)
    return shutil.which(Path(path).name) or str(ROOT / "build/release" / path)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=8_000_000, help="events of the big files")
    parser.add_argument("--depth", type=int, default=40, help="frames of each stack")
    parser.add_argument("--pairs", type=int, default=3, help="how often each program runs")
    parser.add_argument("--plimsoll", default=built("src/cli/plimsoll"))
    parser.add_argument("--generator", default=built("bench/generator/plimsoll_snapshot_generator"))
    parser.add_argument("--python", default=sys.executable, help="the CPython to compare with")
    parser.add_argument("--folder", type=Path, help="where the files go and stay (a temporary one)")
    options = parser.parse_args()
    for program in (options.plimsoll, options.generator):
        if shutil.which(program) is None:
            parser.error(f"{program} is not there: cmake --preset release, then build that preset")
    return options


def make_rows(options: argparse.Namespace, folder: Path) -> list[Row]:
    wanted = [
        ("training", "training", options.events),
        ("random-free", "random-free", options.events),
        ("4 MB", "training", LATENCY_EVENTS),
    ]
    rows = []
    for name, preset, events in wanted:
        path = folder / f"{preset}-{events}.pickle"
        sizes = ["--events", str(events), "--depth", str(options.depth)]
        subprocess.run([options.generator, preset, str(path), *sizes], check=True)
        rows.append(run_pairs(name, path, events, options))
        if options.folder is None:
            path.unlink()
    return rows


def main() -> None:
    options = read_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = make_rows(options, folder)
    ours = version_of([options.plimsoll, "--version"])
    theirs = version_of([options.python, "--version"])
    today = datetime.datetime.now(datetime.timezone.utc).date()
    print(f"{machine()}; {ours}; {theirs}; {options.pairs} pairs, median (min-max); {today}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
