#!/usr/bin/env python3
"""Compares Plimsoll's memory limits in tests with those of pytest-memray: results and run time.

bench/limits.py [--runs 10] [--python PYTHON]

PYTHON needs pytest, torch, plimsoll and pytest-memray. Each configuration runs the tests of
bench/limit_suite.py in a new process per run. A result is wrong if it differs from the test's name.
A test is flaky if its results differ between runs.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SUITE = Path(__file__).with_name("limit_suite.py")
CONFIGURATIONS = {
    "neither": (["-p", "no:memray"], "0 B"),
    "Plimsoll": (["-p", "no:memray", "--plimsoll"], "0 B"),
    "pytest-memray, leaks 0 B": ([], "0 B"),
    "pytest-memray, leaks 1 MB": ([], "1 MB"),
    "both, leaks 1 MB": (["--plimsoll"], "1 MB"),
}


def results(python: str, options: list[str], leaks: str) -> tuple[dict[str, str], float]:
    """Return the result of each test, and the seconds that the process took."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *options]
        words += ["--rootdir", folder, str(SUITE)]
        begin = time.monotonic()
        ran = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "MEMRAY": leaks, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - begin
    found = re.findall(
        r"^(PASSED|FAILED|ERROR|MEMORY PROBLEMS) \S*::(\w+)", ran.stdout, re.MULTILINE
    )
    if not found:
        sys.exit(ran.stdout + ran.stderr)
    # pytest-memray reports a failed limit_leaks as MEMORY PROBLEMS.
    return {test: result.replace("MEMORY PROBLEMS", "FAILED") for result, test in found}, seconds


def is_right(test: str, result: str) -> bool:
    return test.endswith("_passes") == (result == "PASSED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    table: dict[str, dict[str, Counter[str]]] = {}
    for name, (words, leaks) in CONFIGURATIONS.items():
        runs = [results(options.python, words, leaks) for _ in range(options.runs)]
        seconds = [each for _, each in runs]
        for found, _ in runs:
            for test, result in found.items():
                counts = table.setdefault(test, {}).setdefault(name, Counter())
                counts[result.lower()] += 1
        tests = [each[name] for each in table.values()]
        flaky = sum(len(each) > 1 for each in tests)
        wrong = sum(not is_right(test, each) for found, _ in runs for test, each in found.items())
        print(
            f"{name}: median {statistics.median(seconds):.1f} s, {min(seconds):.1f} to "
            f"{max(seconds):.1f}; {wrong} of {len(tests) * len(runs)} results wrong; "
            f"{flaky} tests flaky"
        )
    print(f"\n| test | {' | '.join(CONFIGURATIONS)} |")
    print("|---" * (1 + len(CONFIGURATIONS)) + "|")
    for test, by_name in table.items():
        cells = [
            ", ".join(f"{each} {count}" for each, count in counts.items())
            + ("" if all(is_right(test, each.upper()) for each in counts) else " (wrong)")
            for counts in by_name.values()
        ]
        print(f"| {test.removeprefix('test_')} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
