"""MemoryTracer: the habits of users who trace one model layer by layer."""

import dataclasses
import inspect
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from habit_models import LAYERS, make
from traced_habits import STATS, steps, traced

import plimsoll
from plimsoll import LayerMemoryStats, MemoryTracer

ROOT = Path(__file__).resolve().parents[2]

# Making one ---------------------------------------------------------------------------------------


def test_arguments_have_their_names_places_and_defaults():
    parameters = list(inspect.signature(MemoryTracer).parameters.values())[:3]
    assert [each.name for each in parameters] == [
        "max_events",
        "device",
        "enable_fragmentation_tracking",
    ]
    assert parameters[0].default == 100_000
    assert parameters[2].default is True


def test_all_three_arguments_may_be_positional(device):
    model, x = make(device)
    tracer = MemoryTracer(10_000, "cuda:0" if device == "cuda" else "cpu", True)
    with tracer.trace(model):
        model(x)
    assert tracer.get_layer_stats()


@pytest.mark.only("cpu")
def test_cuda_asked_for_without_a_gpu_gives_one_message_and_the_cpus_figures(device, capfd):
    model, x = make(device)
    tracer = MemoryTracer(device="cuda:0")
    for _ in range(3):
        with tracer.trace(model):
            model(x)
    said = [line for line in capfd.readouterr().err.splitlines() if "cuda:0" in line]
    assert len(said) == 1
    assert "CPU" in said[0]
    assert set(tracer.get_layer_stats()) >= LAYERS
    assert max(tracer.get_peak_memory_per_layer().values()) > 0
    assert tracer.events


def test_the_default_device_is_that_of_the_model(device):
    tracer = traced(device)
    assert tracer.get_peak_memory_per_layer()["encoder"] >= 128 * 256 * 4


# The quick start ----------------------------------------------------------------------------------


