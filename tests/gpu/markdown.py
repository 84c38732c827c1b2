"""Prints the results of a run for docs/gpu.md: a row of each table, and the failed checks.

Usage: markdown.py build/gpu/results/results.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

COLUMNS = ("date", "commit", "card", "driver", "torch", "cuDNN", "Python")
VARIANTS = ("full", "lite", "torch's history, python", "torch's history, all", "torch.profiler")


def table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def run_row(machine: dict[str, str], checks: list[dict[str, Any]]) -> str:
    """Return the row of the table of runs."""
    states = Counter(each["state"] for each in checks)
    cases = {each["case"] for each in checks}
    cut = {each["case"] for each in checks if each["state"] == "not run"}
    counts = f"{states['holds']:,} hold, {states['FAILS']:,} fail"
    return table_row(
        [*(machine.get(name) or "—" for name in COLUMNS), f"{len(cases) - len(cut)}", counts]
    )


def overhead_rows(machine: dict[str, str], checks: list[dict[str, Any]]) -> list[str]:
    """Return a row for each kind of steps: the median and interval of each variant."""
    rows = []
    for case in dict.fromkeys(each["case"] for each in checks):
        found = {each["what"]: each["found"] for each in checks if each["case"] == case}
        if not case.startswith("overhead, ") or not set(VARIANTS) <= set(found):
            continue
        kind = case.removeprefix("overhead, ")
        step = found["full"].rpartition(" of ")[2]
        percents = [found[name].partition(", ")[0] for name in VARIANTS]
        rows.append(table_row([machine.get("commit") or "—", f"{kind}, {step}", *percents]))
    return rows


def failure_rows(checks: list[dict[str, Any]]) -> list[str]:
    """Return a row for each failed check."""
    return [
        table_row(
            [each["case"], each["what"], each["state"], " / ".join(each["found"].split("\n"))]
        )
        for each in checks
        if each["state"] != "holds"
    ]


def main(path: str) -> None:
    try:
        text = Path(path).read_text()
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; tests/gpu/run writes it")
    rows = [json.loads(line) for line in text.splitlines()]
    machine = next(each["machine"] for each in rows if "machine" in each)
    checks = [each for each in rows if "state" in each]
    print(run_row(machine, checks), "", *overhead_rows(machine, checks), sep="\n")
    print("", *failure_rows(checks), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
