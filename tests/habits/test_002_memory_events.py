"""MemoryTracer: the habits of users who read its events, ratios and files."""

import dataclasses
import json
import re
import threading
from pathlib import Path

import pytest
import torch
from habit_models import LAYERS, MB, make, mebibytes
from traced_habits import EVENT, KINDS, STATS, steps, traced

from plimsoll import MemoryEvent, MemoryTracer

ROOT = Path(__file__).resolve().parents[2]

# MemoryEvent --------------------------------------------------------------------------------------


def test_events_begin_with_the_seven_fields():
    names = [field.name for field in dataclasses.fields(MemoryEvent)]
    assert names[:7] == list(EVENT)


def test_events_are_of_the_five_types(device):
    events = traced(device).events
    assert {event.event_type for event in events} == KINDS
    for event in events:
        for field, kind in EVENT.items():
            assert isinstance(getattr(event, field), kind), (event, field)


def test_timestamps_are_seconds_since_the_trace_began(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        threading.Event().wait(0.2)
        model(x)
    times = [event.timestamp for event in tracer.events]
    assert times == sorted(times)
    assert times[0] >= 0.0
    assert 0.2 <= times[-1] < 60.0


def test_running_totals_follow_each_event(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        model(x).sum().backward()
        at_end = torch.cuda.memory_allocated() if device == "cuda" else None
    before = tracer.events[0]
    for event in tracer.events[1:]:
        change = event.allocated_bytes - before.allocated_bytes
        if event.event_type in ("alloc", "free"):
            assert abs(change) == event.size_bytes
            assert (change > 0) == (event.event_type == "alloc")
        elif event.event_type in ("layer_enter", "layer_exit"):
            assert change == 0
        before = event
    if at_end is not None:
        assert tracer.events[-1].allocated_bytes == at_end


def test_the_memory_of_the_model_is_in_the_totals_from_the_start(device):
    model, x = make(device)
    own = sum(each.untyped_storage().nbytes() for each in model.state_dict().values())
    tracer = MemoryTracer()
    with tracer.trace(model):
        model(x)
    assert min(event.allocated_bytes for event in tracer.events) >= own


def test_each_call_of_a_layer_enters_and_leaves(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        model(x)
        model(x)
    open_layers = []
    entered = []
    for event in steps(tracer.events, "layer_enter", "layer_exit"):
        if event.event_type == "layer_enter":
            open_layers.append(event.layer_name)
            entered.append(event.layer_name)
        else:
            assert open_layers.pop() == event.layer_name
    assert open_layers == []
    for name in LAYERS:
        assert entered.count(name) == 2


def test_allocations_name_their_layer(device):
    events = traced(device).events
    encoder = [event for event in steps(events, "alloc") if event.layer_name == "encoder"]
    assert 64 * 256 * 4 in [event.size_bytes for event in encoder]


def test_fragmentation_of_an_event_is_reserved_but_not_allocated(device):
    for event in traced(device).events:
        if device == "cpu":
            assert event.reserved_bytes == event.allocated_bytes
        reserved = event.reserved_bytes
        expected = (reserved - event.allocated_bytes) / reserved if reserved else 0.0
        assert event.fragmentation_ratio == pytest.approx(expected)


def test_events_are_bounded_and_layers_are_not(device):
    limit = 100
    model, x = make(device)
    tracer = MemoryTracer(max_events=limit)
    with tracer.trace(model):
        for _ in range(60):
            model(x).sum().backward()
    assert len(tracer.events) == limit
    stats = tracer.get_layer_stats()
    assert set(stats) >= LAYERS
    assert all(stats[name].calls == 60 for name in LAYERS)


def test_the_limits_that_people_choose_are_taken():
    for limit in (10_000, 100_000, 1_000_000):
        assert MemoryTracer(max_events=limit).max_events == limit


# Fragmentation ------------------------------------------------------------------------------------


def test_fragmentation_is_a_ratio_for_each_layer(device):
    model, _ = make(device)
    tracer = MemoryTracer(enable_fragmentation_tracking=True)
    with tracer.trace(model):
        for batch in (4, 8, 16, 8, 4):
            model(torch.randn(batch, 128).to(device))
    fragmentation = tracer.get_fragmentation_stats()
    assert set(fragmentation) >= LAYERS
    lines = [f"{layer}: {ratio:.1%} fragmentation" for layer, ratio in fragmentation.items()]
    assert all(re.search(r": \d+\.\d% fragmentation$", line) for line in lines)
    assert all(isinstance(ratio, float) and 0 <= ratio <= 1 for ratio in fragmentation.values())
    if device == "cuda":
        assert fragmentation["middle"] > 0


def test_fragmentation_can_be_switched_off(device):
    tracer = traced(device, enable_fragmentation_tracking=False)
    assert tracer.get_fragmentation_stats() == {}
    assert tracer.get_layer_stats()


# Exports ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["place", "keyword"])
def test_exports_take_the_output_path(device, tmp_path, by):
    tracer = traced(device)
    for export in (tracer.export_flame_graph, tracer.export_timeline):
        path = tmp_path / f"{export.__name__}.json"
        if by == "place":
            export(str(path))
        else:
            export(output_path=str(path))
        assert json.loads(path.read_text())


def test_the_timeline_has_events_layer_stats_and_summary(device, tmp_path):
    tracer = traced(device)
    path = tmp_path / "memory_timeline.json"
    tracer.export_timeline(str(path))
    data = json.loads(path.read_text())
    assert set(data) >= {"events", "layer_stats", "summary"}
    assert len(data["events"]) == len(tracer.events)
    for event, row in zip(tracer.events, data["events"], strict=True):
        assert {name: row[name] for name in EVENT} == {name: getattr(event, name) for name in EVENT}
    stats = tracer.get_layer_stats()
    rows = data["layer_stats"]
    assert set(rows) == set(stats)
    for name, row in rows.items():
        assert {field: row[field] for field in STATS} == {
            field: getattr(stats[name], field) for field in STATS
        }
    assert data["summary"]


def test_the_plotted_curve_is_the_memory_in_use(device, tmp_path):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        model(x)
        large = mebibytes(8, "cpu") if device == "cpu" else torch.zeros(2 * MB, device=device)
        assert large.numel() == 2 * MB
        del large
    path = tmp_path / "memory_timeline.json"
    tracer.export_timeline(str(path))
    events = json.loads(path.read_text())["events"]
    timestamps = [e["timestamp"] for e in events]
    allocated = [e["allocated_bytes"] / (1024**3) for e in events]
    assert timestamps == sorted(timestamps)
    rise = max(allocated) - allocated[0]
    assert rise * 1024**3 >= 8 * MB
    assert rise * 1024**3 < 9 * MB
    assert allocated[-1] < max(allocated) - 7 / 1024


def test_the_flame_graph_is_what_speedscope_reads(device, tmp_path):
    tracer = traced(device)
    path = tmp_path / "memory_profile.json"
    tracer.export_flame_graph(str(path))
    content = json.loads(path.read_text())
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = content["shared"]["frames"]
    assert any("encoder" in frame["name"] for frame in frames)
    assert content["profiles"]
    for profile in content["profiles"]:
        assert profile["type"] in ("evented", "sampled")
        if profile["type"] == "evented":
            open_frames, last = [], profile["startValue"]
            for event in profile["events"]:
                assert event["at"] >= last
                last = event["at"]
                if event["type"] == "O":
                    open_frames.append(event["frame"])
                else:
                    assert open_frames.pop() == event["frame"]
            assert open_frames == []
            assert last <= profile["endValue"]
        else:
            assert len(profile["samples"]) == len(profile["weights"])
            assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)


def test_the_flame_graph_shows_memory_over_time(device, tmp_path):
    tracer = traced(device)
    path = tmp_path / "memory_profile.json"
    tracer.export_flame_graph(str(path))
    profiles = json.loads(path.read_text())["profiles"]
    units = {profile["unit"] for profile in profiles}
    assert units & {"seconds", "milliseconds", "microseconds", "nanoseconds"}
    assert "bytes" in units