def test_quick_start(device, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, x = make(device)
    tracer = MemoryTracer(max_events=10000)
    with tracer.trace(model):
        output = model(x)
    assert output.shape == (64, 4)
    tracer.print_summary()
    assert "encoder" in capsys.readouterr().out
    tracer.export_flame_graph("memory_profile.json")
    tracer.export_timeline("memory_timeline.json")
    assert {path.name for path in tmp_path.iterdir()} == {
        "memory_profile.json",
        "memory_timeline.json",
    }


def test_the_result_is_bit_for_bit_that_of_the_untraced_model(device):
    model, x = make(device)
    expected = model(x)
    with MemoryTracer().trace(model):
        found = model(x)
    assert torch.equal(expected.cpu(), found.cpu())


def test_trace_is_used_with_as_or_without(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model) as given:
        model(x)
    assert given is tracer or given is None


# LayerMemoryStats ---------------------------------------------------------------------------------


def test_layer_stats_begin_with_the_seven_fields():
    names = [field.name for field in dataclasses.fields(LayerMemoryStats)]
    assert names[:7] == list(STATS)


def test_layer_stats_are_by_the_names_of_named_modules(device):
    stats = traced(device).get_layer_stats()
    assert set(stats) >= LAYERS
    for name, each in stats.items():
        assert each.layer_name == name
        for field, kind in STATS.items():
            assert isinstance(getattr(each, field), kind), (name, field)


def test_layer_stats_are_printed_in_mb(device):
    lines = [
        f"{name}: {stats.peak_allocated / (1024**2):.2f} MB"
        for name, stats in traced(device).get_layer_stats().items()
    ]
    assert any(re.fullmatch(r"encoder: 0\.\d\d MB", line) for line in lines)


def test_peak_allocated_includes_weights_and_outputs(device):
    stats = traced(device).get_layer_stats()
    weight, output = 128 * 256 * 4, 64 * 256 * 4
    assert stats["encoder"].peak_allocated >= weight + output
    assert stats["encoder"].peak_allocated < weight + output + 64 * 1024
    assert stats["middle"].peak_allocated >= stats["middle.0"].peak_allocated


def test_peak_reserved_is_what_the_allocator_had(device):
    stats = traced(device).get_layer_stats()["middle"]
    assert stats.peak_reserved >= stats.peak_allocated
    if device == "cuda":
        assert stats.peak_reserved == torch.cuda.memory_reserved()


def test_allocations_and_deallocations_are_counted(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        for _ in range(3):
            model(x)
    stats = tracer.get_layer_stats()
    assert stats["encoder"].total_allocations >= 3
    assert stats["encoder"].total_deallocations >= 3
    assert stats["encoder"].total_allocations <= 12


def test_a_layers_time_is_that_of_its_calls(device):
    stats = traced(device).get_layer_stats()
    assert all(stats[name].duration_ms > 0 for name in LAYERS)
    assert stats["middle"].duration_ms >= stats["middle.0"].duration_ms
    assert stats["middle"].duration_ms < 10_000


def test_average_fragmentation_is_a_ratio(device):
    for each in traced(device).get_layer_stats().values():
        assert 0.0 <= each.avg_fragmentation <= 1.0
        if device == "cpu":
            assert each.avg_fragmentation == 0.0


def test_the_hungriest_layers_are_listed(device):
    peaks = traced(device).get_peak_memory_per_layer()
    assert all(isinstance(each, int) for each in peaks.values())
    ordered = sorted(peaks.items(), key=lambda item: item[1], reverse=True)
    assert next(name for name, _ in ordered if name in LAYERS) == "middle"
    stats = plimsoll.MemoryTracer and traced(device).get_layer_stats()
    assert {name: each.peak_allocated for name, each in stats.items()} == peaks


def test_backward_belongs_to_the_layers_too(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        model(x).sum().backward()
    weight = 128 * 256 * 4
    assert tracer.get_peak_memory_per_layer()["encoder"] >= 2 * weight  # and its gradient


def test_repeated_blocks_add_up(device):
    model, x = make(device)
    tracer = MemoryTracer()
    counts = []
    for _ in range(3):
        with tracer.trace(model):
            model(x)
        counts.append(tracer.get_layer_stats()["encoder"].total_allocations)
    assert counts == sorted(counts)
    assert set(tracer.get_layer_stats()) >= LAYERS


# While it runs ------------------------------------------------------------------------------------


def test_hooks_are_there_only_inside(device):
    model, x = make(device)
    tracer = MemoryTracer()

    def hooks():
        return sum(
            len(each._forward_hooks) + len(each._forward_pre_hooks) + len(each._backward_hooks)
            for each in model.modules()
        )

    for _ in range(2):
        with tracer.trace(model):
            model(x)
        assert hooks() == 0
        assert not plimsoll._record.is_recording()


def test_an_exception_comes_out_and_leaves_nothing_behind(device):
    model, x = make(device)
    tracer = MemoryTracer()

    class BrokenError(Exception):
        pass

    with pytest.raises(BrokenError), tracer.trace(model):
        model(x)
        raise BrokenError
    assert not plimsoll._record.is_recording()
    assert set(tracer.get_layer_stats()) >= LAYERS


def test_hooks_of_the_program_stay(device):
    model, x = make(device)
    called = []
    model.encoder.register_forward_hook(lambda *_: called.append("after"))
    model.encoder.register_forward_pre_hook(lambda *_: called.append("before"))
    with MemoryTracer().trace(model):
        model(x)
    model(x)
    assert called == ["before", "after"] * 2


def test_threads_may_run_the_model(device):
    model, x = make(device)
    tracer = MemoryTracer()
    with tracer.trace(model):
        threads = [threading.Thread(target=lambda: model(x)) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    entered = [event.layer_name for event in steps(tracer.events, "layer_enter")]
    assert entered.count("encoder") == 4
    assert tracer.get_layer_stats()["encoder"].total_allocations >= 4


def test_one_trace_around_each_call_of_a_loop(device):
    model, x = make(device)
    tracer = MemoryTracer()
    for _ in range(10):
        with tracer.trace(model):
            model(x)
    assert tracer.get_layer_stats()["encoder"].duration_ms > 0


def test_lite_mode_knows_the_layers(device):
    tracer = traced(device, mode="lite")
    assert set(tracer.get_layer_stats()) >= LAYERS
    assert tracer.events


def test_torchs_own_history_may_be_on(device):
    if device == "cuda":
        torch.cuda.memory._record_memory_history()
    try:
        assert set(traced(device).get_layer_stats()) >= LAYERS
    finally:
        if device == "cuda":
            torch.cuda.memory._record_memory_history(enabled=None)


def test_a_tracer_without_a_trace_is_empty(capsys):
    tracer = MemoryTracer()
    assert tracer.get_layer_stats() == {}
    assert tracer.get_peak_memory_per_layer() == {}
    assert tracer.get_fragmentation_stats() == {}
    assert list(tracer.events) == []
    tracer.print_summary()
    assert capsys.readouterr().out


def test_a_model_without_named_modules(device):
    linear = torch.nn.Linear(8, 8).to(device)
    tracer = MemoryTracer()
    with tracer.trace(linear):
        linear(torch.ones(2, 8).to(device))
    assert "Linear" in tracer.get_layer_stats()


# The demo -----------------------------------------------------------------------------------------


def test_the_demo_has_five_parts(tmp_path):
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/memory_tracer_demo.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.lower()
    for part in ("basic", "fragmentation", "transformer", "flame graph", "overhead"):
        assert part in said
