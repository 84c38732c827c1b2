"""Impossible figures: sums neither wrap nor become negative, and the report states the problem."""

import json
import math
import pickle
import re

import pytest

from .running import complains

LIMITS = (2**63 - 1, 2**63, 2**64 - 1, 2**62, 2**50 + 1)
NO_NUMBER = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)
# Figures that may be negative: changes, and remainders where figures disagree.
SIGNED = ("ratio", "unexplained", "per_step", "change", "parts", "pid", "time_ns", "device")


def snapshot(size, **more):
    """Two devices, each with two blocks and events of that size, and their frees."""
    frames = [{"filename": "train.py", "name": "step", "line": 7}]
    segments, traces = [], []
    for device in (0, 1):
        blocks = [
            {"address": 4096 * at, "size": size, "requested_size": size, "frames": frames}
            | {"state": state}
            for at, state in ((1, "active_allocated"), (2, "inactive"), (3, "active_allocated"))
        ]
        sizes = dict.fromkeys(("total_size", "allocated_size", "active_size"), size)
        segments.append(
            {"device": device, "address": 4096, "blocks": blocks, "stream": 0}
            | {"segment_type": "large", "requested_size": size}
            | sizes
        )
        actions = ("segment_alloc", "alloc", "alloc", "alloc", "free_requested", "free_completed")
        traces.append(
            [
                {"action": action, "addr": 4096 * min(at, 3), "size": size, "stream": 0}
                | {"frames": frames, "time_us": more.get("time_us", 0) * (-1) ** at}
                for at, action in enumerate(actions)
            ]
            + [{"action": "oom", "device_free": size, "size": size, "stream": 0, "frames": frames}]
        )
    return pickle.dumps({"segments": segments, "device_traces": traces}, protocol=4)


def kineto(bytes_, total=None):
    """Three allocations and a free of that many bytes."""
    events = []
    for at, sign in enumerate((1, 1, 1, -1)):
        args = {"Device Type": 1, "Device Id": 0, "Bytes": sign * bytes_, "Addr": at % 3 + 1}
        if total is not None:
            args |= {"Total Allocated": total, "Total Reserved": total if at % 2 else 0}
        event = {"ph": "i", "name": "[memory]", "ts": at + 1, "pid": 1, "tid": 1, "args": args}
        events.append(event)
    return json.dumps({"traceEvents": events}).encode()


def check_figures(value, key=""):
    """No figure is NaN or infinite, and no count is negative."""
    if isinstance(value, dict):
        for name, inner in value.items():
            check_figures(inner, name)
    elif isinstance(value, list):
        for inner in value:
            check_figures(inner, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        assert math.isfinite(value), key
        assert value <= 2**63, (key, value)
        if not any(word in key for word in SIGNED):
            assert value >= 0, (key, value)


def diagnostics_of(report):
    return {each["name"]: each["count"] for each in report["source"]["diagnostics"]}


@pytest.fixture
def report(plimsoll, tmp_path):
    def read(content, name="file.pickle"):
        path = tmp_path / name
        path.write_bytes(content)
        outcome = plimsoll("report", "--json", path)
        assert outcome.status == 0, outcome
        reported = json.loads(outcome.out)
        check_figures(reported["devices"])
        check_figures(reported["tables"])
        text = plimsoll("report", "--full", path)
        assert text.status == 0, text
        assert not NO_NUMBER.search(text.out)
        for format_name in ("speedscope", "collapsed", "timeline-csv", "timeline", "json"):
            written = plimsoll("export", path, "--to", format_name, "-o", "-")
            assert written.status == 0, written
            assert not NO_NUMBER.search(written.out)
        return reported

    return read


@pytest.mark.parametrize("size", LIMITS)
def test_sizes_of_a_snapshot(report, size):
    reported = report(snapshot(size))
    assert diagnostics_of(reported)["implausible_size"] > 0
    reported_of = reported["source"]["diagnostics"]
    (first,) = (each for each in reported_of if each["name"] == "implausible_size")
    assert str(size) in first["example"]
    peak = reported["devices"][0]["requested_allocated"]["peak_bytes"]
    assert 2**50 <= peak <= 2**53


@pytest.mark.parametrize("size", [-1, -(2**63), 2**64, -(2**70), True, 1.5, float("nan"), None])
def test_invalid_sizes_are_diagnosed(report, size):
    assert diagnostics_of(report(snapshot(size)))["bad_value"] > 0


def test_times_of_a_snapshot(report):
    report(snapshot(512, time_us=(2**63 - 1) // 1000))


@pytest.mark.parametrize("size", LIMITS)
def test_sizes_of_a_profile(report, size):
    reported = report(kineto(size), "trace.json")
    names = diagnostics_of(reported)
    assert "implausible_size" in names or "bad_memory_event" in names


def test_bytes_beyond_63_bits_are_not_taken_for_a_free(report):
    """2**64 - 1 must not be read as -1, which would be a free of one byte."""
    assert diagnostics_of(report(kineto(2**64 - 1), "trace.json"))["bad_memory_event"] == 4


@pytest.mark.parametrize("total", LIMITS)
def test_totals_of_a_profile(report, total):
    report(kineto(512, total), "trace.json")


def test_figures_that_cannot_be_summed_are_refused_with_a_message(plimsoll, tmp_path):
    path = tmp_path / "sum.pickle"
    event = {"action": "alloc", "size": 2**64 - 1, "stream": 0, "frames": []}
    trace = [event | {"addr": at} for at in range(3000)]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}, protocol=4))
    words = ("sum.pickle", "2 EiB", "event 0", "18446744073709551615 bytes")
    complains(plimsoll("report", path), 3, *words)
