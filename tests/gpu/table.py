"""Runs the cases, prints one table of their checks, and writes the results.

Usage: table.py [--jobs N] [--seconds N] [--began TIME] FOLDER [CASE…], with PYTHONPATH set so that
plimsoll is found. Every check is printed, and written to FOLDER/results, as soon as it is known.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from case_list import Case, all_cases
from running import FAILS, HOLDS, NOT_RUN, PROGRAM, Check, Limits, Runner

MIB = 1 << 20
MOST_BYTES = 12 * MIB  # of the files of failed cases


class Table:
    """The checks so far, on stdout, in table.txt and in results.jsonl. Thread-safe."""

    def __init__(self, results: Path, cases: Sequence[Case], machine: dict[str, Any]) -> None:
        self.checks: list[Check] = []
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self._width = max(len(each.name) for each in cases)
        results.mkdir(parents=True, exist_ok=True)
        self._text, self._rows = results / "table.txt", results / "results.jsonl"
        for path in (self._text, self._rows):
            path.write_text("")
        with self._lock:
            self._row({"machine": machine})
            self._line(head(machine))

    def add(self, check: Check) -> None:
        """Show a check."""
        with self._lock:
            self.checks.append(check)
            self._row(asdict(check))
            self._line(line_of(check, self._width))

    def took(self, case: Case, seconds: float) -> None:
        """Store how long a case took."""
        with self._lock:
            self.seconds[case.name] = seconds
            self._row({"case": case.name, "seconds": round(seconds, 1)})

    def end(self) -> int:
        """Print the summary; return the exit status."""
        with self._lock:
            for line in summary(self.checks, self.seconds):
                self._line(line)
        return 0 if all(each.state == HOLDS for each in self.checks) else 1

    def _line(self, text: str) -> None:
        print(text, flush=True)
        append(self._text, text)

    def _row(self, row: dict[str, Any]) -> None:
        append(self._rows, json.dumps(row))


def append(path: Path, line: str) -> None:
    with open(path, "a") as file:
        print(line, file=file)


def line_of(check: Check, width: int) -> str:
    found = " | ".join(check.found.splitlines())
    return f"{check.state:<7}  {check.case:<{width}}  {check.what:<36}  {found}".rstrip()


def summary(checks: Sequence[Check], seconds: dict[str, float]) -> list[str]:
    """Return the last lines of the table: the slowest cases, the failed checks, the counts."""
    slowest = sorted(seconds.items(), key=lambda each: -each[1])[:5]
    lines = ["slowest: " + ", ".join(f"{case} {spent:.0f} s" for case, spent in slowest)]
    width = max((len(each.case) for each in checks), default=0)
    lines += [line_of(each, width) for each in checks if each.state != HOLDS]
    states = Counter(each.state for each in checks)
    counts = f"{states[HOLDS]} checks hold"
    if states[FAILS]:
        counts += f", {states[FAILS]} fail"
    if states[NOT_RUN]:
        counts += f", {states[NOT_RUN]} cases did not run to their end"
    return [*lines, counts]


def head(machine: dict[str, Any]) -> str:
    """Return the first line of the table."""
    return ", ".join(f"{name} {value}" for name, value in machine.items() if value)


def keep_failed(results: Path, places: Sequence[Path]) -> None:
    """Pack the files of failed cases, the smallest first, for examination elsewhere."""
    if not places:
        return
    files = [each for place in places for each in place.rglob("*") if each.is_file()]
    wanted = [each for each in files if each.suffix in (".txt", ".plim") or ".plim." in each.name]
    budget = MOST_BYTES
    with tarfile.open(results / "failed.tar.gz", "w:gz") as archive:
        for each in sorted(wanted, key=lambda path: path.stat().st_size):
            budget -= each.stat().st_size
            if budget >= 0:
                archive.add(each, f"{each.parent.name}/{each.name}")


def keep_samples(results: Path, place: Path) -> None:
    for each in (place / "sample.plim", place / "sample.pickle", place / "conv.plim"):
        if each.is_file():
            (results / each.name).write_bytes(each.read_bytes())


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/gpu/run")
    parser.add_argument("folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these (default: all)")
    jobs = max(1, min(8, (os.cpu_count() or 2) // 2))
    parser.add_argument("--jobs", type=int, default=jobs, help="cases side by side (%(default)s)")
    parser.add_argument("--seconds", type=float, help="end after this time, the build included")
    parser.add_argument("--began", type=float, default=time.time(), help=argparse.SUPPRESS)
    return parser.parse_intermixed_args(words)


def main(words: Sequence[str]) -> int:
    options = parsed(words)
    folder, wanted = options.folder.resolve(), set(options.cases)
    cases = [
        each
        for each in all_cases()
        if not wanted or wanted & {each.name, each.function, *each.words}
    ]
    if not cases:
        print("no such case; there are:", *(each.name for each in all_cases()), sep="\n  ")
        return 2
    return run(cases, folder, options)


def run(
    cases: Sequence[Case],
    folder: Path,
    options: argparse.Namespace,
    program: Sequence[str] = PROGRAM,
) -> int:
    """Run the cases, and return the exit status."""
    results = folder / "results"
    machine = json.loads((folder / "machine.json").read_text())
    table = Table(results, cases, machine)
    limits = Limits(options.jobs)
    if options.seconds is not None:
        end = time.monotonic() + options.began + options.seconds - time.time()
        limits = Limits(options.jobs, end, f"the limit is {options.seconds:.0f} s")
    runner = Runner(folder, limits, table.add, table.took, program)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: runner.stop(signal.Signals(number).name))
    runner.run_all(cases)
    failed = {each.case for each in table.checks if each.state != HOLDS}
    keep_failed(results, [runner.place(each) for each in cases if each.name in failed])
    for each in cases:
        if each.function in ("samples", "workspaces"):
            keep_samples(results, runner.place(each))
    return table.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
