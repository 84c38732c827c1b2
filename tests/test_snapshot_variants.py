"""Variants of snapshots: options of torch that omit events, and values of later versions."""

import copy
import json
import pickle
import subprocess

import pytest
from tests.reference import snapshot_totals as reference

MIB = 1 << 20


def made_snapshot():
    """Six steps of eight activations that are freed, and one tensor each that stays."""
    events, blocks, segments, time_us = [], [], [], 1_700_000_000_000_000

    def event(action, address, size, line):
        nonlocal time_us
        time_us += 50
        frames = [{"filename": "/home/user/project/train.py", "line": line, "name": "step"}]
        events.append(
            {"action": action, "addr": address, "size": size, "stream": 0}
            | {"time_us": time_us, "frames": frames}
        )

    peak = live = 0
    for step in range(6):
        sizes = [(3 + i) * MIB for i in range(8)]
        for slot, size in enumerate(sizes):
            if step == 0:
                segments.append((1 << 40) + slot * (64 * MIB))
                event("segment_alloc", segments[slot], 20 * MIB, 10 + slot)
            event("alloc", segments[slot], size, 10 + slot)
        live += sum(sizes)
        peak = max(peak, live)
        for slot, size in enumerate(sizes):
            event("free_requested", segments[slot], size, 30)
            event("free_completed", segments[slot], size, 30)
        live -= sum(sizes)
        event("alloc", (1 << 40) + step * (64 * MIB) + 12 * MIB, MIB, 40)
        live += MIB
        blocks.append((step, MIB))
    snapshot = {
        "segments": [
            {
                "device": 0,
                "address": address,
                "total_size": 20 * MIB,
                "allocated_size": MIB * (slot < 6),
                "active_size": MIB * (slot < 6),
                "requested_size": MIB * (slot < 6),
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": blocks_of(address, slot),
            }
            for slot, address in enumerate(segments)
        ],
        "device_traces": [events],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [],
    }
    return snapshot, peak, live


def blocks_of(address, slot):
    def block(at, size, state):
        requested = size if state != "inactive" else 0
        return {"address": at, "size": size, "requested_size": requested} | {
            "state": state,
            "frames": [],
        }

    if slot >= 6:
        return [block(address, 20 * MIB, "inactive")]
    return [
        block(address, 12 * MIB, "inactive"),
        block(address + 12 * MIB, MIB, "active_allocated"),
        block(address + 13 * MIB, 7 * MIB, "inactive"),
    ]


