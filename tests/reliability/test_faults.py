"""Runs `tests/reliability/faults` with few failures; the program itself can test all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "faults"
MODES = ("full", "lite", "monitor", "fallback", "cuda")


@pytest.mark.parametrize(
    "words",
    [
        ["--every", "223", "--call", "malloc"],
        ["--every", "13", *(f"--call={call}" for call in ("open", "write", "mmap", "dlopen"))],
        ["--every", "2", "--call", "pthread_create"],
        ["--last", "60", "--every", "9", "--call", "malloc"],
        ["--from-end", "12", "--every", "1", "--call", "malloc"],
        ["--first", "101", "--last", "400", "--every", "99", "--from-on", "--call", "malloc"],
        ["--at", "1", "--from-on", "--call", "malloc"],
    ],
    ids=[
        "memory",
        "files",
        "threads",
        "memory-at-the-start",
        "memory-at-the-end",
        "no-more-memory",
        "no-memory",
    ],
)
def test_a_call_that_fails_changes_no_training(words):
    check(words, MODES)


def test_a_malloc_that_fails_in_a_tracer_changes_no_training():
    """The tracer makes 7,500 calls, so only a few are tried."""
    check(["--every", "499", "--call", "malloc"], ("tracer",))


@pytest.mark.parametrize("more", [[], ["--from-on"]], ids=["once", "from-on"])
def test_a_malloc_that_fails_in_monitors_that_print_changes_no_training(more):
    check(["--every", "149", "--call", "malloc", *more], ("loop",))


def check(words, modes):
    ran = subprocess.run(
        [sys.executable, PROGRAM, *words, *(f"--mode={mode}" for mode in modes)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith(modes)]
    assert {row[0] for row in rows} == set(modes)
    failed = [int(row[3].replace(",", "")) for row in rows]
    as_before = [int(row[4].replace(",", "")) for row in rows]
    assert as_before == failed
    assert sum(failed) > 0
