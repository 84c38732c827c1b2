"""The totals of `plimsoll report --json` on torch.profiler traces equal the slow reference's."""

import json
import subprocess

import pytest
from reference import kineto_totals as reference

SAMPLES = (
    "bert_small_h100.json.gz",
    "ddp_resnet18_cpu_memory_only.json.gz",
    "normalization_unordered_mi300.json.gz",
    "resnet50_2021.pt.trace.json.gz",
    "timesformer_h100.json.gz",
    "vit_h100.json.gz",
    "vit_mi300.json.gz",
    "vllm_graph_capture.pt.trace.json.gz",
)


def report(command, path):
    return subprocess.run(
        [command, "report", "--json", str(path)], capture_output=True, text=True, check=False
    )


def device_name(device):
    return (
        "cpu" if device["device_type"] == "cpu" else f"{device['device_type']}:{device['device']}"
    )


def totals(series):
    return {key: series[key] for key in ("baseline_bytes", "peak_bytes", "end_bytes")}


LARGE = (
    "resnet50_2021.pt.trace.json.gz",
    "timesformer_h100.json.gz",
    "vllm_graph_capture.pt.trace.json.gz",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] if each in LARGE else []) for each in SAMPLES],
)
def test_totals_of_a_real_trace(plimsoll_command, samples, name):
    path = samples / "kineto" / name
    done = report(plimsoll_command, path)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["source"]["format"] == "kineto"
    expected = reference.kineto_totals(reference.load(path))
    assert [device_name(d) for d in reported["devices"]] == [d["device"] for d in expected]
    for ours, theirs in zip(expected, reported["devices"], strict=True):
        assert totals(theirs["requested_allocated"]) == ours["allocated"], ours["device"]
        assert totals(theirs["requested_active"]) == ours["allocated"], ours["device"]
        assert totals(theirs["reserved"]) == ours["reserved"], ours["device"]


def test_a_trace_without_memory_events_is_reported(plimsoll_command, samples):
    done = report(plimsoll_command, samples / "kineto" / "no_memory_events.json.gz")
    assert done.returncode == 0, done.stderr
    names = [d["name"] for d in json.loads(done.stdout)["source"]["diagnostics"]]
    assert "no_memory_events" in names


def test_a_memory_timeline_is_refused_with_a_message(plimsoll_command, samples):
    done = report(plimsoll_command, samples / "kineto" / "memory_timeline.raw.json.gz")
    assert done.returncode == 3
    assert "export_memory_timeline" in done.stderr