def report_of(command, path):
    done = subprocess.run(
        [command, "report", "--json", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reported(command, snapshot, tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol=4))
    return report_of(command, path)


def without(snapshot, *kinds):
    snapshot = copy.deepcopy(snapshot)
    for trace in snapshot["device_traces"]:
        trace[:] = [event for event in trace if event["action"] not in kinds]
    return snapshot


def diagnostics(report):
    return {each["name"] for each in report["source"]["diagnostics"]}


@pytest.mark.parametrize("skipped", [(), ("free_requested",), ("free_completed",), ("snapshot",)])
def test_one_event_of_a_free_is_enough(skipped, plimsoll_command, tmp_path):
    snapshot, peak, live = made_snapshot()
    report = reported(plimsoll_command, without(snapshot, *skipped), tmp_path)
    (device,) = report["devices"]
    for series in ("requested_allocated", "requested_active"):
        assert device[series]["peak_bytes"] == peak
        assert device[series]["start_bytes"] == 0
        assert device[series]["end_bytes"] == live
    assert device["active_above_reserved_bytes"] == 0
    assert all(each["id"] != "recording_incomplete" for each in report["findings"])


@pytest.mark.parametrize(
    "skipped",
    [
        ("alloc",),
        ("free_requested", "free_completed"),
        ("alloc", "free_requested"),
        ("alloc", "segment_alloc"),
    ],
)
def test_no_peak_contradicts_the_reserved_bytes(skipped, plimsoll_command, tmp_path):
    snapshot, _, live = made_snapshot()
    report = reported(plimsoll_command, without(snapshot, *skipped), tmp_path)
    first = report["findings"][0]
    assert first["id"] == "recording_incomplete"
    assert "unknown" in first["title"]
    assert any(kind in " ".join(first["evidence"]) for kind in skipped)
    assert {each["id"] for each in report["findings"]} == {"recording_incomplete"}
    (point,) = report["tables"]["points_in_time"]
    assert point["name"] == "end"
    assert sum(row["bytes"] for row in report["tables"]["by_line"]) == live


def test_a_flag_of_each_device_marks_that_device(plimsoll_command, tmp_path):
    snapshot, *_ = made_snapshot()
    snapshot["device_traces"].append(copy.deepcopy(snapshot["device_traces"][0]))
    for flags, histories in (
        ([True, False], ["truncated", "complete"]),
        ([False, True], ["complete", "truncated"]),
        (True, ["truncated", "truncated"]),
    ):
        for place in (snapshot, snapshot["allocator_settings"]):
            place["trace_alloc_overflowed"] = flags
            report = reported(plimsoll_command, snapshot, tmp_path)
            assert [each["history"] for each in report["devices"]] == histories
            assert "unknown_key" not in diagnostics(report)
            del place["trace_alloc_overflowed"]


VALUES = (None, True, -5, 1 << 63, (1 << 64) - 1, 1 << 200, 2.5, "text", b"bytes", [1, [2]], (), {})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_unknown_keys_and_values_change_no_total(value, plimsoll_command, tmp_path):
    """A later torch may add keys at any level, and programs attach objects as metadata."""
    plain, *_ = made_snapshot()
    expected = reported(plimsoll_command, plain, tmp_path)
    snapshot = copy.deepcopy(plain)
    levels = [snapshot, snapshot["allocator_settings"], *snapshot["segments"]]
    levels += [block for segment in snapshot["segments"] for block in segment["blocks"]]
    levels += snapshot["device_traces"][0]
    levels += [frame for event in snapshot["device_traces"][0] for frame in event["frames"]]
    for level in levels:
        level["key_of_a_later_torch"] = value
    for event in snapshot["device_traces"][0]:
        event["user_metadata"] = value
        event["compile_context"] = value
    snapshot["device_traces"][0].append(
        {"action": "action_of_a_later_torch", "addr": 1, "size": 2, "stream": 0, "frames": []}
        | {"time_us": 1_700_000_000_100_000}
    )
    report = reported(plimsoll_command, snapshot, tmp_path)
    skip = {"events", "last_time_ns"}
    assert [
        {key: value for key, value in device.items() if key not in skip}
        for device in report["devices"]
    ] == [
        {key: value for key, value in device.items() if key not in skip}
        for device in expected["devices"]
    ]
    lost = [each for each in report["source"]["diagnostics"] if each["severity"] != "info"]
    assert lost == []
    totals = reference.snapshot_totals(plain)[0]
    assert (
        report["devices"][0]["requested_active"]["peak_bytes"]
        == (totals["requested_active"]["peak_bytes"])
    )


@pytest.mark.parametrize(
    ("names", "settings", "file"),
    [
        ("xpu PYTORCH_ALLOC_CONF", {"PYTORCH_ALLOC_CONF": ""}, "/env/torch/xpu/memory.py"),
        ("hip PYTORCH_HIP_ALLOC_CONF", {"PYTORCH_HIP_ALLOC_CONF": ""}, "train.py"),
        ("hip PYTORCH_HIP_ALLOC_CONF", {}, "/env/torch/lib/libtorch_hip.so"),
        ("npu PYTORCH_NPU_ALLOC_CONF", {}, "/env/torch_npu/npu/memory.py"),
        ("cuda PYTORCH_CUDA_ALLOC_CONF", {"PYTORCH_CUDA_ALLOC_CONF": ""}, "train.py"),
        ("cuda PYTORCH_CUDA_ALLOC_CONF", {}, "/env/torch/cuda/memory.py"),
    ],
)
def test_devices_and_settings_have_the_names_of_their_type(
    names, settings, file, plimsoll_command, tmp_path
):
    name, variable = names.split()
    frames = [{"filename": file, "line": 3, "name": "f"}]
    events, blocks = [], []
    for i in range(40):
        address = (1 << 40) + i * 200 * MIB
        events.append(("segment_alloc", address, 100 * MIB))
        events.append(("alloc", address, 96 * MIB))
        events.append(("alloc", address + 96 * MIB, 3 * MIB))
        blocks.append(address)
    events += [("free_requested", address, 96 * MIB) for address in blocks]
    events += [("free_completed", address, 96 * MIB) for address in blocks]
    trace = [
        {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": i,
            "frames": frames,
        }
        for i, (action, address, size) in enumerate(events)
    ]
    trace.append(
        {"action": "oom", "device_free": 0, "size": 2048 * MIB, "stream": 0, "time_us": 999}
        | {"frames": frames}
    )
    segments = [
        {
            "device": 0,
            "address": address,
            "total_size": 100 * MIB,
            "allocated_size": 3 * MIB,
            "active_size": 3 * MIB,
            "stream": 0,
            "segment_type": "large",
            "frames": frames,
            "blocks": [
                {
                    "address": at,
                    "size": size,
                    "requested_size": size,
                    "state": state,
                    "frames": frames,
                }
                for at, size, state in (
                    (address, 96 * MIB, "inactive"),
                    (address + 96 * MIB, 3 * MIB, "active_allocated"),
                    (address + 99 * MIB, MIB, "inactive"),
                )
            ],
        }
        for address in blocks
    ]
    snapshot = {"segments": segments, "device_traces": [trace], "allocator_settings": settings}
    report = reported(plimsoll_command, snapshot, tmp_path)
    assert report["devices"][0]["device_type"] == name
    first = report["findings"][0]
    assert first["title"].startswith(f"{name}:0 ran out of memory through fragmentation")
    assert f"Set {variable}=expandable_segments:True" in first["next_step"]
