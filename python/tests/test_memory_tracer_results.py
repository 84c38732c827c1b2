"""The events and layer statistics of a MemoryTracer: their fields and totals."""

import ctypes
import os

import pytest
import torch

import plimsoll
from plimsoll import MemoryTracer
from plimsoll.memory_tracer import NO_LAYER, MemoryEvent

nn = torch.nn
ROWS = 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.act = nn.ReLU()
        self.down = nn.Linear(256, 8, bias=False)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


def train_step(model, features: int = 64, rows: int = ROWS) -> None:
    model(torch.ones(rows, features)).sum().backward()


def peak_of(tracer: MemoryTracer) -> int:
    (cpu,) = tracer.report().devices
    return cpu["requested_active"]["peak_bytes"]


def test_event_recording():
    model, tracer = Net(), MemoryTracer(device="cpu")
    with tracer.trace(model):
        train_step(model)
    events = tracer.events
    assert all(isinstance(event, MemoryEvent) for event in events)
    (relu,) = (
        each
        for each in events
        if (each.layer_name, each.phase, each.event_type) == ("act", "forward", "alloc")
    )
    assert (relu.size_bytes, relu.operator) == (4 * ROWS * 256, "aten::relu")
    assert {each.event_type for each in events} == {
        "alloc",
        "free",
        "snapshot",
        "layer_enter",
        "layer_exit",
    }
    assert [each.timestamp for each in events] == sorted(each.timestamp for each in events)
    assert events[0].timestamp == 0.0
    assert 0 < events[-1].timestamp < 60


def test_each_event_has_the_true_running_total():
    model, tracer = Net(), MemoryTracer()
    kept = torch.ones(1000)
    with tracer.trace(model):
        train_step(model)
    total = 0
    for event in tracer.events:
        total += event.size_bytes if event.event_type in ("alloc", "snapshot") else 0
        total -= event.size_bytes if event.event_type == "free" else 0
        assert event.allocated_bytes == event.reserved_bytes == total
        assert event.fragmentation_ratio == 0.0
    before, after = tracer.events[0], tracer.events[-1]
    assert before.event_type == after.event_type == "snapshot"
    assert before.size_bytes >= kept.nbytes + sum(each.nbytes for each in model.parameters())
    grown = sum(each.grad.nbytes for each in model.parameters())
    assert after.allocated_bytes - before.allocated_bytes == grown
    assert max(event.allocated_bytes for event in tracer.events) == peak_of(tracer)


def test_layer_tracking():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        for _ in range(2):
            model(torch.ones(ROWS, 64))
    stats = tracer.get_layer_stats()
    for name, each in stats.items():
        assert each.layer_name == name
        assert each.peak_allocated == tracer.get_peak_memory_per_layer()[name]
        assert each.peak_reserved >= each.peak_allocated
        assert 0.0 <= each.avg_fragmentation <= 1.0
    assert [stats[name].calls for name in ("Net", "up", "act", "down", NO_LAYER)] == [2, 2, 2, 2, 0]
    assert stats["act"].total_allocations == stats["act"].total_deallocations == 2
    inside = [stats[name] for name in ("up", "act", "down")]
    assert stats["Net"].total_allocations >= sum(each.total_allocations for each in inside)
    assert stats["Net"].duration_ms >= sum(each.duration_ms for each in inside) > 0
    entered = [e for e in tracer.events if e.event_type == "layer_enter" and e.layer_name == "up"]
    left = [e for e in tracer.events if e.event_type == "layer_exit" and e.layer_name == "up"]
    spans = [end.time_ns - begin.time_ns for begin, end in zip(entered, left, strict=True)]
    assert stats["up"].duration_ms == sum(spans) / 1e6


def test_a_layer_that_calls_itself_is_timed_once():
    class Again(nn.Module):
        def forward(self, x, times=3):
            return self(x + 1, times - 1) if times else x

    model, tracer = nn.Sequential(Again()), MemoryTracer()
    with tracer.trace(model):
        model(torch.ones(8))
    stats = tracer.get_layer_stats()
    assert stats["0"].calls == 4
    assert stats["0"].duration_ms <= stats["Sequential"].duration_ms


def test_a_list_of_layers_has_the_time_of_the_layers_in_it():
    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def forward(self, x):
            return self.blocks[1](self.blocks[0](x))

    model, tracer = Blocks(), MemoryTracer()
    with tracer.trace(model):
        model(torch.ones(4, 8))
    stats = tracer.get_layer_stats()
    assert stats["blocks"].calls == 0
    parts = stats["blocks.0"].duration_ms + stats["blocks.1"].duration_ms
    assert stats["blocks"].duration_ms == pytest.approx(parts)


def test_only_the_tracers_recording_marks_calls(tmp_path):
    model, tracer = Net(), MemoryTracer()
    with plimsoll.record(tmp_path / "other.plim"), tracer.trace(model):
        model(torch.ones(ROWS, 64))
    kinds = plimsoll.open(tmp_path / "other.plim").marks.to_pydict()["kind"]
    assert not any(kind.startswith("layer") for kind in kinds)
    assert tracer.get_layer_stats()["up"].calls == 1


def test_layers_are_in_the_order_of_the_modules():
    model, tracer = nn.Sequential(*(nn.Linear(8, 8) for _ in range(12)), Net()), MemoryTracer()
    with tracer.trace(model):
        x = torch.ones(4, 8)
        for layer in [*model][:12]:
            x = layer(x)
        x.sum().backward()
        train_step(model[12])
    names = [name or "Sequential" for name, _ in model.named_modules()]
    assert [*tracer.get_layer_stats()] == [*names, NO_LAYER]


def test_events_are_a_sequence_with_columns():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    events = tracer.events
    once = list(events)
    assert events[-1] == once[-1]
    assert events[2:5] == once[2:5]
    assert events.to_pydict()["size_bytes"] == [event.size_bytes for event in once]
    with pytest.raises(IndexError):
        events[len(events)]
    with tracer.trace(Net()):
        train_step(model)
    assert list(events) == once  # its names and times, too
    assert len(tracer.events) > len(once)


def test_a_tracer_takes_at_most_120_bytes_an_event():
    model, tracer = Net(), MemoryTracer(max_events=1_000_000)
    with tracer.trace(model):
        train_step(model)
    tracer.get_layer_stats()
    before = _resident_bytes()
    with tracer.trace(model), torch.no_grad():
        for _ in range(8_000):
            model(torch.ones(1, 64))
    events = tracer.events
    assert len(events) > 100_000
    assert tracer.get_layer_stats()["up"].calls == 8_001
    assert _resident_bytes() - before < 120 * len(events)


def _resident_bytes():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_figures_inside_the_first_block_are_announced_as_missing(capfd):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
        assert tracer.get_layer_stats() == {}
        assert tracer.events == []
    assert tracer.get_layer_stats()["up"].calls == 1
    sentence = "MemoryTracer has no figures yet: the first block of trace(model) has not ended"
    assert capfd.readouterr().err.count(sentence) == 1
