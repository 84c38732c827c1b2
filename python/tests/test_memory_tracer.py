"""MemoryTracer: what it counts, what it calls it, and that it leaves nothing behind."""

import dataclasses
import io
import json
import tempfile
import threading
from pathlib import Path

import pytest
import torch

import plimsoll
from plimsoll import MemoryTracer, _attachment
from plimsoll.memory_tracer import NO_LAYER, LayerMemoryStats, MemoryEvent

nn = torch.nn
ROWS = 32


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert _attachment.attached() is None
    assert not plimsoll._record.is_recording()
    assert list(tmp_path.glob("plimsoll-*")) == []


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


def test_each_layer_has_the_bytes_that_arithmetic_says():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model) as same:
        train_step(model)
    assert same is tracer
    stats = tracer.get_layer_stats()
    assert set(stats) == {"Net", "up", "act", "down", NO_LAYER}
    assert stats["up"].parameter_bytes == 4 * (64 * 256 + 256)
    assert stats["down"].parameter_bytes == 4 * 256 * 8
    # The output of relu is kept for backward: by itself and by the layer behind it.
    assert stats["act"].saved_bytes == 4 * ROWS * 256
    assert stats["up"].saved_bytes == 0
    for each in stats.values():
        phases = each.forward_bytes + each.backward_bytes + each.optimizer_bytes + each.other_bytes
        assert phases == each.live_bytes
        assert each.live_bytes <= each.peak_bytes <= each.inclusive_peak_bytes
    assert sum(each.live_bytes for each in stats.values()) == peak_of(tracer)


def peak_of(tracer: MemoryTracer) -> int:
    (cpu,) = tracer.report().devices
    return cpu["requested_active"]["peak_bytes"]


def test_peaks_are_inclusive_and_sorted():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    peaks = tracer.get_peak_memory_per_layer()
    assert list(peaks.values()) == sorted(peaks.values(), reverse=True)
    assert peaks["Net"] >= peaks["up"] >= 4 * (64 * 256 + 256)


def test_names_are_those_of_named_modules_however_deep():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh())))
    tracer = MemoryTracer()
    with tracer.trace(model):
        train_step(model, 4)
    wanted = {name for name, _ in model.named_modules() if name}
    assert set(tracer.get_layer_stats()) <= wanted | {"Sequential", NO_LAYER}
    assert {"0", "1", "1.0", "1.1.0"} <= set(tracer.get_layer_stats())


def test_a_traced_part_of_a_model_has_the_names_of_the_part():
    model, tracer = nn.Sequential(Net(), nn.Linear(8, 1)), MemoryTracer()
    with tracer.trace(model[0]):
        train_step(model)
    stats = tracer.get_layer_stats()
    assert stats["up"].parameter_bytes == 4 * (64 * 256 + 256)
    assert "Sequential.1" in stats


def test_several_models_keep_their_full_names():
    one, two, tracer = Net(), nn.Sequential(nn.Linear(64, 8)), MemoryTracer()
    with tracer.trace(one), tracer.trace(two):
        train_step(one)
        train_step(two)
    assert {"Net.up", "Sequential.0"} <= set(tracer.get_layer_stats())


def test_nested_blocks_are_one():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        with tracer.trace(model):
            train_step(model)
        assert _attachment.attached() is not None
        train_step(model)
    actions = [event.action for event in tracer.get_events() if event.layer == "act"]
    assert actions.count("alloc") >= 2


def test_repeated_blocks_tell_the_most_that_each_layer_had():
    model, tracer = Net(), MemoryTracer()
    for rows in (ROWS, 4 * ROWS, ROWS):
        with tracer.trace(model):
            train_step(model, rows=rows)
    assert tracer.get_layer_stats()["act"].saved_bytes == 4 * 4 * ROWS * 256
    assert peak_of(tracer) < tracer.get_layer_stats()["Net"].inclusive_peak_bytes
    tracer.reset()
    assert tracer.get_layer_stats() == {}


def test_hooks_go_when_an_exception_leaves_the_block():
    class Failing(nn.Module):
        def forward(self, x):
            raise RuntimeError("not today")

    model, tracer = nn.Sequential(nn.Linear(4, 4), Failing()), MemoryTracer()
    with pytest.raises(RuntimeError, match="not today"), tracer.trace(model):
        train_step(model, 4)
    assert _attachment.attached() is None
    assert tracer.get_layer_stats()["0"].parameter_bytes == 4 * (4 * 4 + 4)
    with tracer.trace(model[0]):
        train_step(model[0], 4)


