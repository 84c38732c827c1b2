"""MemoryTracer: its counts and names, and that it leaves nothing behind."""

import dataclasses
import inspect
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import plimsoll
from plimsoll import MemoryTracer
from plimsoll._torch import attachment
from plimsoll.memory_tracer import NO_LAYER, LayerMemoryStats, MemoryEvent

nn = torch.nn
ROWS = 32


ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    assert attachment.attached() is None
    assert not plimsoll._record.is_recording()


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


def test_each_layer_has_the_bytes_computed_by_hand():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model) as same:
        train_step(model)
    assert same is tracer
    stats = tracer.get_layer_stats()
    assert set(stats) == {"Net", "up", "act", "down", NO_LAYER}
    assert stats["up"].parameter_bytes == 4 * (64 * 256 + 256)
    assert stats["down"].parameter_bytes == 4 * 256 * 8
    # The output of relu is kept for backward by relu itself and by the next layer.
    assert stats["act"].saved_bytes == 4 * ROWS * 256
    assert stats["up"].saved_bytes == 0
    for each in stats.values():
        phases = each.forward_bytes + each.backward_bytes + each.optimizer_bytes + each.other_bytes
        assert phases == each.live_bytes
        assert each.live_bytes <= each.peak_bytes <= each.peak_allocated
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
        assert attachment.attached() is not None
        train_step(model)
    types = [event.event_type for event in tracer.events if event.layer_name == "act"]
    assert types.count("layer_enter") == types.count("layer_exit") == 2


def test_repeated_blocks_report_the_most_that_each_layer_had():
    model, tracer = Net(), MemoryTracer()
    for rows in (ROWS, 4 * ROWS, ROWS):
        with tracer.trace(model):
            train_step(model, rows=rows)
    assert tracer.get_layer_stats()["act"].saved_bytes == 4 * 4 * ROWS * 256
    assert peak_of(tracer) < tracer.get_layer_stats()["Net"].peak_allocated
    tracer.reset()
    assert tracer.get_layer_stats() == {}
    assert tracer.events == []


def test_repeated_blocks_add_up_calls_and_events():
    model, once, thrice = Net(), MemoryTracer(), MemoryTracer()
    with once.trace(model):
        model(torch.ones(ROWS, 64))
    for _ in range(3):
        with thrice.trace(model):
            model(torch.ones(ROWS, 64))
    one, three = once.get_layer_stats()["act"], thrice.get_layer_stats()["act"]
    assert one.calls == 1
    assert three.calls == 3
    assert three.total_allocations == 3 * one.total_allocations == 3
    assert three.peak_allocated == one.peak_allocated
    times = [event.timestamp for event in thrice.events]
    assert times == sorted(times)
    assert times[0] == 0
    begins = [event for event in thrice.events if event.event_type == "layer_enter"]
    assert [event.layer_name for event in begins] == ["Net", "up", "act", "down"] * 3


def test_hooks_go_when_an_exception_leaves_the_block():
    class Failing(nn.Module):
        def forward(self, x):
            raise RuntimeError("not today")

    model, tracer = nn.Sequential(nn.Linear(4, 4), Failing()), MemoryTracer()
    with pytest.raises(RuntimeError, match="not today"), tracer.trace(model):
        train_step(model, 4)
    assert attachment.attached() is None
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
    assert len(tracer.events) == 500
    stats = tracer.get_layer_stats()["up"]
    assert stats.parameter_bytes == 4 * (64 * 256 + 256)
    assert stats.calls == 200
    assert tracer.events[-1].timestamp > tracer.events[0].timestamp > 0


def test_export_functionality_the_timeline_is_json_of_events_layers_and_summary(tmp_path):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    path = tmp_path / "timeline.json"
    tracer.export_timeline(path)
    content = json.loads(path.read_text())
    assert set(content) == {"events", "layer_stats", "summary"}
    assert [MemoryEvent(**event) for event in content["events"]] == tracer.events
    stats = {name: LayerMemoryStats(**each) for name, each in content["layer_stats"].items()}
    assert stats == tracer.get_layer_stats()
    assert content["summary"]["requested_active"]["peak_bytes"] == peak_of(tracer)
    again = tmp_path / "again.json"
    tracer.export_timeline(output_path=str(again))
    assert again.read_text() == path.read_text()


def test_export_functionality_the_flame_graph_is_speedscopes(tmp_path):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        train_step(model)
    path = tmp_path / "flame.json"  # the name does not choose the format
    tracer.export_flame_graph(path)
    tracer.export_flame_graph(output_path=str(path))
    content = json.loads(path.read_text())
    assert content["profiles"][content["activeProfileIndex"]]["name"] == "cpu, memory over time"
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


def test_nothing_traced_is_reported_as_such(tmp_path, capsys):
    tracer = MemoryTracer()
    assert tracer.get_layer_stats() == {}
    assert tracer.get_peak_memory_per_layer() == {}
    assert tracer.events == []
    assert tracer.get_fragmentation_stats() == {}
    assert tracer.get_allocator_stats() == {}
    assert tracer.report() is None
    tracer.print_summary()
    assert capsys.readouterr().out == "Nothing was traced.\n"
    for export in (tracer.export_timeline, tracer.export_flame_graph):
        with pytest.raises(plimsoll.InvalidArgumentError, match="nothing was traced"):
            export(tmp_path / "x.json")


