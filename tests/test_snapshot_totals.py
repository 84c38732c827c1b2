"""The totals of `plimsoll report --json` equal those of the slow reference, to the byte."""

import base64
import gzip
import json
import pickle
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import random_snapshots
from reference import snapshot_totals as reference

SAMPLES = (
    "attention_blocks_only.pickle",
    "by_hand_97_events.pickle",
    "cut_down_inconsistent.pickle",
    "forward_bf16_128.pickle",
    "inductor.pickle",
    "kv_cache_blocks_only.pickle",
    "medium_128_inference.pickle",
    "medium_512_training.pickle",
    "recording_never_enabled.pickle",
    "ring_wrapped.pickle",
    "small_forward.pickle",
    "torch_2_0_history_layout.pickle",
    "trace_plot.html",
    "transformer_forward.pickle",
    "transformer_step_bf16.pickle",
    "two_gpus_expandable_no_trace.pickle",
    "windows_paths.pickle",
    "xl_backward.pickle",
    "xl_forward_4_devices.pickle",
    "xl_forward_expandable.pickle",
    "xl_full_step_4_devices.pickle",
)


def reported_devices(command, path):
    done = subprocess.run(
        [command, "report", "--json", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{path}: exit code {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)["devices"]


def known_part(reported, expected):
    """The report without fields that the reference does not compute, such as a row's cause."""
    if isinstance(expected, dict):
        return {key: known_part(reported.get(key, "missing"), expected[key]) for key in expected}
    if isinstance(expected, list) and len(expected) == len(reported):
        return [known_part(r, e) for r, e in zip(reported, expected, strict=True)]
    return reported


def assert_same_totals(command, path):
    """Every total of the reference is in the report, with the same value."""
    expected = reference.snapshot_totals(reference.load(path))
    reported = reported_devices(command, path)
    assert [d["device"] for d in reported] == [d["device"] for d in expected], path
    for ours, theirs in zip(expected, reported, strict=True):
        assert known_part(theirs, ours) == ours, f"{path}, device {ours['device']}"
    return reported


def test_pending_blocks_without_recorded_requests(plimsoll_command, tmp_path, samples):
    """A recording without free_requested, with a block that waits for a stream at the end."""
    path = samples / "snapshots" / "by_hand_97_events.pickle"
    if not path.is_file():
        pytest.skip(f"no {path}")
    snapshot = without(reference.load(path), "free_requested")
    blocks = reference.blocks_of(snapshot["segments"])
    live = [block for block in blocks if block["state"] == "active_allocated"]
    max(live, key=reference.requested_size)["state"] = "active_pending_free"
    pending = tmp_path / "pending.pickle"
    pending.write_bytes(pickle.dumps(snapshot))
    for device in assert_same_totals(plimsoll_command, pending):
        assert device["requested_allocated"] == device["requested_active"]
        assert min(device[series]["start_bytes"] for series in reference.DELTA) >= 0


LARGE = (
    "medium_512_training.pickle",
    "ring_wrapped.pickle",
    "transformer_step_bf16.pickle",
    "xl_backward.pickle",
    "xl_forward_expandable.pickle",
    "xl_full_step_4_devices.pickle",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] if each in LARGE else []) for each in SAMPLES],
)
def test_real_file(plimsoll_command, samples, name):
    path = samples / "snapshots" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    assert_same_totals(plimsoll_command, path)


def test_real_files_that_are_new(plimsoll_command, samples):
    for path in sorted((samples / "snapshots").iterdir()):
        if path.name not in SAMPLES:
            assert_same_totals(plimsoll_command, path)


def test_generated_file(plimsoll_command, generated):
    for path in generated.values():
        assert_same_totals(plimsoll_command, path)


def wrapped_in(container, data):
    if container == "gzip":
        return gzip.compress(data)
    if container == "html":
        text = base64.b64encode(data + b"\0" * (-len(data) % 3))
        page = b'<html><script>const local_files = [{"name": "snapshot.pickle", "base64": "%s"}]'
        return page % text + b"\n</script></html>\n"
    return data


def without(snapshot, action):
    """The snapshot of a recording that leaves out an action (skip_actions)."""
    if isinstance(snapshot, dict) and "device_traces" in snapshot:
        traces = snapshot["device_traces"]
        snapshot["device_traces"] = [[e for e in t if e["action"] != action] for t in traces]
    return snapshot


MADE_UP = given(
    random=st.randoms(use_true_random=False),
    protocol=st.integers(2, 5),
    container=st.sampled_from(("none", "none", "gzip", "html")),
    left_out=st.sampled_from(("", "", "free_requested", "free_completed")),
)
EXAMPLES = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(EXAMPLES, max_examples=50)
@MADE_UP
def test_made_up_file(plimsoll_command, tmp_path, **made_up):
    check_made_up_file(plimsoll_command, tmp_path, **made_up)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=200)
@MADE_UP
def test_many_made_up_files(plimsoll_command, tmp_path, **made_up):
    check_made_up_file(plimsoll_command, tmp_path, **made_up)


def check_made_up_file(plimsoll_command, tmp_path, *, random, protocol, container, left_out):
    path = tmp_path / "made_up.pickle"
    snapshot = without(random_snapshots.make(random), left_out)
    path.write_bytes(wrapped_in(container, pickle.dumps(snapshot, protocol=protocol)))
    for device in assert_same_totals(plimsoll_command, path):
        # Segment events are arbitrary, so reserved bytes may contradict the segments.
        assert device["requested_allocated"]["start_bytes"] >= 0
        assert device["requested_active"]["start_bytes"] >= 0
