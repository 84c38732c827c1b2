"""Reports of incomplete recordings: a full disk, damage, a killed process."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

import plimsoll

FILLS_THE_DISK = """
import os, resource, sys, torch, plimsoll
x = torch.ones(10)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
kept = [torch.ones(n % 1000) for n in range(50_000)]
print("trained", len(kept))
"""
WAITS = """
import os, sys, time, torch, plimsoll
for n in range(100_000_000):
    torch.ones(n % 1000)
    if n % 1000 == 0:
        print(n, flush=True)
"""
ALLOCATES = """
import plimsoll
with plimsoll.record("run.plim", adapter="none"):
    for address in range(1, 1000):
        plimsoll._record.alloc(0, address * 64, 8)
"""


def start(program: str, folder, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | {"PLIMSOLL": "1", "PLIMSOLL_OUT": "run.plim"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report(path) -> str:
    return subprocess.run(
        [sys.executable, "-m", "plimsoll", "report", str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def diagnostics(trace) -> dict[str, dict]:
    return {each["name"]: each for each in trace.report["source"]["diagnostics"]}


@pytest.mark.parametrize("limit", ["", "2000"])
@pytest.mark.slow
def test_a_full_disk_is_reported_once_and_every_report_counts_what_is_missing(tmp_path, limit):
    process = start(FILLS_THE_DISK, tmp_path, PLIMSOLL_MAX_EVENTS=limit)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out == "trained 50000\n"
    assert err.count("File too large: the recording ends here, ") == 1
    assert re.search(r"run\.plim: incomplete \(File too large\), peak .*; to see it", err)

    trace = plimsoll.open(tmp_path / "run.plim")
    failed = diagnostics(trace)["sink_failed"]
    assert failed["count"] > 10_000
    assert f"{failed['count']:,} of " in failed["example"]
    assert trace.report["findings"][0]["id"] == "recording_incomplete"
    text = report(tmp_path / "run.plim")
    assert text.startswith("CRITICAL The recording ended early: File too large, ")
    assert "Nothing wrong found." not in text
    assert "tenth of a second" not in text


# The figures of one reading of the process: at the start, at the end.
READING = 6


# 50,000 events are more than the program makes in the 0.1 s that a kill may lose.
@pytest.mark.parametrize("limit", ["", pytest.param("50000", marks=pytest.mark.slow)])
def test_a_killed_process_loses_only_what_had_not_reached_the_file(tmp_path, limit):
    process = start(WAITS, tmp_path, PLIMSOLL_MAX_EVENTS=limit)
    assert process.stdout is not None
    seen, wanted, end = 0, 10_000, time.monotonic() + 120
    while True:
        while seen < wanted:  # the process waits until its lines are read
            seen = int(process.stdout.readline())
        running = plimsoll.open(tmp_path / "run.plim")
        is_limited = "evicted_events" in diagnostics(running)
        if running.report["source"]["events"] > 1000 and is_limited == bool(limit):
            break
        assert time.monotonic() < end
        wanted *= 2
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    trace = plimsoll.open(tmp_path / "run.plim")
    known = diagnostics(trace)
    assert re.match(
        r"Everything until [1-9][.0-9]* m?s after the start is in the file. "
        r"Events took at most [.0-9]+ m?s to get there",
        known["file_cut"]["example"],
    )
    assert ("evicted_events" in known) == bool(limit)
    assert trace.report["source"]["events"] > 1000
    assert "Nothing wrong found." not in report(tmp_path / "run.plim")


def test_a_killed_process_without_events_is_not_reported_as_empty(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none"):
        begun = path.read_bytes()
    path.write_bytes(begun)
    known = diagnostics(plimsoll.open(path))
    assert "no_events" not in known
    assert "no_events_written" in known


def test_damage_is_the_first_thing_in_a_report(tmp_path):
    # A separate process, because this one may have enough names to fill half of the file.
    path = tmp_path / "run.plim"
    subprocess.run([sys.executable, "-c", ALLOCATES], cwd=tmp_path, check=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    text = report(path)
    assert text.startswith("CRITICAL The file is damaged in 1 place: the first at byte ")
    missing = re.search(r"([\d,]+) records are missing", " ".join(text.split()))
    assert int(missing[1].replace(",", "")) == 999 + READING


def test_a_file_that_was_cut_afterwards_counts_what_is_missing(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none") as recording:
        for address in range(1, 100):
            plimsoll._record.alloc(0, address * 64, 8)
        recording.flush()
        for address in range(100, 150):
            plimsoll._record.alloc(0, address * 64, 8)
    path.write_bytes(path.read_bytes()[:-100])
    truncated = diagnostics(plimsoll.open(path))["file_truncated"]
    assert truncated["count"] == 50 + READING
    assert truncated["example"] == f"{50 + READING} of {149 + 2 * READING} records missing"