def test_threads_may_trace_with_one_tracer():
    tracer, failures = MemoryTracer(), []

    def work() -> None:
        try:
            model = Net()
            for _ in range(3):
                with tracer.trace(model):
                    train_step(model)
                tracer.get_layer_stats()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert tracer.get_layer_stats()


def test_events_are_bounded_and_peaks_are_not_lost():
    model, tracer = Net(), MemoryTracer(max_events=500)
    with tracer.trace(model):
        for _ in range(200):
            train_step(model)
    assert len(tracer.get_events()) < 2_000
    assert tracer.get_layer_stats()["up"].parameter_bytes == 4 * (64 * 256 + 256)


def test_events_tell_what_happened():
    model, tracer = Net(), MemoryTracer(device="cpu")
    with tracer.trace(model):
        train_step(model)
    events = tracer.get_events()
    assert all(isinstance(event, MemoryEvent) for event in events)
    (relu,) = (e for e in events if (e.layer, e.phase, e.action) == ("act", "forward", "alloc"))
    assert (relu.size_bytes, relu.operator) == (4 * ROWS * 256, "aten::relu")
    assert [e.time_ns for e in events] == sorted(e.time_ns for e in events)


def test_the_timeline_is_json_of_events_layers_and_summary(tmp_path):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    path = tmp_path / "timeline.json"
    tracer.export_timeline(path)
    content = json.loads(path.read_text())
    assert set(content) == {"events", "layer_stats", "summary"}
    assert [MemoryEvent(**event) for event in content["events"]] == tracer.get_events()
    stats = {name: LayerMemoryStats(**each) for name, each in content["layer_stats"].items()}
    assert stats == tracer.get_layer_stats()
    assert content["summary"]["requested_active"]["peak_bytes"] == peak_of(tracer)


def test_the_flame_graph_is_speedscopes(tmp_path):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    path = tmp_path / "flame.json"  # whatever the name
    tracer.export_flame_graph(path)
    content = json.loads(path.read_text())
    assert content["$schema"].startswith("https://www.speedscope.app")
    names = [frame["name"] + frame.get("file", "") for frame in content["shared"]["frames"]]
    assert any("test_memory_tracer.py" in name for name in names)


def test_the_summary_names_layers_and_categories(capsys):
    model, tracer, text = Net(), MemoryTracer(), io.StringIO()
    with tracer.trace(model):
        train_step(model)
    tracer.print_summary(file=text)
    tracer.print_summary()
    assert capsys.readouterr().out == text.getvalue()
    assert "parameter" in text.getvalue()
    assert "Net" in text.getvalue()
    assert "file_cut" not in text.getvalue()


def test_nothing_traced_is_told_as_such(tmp_path, capsys):
    tracer = MemoryTracer()
    assert tracer.get_layer_stats() == {}
    assert tracer.get_peak_memory_per_layer() == {}
    assert tracer.get_events() == []
    assert tracer.get_fragmentation_stats() == {}
    assert tracer.report() is None
    tracer.print_summary()
    assert capsys.readouterr().out == "Nothing was traced.\n"
    for export in (tracer.export_timeline, tracer.export_flame_graph):
        with pytest.raises(plimsoll.InvalidArgumentError, match="nothing was traced"):
            export(tmp_path / "x.json")


def test_fragmentation_is_that_of_the_allocator(generated):
    tracer = MemoryTracer(device="cuda")
    tracer._last = plimsoll.open(generated["planted"])
    (gpu,) = tracer._last.devices
    told = tracer.get_fragmentation_stats()
    assert told["cached_bytes"] == gpu["fragmentation"]["cached_bytes"] > 0
    assert 0 < told["ratio"] < 1
    untold = MemoryTracer(device="cuda", enable_fragmentation_tracking=False)
    untold._last = tracer._last
    assert untold.get_fragmentation_stats() == {}


def test_the_cpu_has_no_fragmentation_to_tell():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    assert tracer.get_fragmentation_stats() == {}


@pytest.mark.parametrize("arguments", [{"max_events": 0}, {"device": "tpu"}, {"device": "cuda:x"}])
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(plimsoll.InvalidArgumentError):
        MemoryTracer(**arguments)


def test_a_model_without_parameters_is_traced_on_the_cpu():
    tracer = MemoryTracer()
    model = nn.ReLU()
    with tracer.trace(model):
        model(torch.ones(1000))
    assert tracer.get_layer_stats()["ReLU"].peak_bytes == 4000


def test_classes_are_plain_and_frozen():
    for kind in (LayerMemoryStats, MemoryEvent):
        assert dataclasses.is_dataclass(kind)
    assert Path(plimsoll.MemoryTracer.__module__.replace(".", "/")).name == "memory_tracer"
