"""More names than a process may define: memory is bounded, and the report says what is missing."""

import os
import re
import subprocess
import sys

import pytest

LIMIT = 1 << 20

PROGRAM = """
import os, sys
from plimsoll import _record

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def allocate(numbers):
    for number in numbers:
        _record.set_context(f"layer {number}", "", 0, 0, 0)
        _record.alloc(0, 64, 64)
        _record.free(0, 64)
        if number % 10_000 == 0:
            recording.flush()

recording = _record.Recording(b"run.plim", False, MAX_EVENTS, False, False, True, {})
allocate(range(1_100_000))
before = resident()
allocate(range(1_100_000, 2_000_000))
grown = resident() - before
state = recording.stop()
print(grown, state["events"], state["dropped"], state["refused"])
"""


def run(tmp_path, max_events):
    program = PROGRAM.replace("MAX_EVENTS", str(max_events))
    words = [sys.executable, "-c", program]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    return [int(number) for number in ran.stdout.split()]


def report(tmp_path, *words):
    command = os.environ.get("PLIMSOLL_BIN")
    start = [command] if command else [sys.executable, "-m", "plimsoll"]
    words = [*start, "report", "run.plim", *words]
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_two_million_names_take_bounded_memory_and_the_report_counts_events_without_names(tmp_path):
    grown, events, dropped, refused = run(tmp_path, max_events=10_000)
    assert (events, dropped) == (4_000_000, 0)
    assert refused == 2_000_000 - LIMIT  # one for each allocation beyond the limit
    assert grown < 16 << 20
    reported = report(tmp_path)
    assert "names_refused" in reported
    assert f"{refused:,}" in reported
    dumped = subprocess.run(
        [sys.executable, "-m", "plimsoll", "dump", "run.plim"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    counts = re.findall(r"notice what=names_refused device=0 count=(\d+)", dumped)
    assert int(counts[-1]) == refused
