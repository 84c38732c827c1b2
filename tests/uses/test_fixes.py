"""The reachable peak of a report is the peak of the program that frees memory after its last use.

`python -m tests.uses.test_fixes` prints a line for each program.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.uses.fixes import FIXES

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("plimsoll")
GATE = {"argument_held_by_its_caller", "list_of_outputs", "outputs_kept_while_backward_runs"}


def report(name: str, version: str, folder: Path) -> dict:
    path = folder / f"{name}.{version}.plim"
    words = ["run", "--uses", "always", "-o", path, "-m", "tests.uses.fixes", name, version]
    subprocess.run([COMMAND, *words], check=True, cwd=ROOT, capture_output=True)
    shown = subprocess.run(
        [COMMAND, "report", "--json", path], check=True, cwd=ROOT, capture_output=True, text=True
    )
    return json.loads(shown.stdout)


def peaks(name: str, folder: Path) -> tuple[int, int, int]:
    """The peak before, the reachable peak before, and the peak after, in bytes."""
    before, after = (cpu_of(report(name, version, folder)) for version in ("before", "after"))
    return before["live_bytes"], before["reachable_peak_bytes"], after["live_bytes"]


def cpu_of(report: dict) -> dict:
    return next(each["last_use"] for each in report["devices"] if each["device"] == -1)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in GATE else pytest.mark.slow) for n in FIXES]
)
def test_the_peak_falls_to_the_reachable_peak(name, tmp_path):
    _, reachable, after = peaks(name, tmp_path)
    assert after == pytest.approx(reachable, rel=0.01)


def main() -> None:
    folder = Path(sys.argv[1])
    for name in FIXES:
        before, reachable, after = peaks(name, folder)
        print(
            f"{name:40} {before:12,} {reachable:12,} {after:12,} {after / reachable - 1:+9.4%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