def test_fragmentation_analysis_of_the_allocator(generated):
    tracer = MemoryTracer(device="cuda")
    tracer._trace = plimsoll.open(generated["planted"])
    (gpu,) = tracer._trace.devices
    figures = tracer.get_allocator_stats()
    assert figures["cached_bytes"] == gpu["fragmentation"]["cached_bytes"] > 0
    assert 0 < figures["ratio"] < 1
    untracked = MemoryTracer(device="cuda", enable_fragmentation_tracking=False)
    untracked._trace = tracer._trace
    assert untracked.get_allocator_stats() == {}


def test_fragmentation_analysis_by_layer():
    model, tracer = Net(), MemoryTracer()
    untracked = MemoryTracer(enable_fragmentation_tracking=False)
    for each in (tracer, untracked):
        with each.trace(model):
            train_step(model)
    ratios = tracer.get_fragmentation_stats()
    assert set(ratios) == set(tracer.get_layer_stats())
    assert [f"{ratio:.1%}" for ratio in ratios.values()] == ["0.0%"] * len(ratios)
    assert untracked.get_fragmentation_stats() == {}
    assert tracer.get_allocator_stats() == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_missing_is_reported_once_and_the_cpu_traced(capsys):
    model, tracer = Net(), MemoryTracer(device="cuda:0")
    for _ in range(2):
        with tracer.trace(model):
            train_step(model)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "plimsoll: cuda:0 is unavailable: torch finds no CUDA device; MemoryTracer traces the CPU "
        "instead"
    ]
    assert tracer.get_layer_stats()["up"].parameter_bytes == 4 * (64 * 256 + 256)
    assert tracer.get_fragmentation_stats()


def test_lite_counts_the_same_bytes_without_operators():
    model = Net()
    peaks = []
    for mode in ("full", "lite"):
        tracer = MemoryTracer(mode=mode)
        with tracer.trace(model):
            model(torch.ones(ROWS, 64))
        stats = tracer.get_layer_stats()
        peaks.append(stats["act"].peak_allocated)
        assert stats["up"].calls == 1
        operators = {each.operator for each in tracer.events if each.event_type == "alloc"}
        assert ("aten::relu" in operators) == (mode == "full")
    assert peaks[0] == peaks[1] == 4 * ROWS * 256


@pytest.mark.slow
def test_the_example_runs(tmp_path):
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/memory_tracer_demo.py"],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    for title in ("Basic tracing", "Fragmentation", "Transformer", "Flame graph", "Overhead"):
        assert title in ran.stdout
    assert {each.name for each in tmp_path.iterdir()} == {
        "memory_profile.json",
        "memory_timeline.json",
    }


@pytest.mark.parametrize(
    "arguments", [{"max_events": 0}, {"device": "tpu"}, {"device": "cuda:x"}, {"mode": "fast"}]
)
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(plimsoll.InvalidArgumentError):
        MemoryTracer(**arguments)


def test_an_argument_that_is_not_a_model_is_refused_by_name():
    tracer = MemoryTracer()
    message = r"trace\(\) takes a torch.nn.Module, not str: pass the model"
    with pytest.raises(plimsoll.InvalidArgumentError, match=message), tracer.trace("encoder"):
        pass
    with tracer.trace(torch.nn.Linear(2, 2)):  # the refused call left nothing running
        pass
    assert "Linear" in tracer.get_layer_stats()


def test_a_model_without_parameters_is_traced_on_the_cpu():
    tracer = MemoryTracer()
    model = nn.ReLU()
    with tracer.trace(model):
        model(torch.ones(1000))
    assert tracer.get_layer_stats()["ReLU"].peak_bytes == 4000


def test_edge_cases_an_empty_block_and_a_model_without_layers():
    class Bare(nn.Module):
        def forward(self, x):
            return x

    tracer = MemoryTracer()
    with tracer.trace(Bare()):
        pass
    assert {event.event_type for event in tracer.events} <= {"snapshot"}
    for each in tracer.get_layer_stats().values():
        assert (each.calls, each.duration_ms) == (0, 0.0)


def test_classes_are_plain_and_frozen():
    seven = {
        LayerMemoryStats: "layer_name peak_allocated peak_reserved total_allocations "
        "total_deallocations avg_fragmentation duration_ms",
        MemoryEvent: "timestamp event_type size_bytes layer_name allocated_bytes reserved_bytes "
        "fragmentation_ratio",
    }
    for kind, names in seven.items():
        assert dataclasses.is_dataclass(kind)
        assert [field.name for field in dataclasses.fields(kind)][:7] == names.split()
    assert list(inspect.signature(MemoryTracer).parameters)[:4] == [
        "max_events",
        "device",
        "enable_fragmentation_tracking",
        "mode",
    ]
    assert Path(plimsoll.MemoryTracer.__module__.replace(".", "/")).name == "memory_tracer"
