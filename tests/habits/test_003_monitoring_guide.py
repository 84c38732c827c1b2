"""The monitors of a training loop: the habits of users who print a line for each batch."""

import functools
import inspect
import re
from pathlib import Path

import pytest
import torch
from habit_models import MB, make, mebibytes
from printed_lines import CHANGE, NUMBER, PLACE, USAGE, matches, number

import plimsoll
from plimsoll import (
    BatchMemoryProfiler,
    EpochMemoryMonitor,
    MemoryMonitor,
    MemoryTracker,
    OptimizationMemoryMonitor,
    monitor_memory,
    track_memory,
)

ROOT = Path(__file__).resolve().parents[2]
# Measures -----------------------------------------------------------------------------------------


def test_print_memory_usage(device, capsys):
    kept = mebibytes(3, device)
    MemoryMonitor.print_memory_usage("After model creation: ")
    line = capsys.readouterr().out
    matches(rf"After model creation: {USAGE[device]}\n", line)
    if device == "cuda":
        assert number(line, "GPU Allocated:") == pytest.approx(
            torch.cuda.memory_allocated() / MB, abs=0.05
        )
        assert number(line, "GPU Reserved:") == pytest.approx(
            torch.cuda.memory_reserved() / MB, abs=0.05
        )
    del kept


def test_print_memory_usage_without_a_prefix(device, capsys):
    mebibytes(1, device)
    MemoryMonitor.print_memory_usage()
    matches(USAGE[device] + "\n", capsys.readouterr().out)


def test_single_figures_are_numbers_in_mb(device):
    cpu = MemoryMonitor.get_cpu_memory_mb()
    assert isinstance(cpu, float)
    assert 50 < cpu < 20_000
    before = MemoryMonitor.get_gpu_memory_mb()
    assert isinstance(before, float)
    kept = mebibytes(5, device)
    after = MemoryMonitor.get_gpu_memory_mb()
    assert after - before == (5.0 if device == "cuda" else 0.0)
    del kept


def test_the_summary_is_a_mapping_of_numbers(device):
    kept = mebibytes(1, device)
    summary = MemoryMonitor.get_memory_summary()
    assert summary["cpu_memory_mb"] == pytest.approx(MemoryMonitor.get_cpu_memory_mb(), rel=0.2)
    assert "gpu_memory_mb" in summary
    assert "gpu_reserved_mb" in summary
    del kept


def test_the_functions_are_static_methods():
    for name in (
        "print_memory_usage",
        "get_cpu_memory_mb",
        "get_gpu_memory_mb",
        "get_memory_summary",
    ):
        assert isinstance(inspect.getattr_static(MemoryMonitor, name), staticmethod)


# Blocks and functions -----------------------------------------------------------------------------


def test_a_block_prints_its_change_and_its_peak(device, capsys):
    mebibytes(1, device)
    with track_memory("loading dataset"):
        kept = mebibytes(3, device)
        passing = mebibytes(40, device)
        del passing
    first, second = capsys.readouterr().out.splitlines()
    place = PLACE[device]
    matches(rf"\[Memory\] loading dataset: CPU {CHANGE}, {place} \+3\.0 MB", first)
    matches(rf"         Peak {place}: {NUMBER}", second)
    assert number(second, f"Peak {place}:") >= 43.0
    del kept


def test_a_block_that_raises_prints_and_raises(device, capsys):
    mebibytes(1, device)
    with pytest.raises(ZeroDivisionError), track_memory("broken"):
        raise ZeroDivisionError
    assert capsys.readouterr().out.startswith("[Memory] broken: CPU ")


def test_a_method_is_monitored(device, capsys):
    class Trainer:
        @monitor_memory("training epoch")
        def _train_epoch(self, count):
            return mebibytes(count, device).numel()

    mebibytes(1, device)
    assert Trainer()._train_epoch(2) == 2 * MB // 4
    first, second = capsys.readouterr().out.splitlines()
    matches(rf"\[Memory\] training epoch: CPU {CHANGE}, {PLACE[device]} {CHANGE}", first)
    matches(rf"         Peak {PLACE[device]}: {NUMBER}", second)
    assert Trainer._train_epoch.__name__ == "_train_epoch"


def test_the_decorator_goes_without_a_name_and_among_others(device, capsys):
    mebibytes(1, device)

    @monitor_memory()
    def alone():
        return 1

    @functools.lru_cache
    @monitor_memory("inner")
    @torch.no_grad()
    def among():
        return torch.is_grad_enabled()

    assert (alone(), among(), among()) == (1, False, False)
    out = capsys.readouterr().out
    assert "alone: CPU" in out
    assert out.count("[Memory] inner") == 1


# An epoch -----------------------------------------------------------------------------------------


def epoch(device, monitor, batches, loss):
    model, x = make(device)
    monitor.on_epoch_start()
    for batch_idx in range(batches):
        model(x).sum().backward()
        monitor.on_batch_end(batch_idx, loss)
    passing = mebibytes(30, device)
    del passing
    monitor.on_epoch_end()


def test_the_first_batches_have_lines_and_the_epoch_its_peak(device, capsys):
    epoch(device, EpochMemoryMonitor(enabled=True, verbose_batches=5), 8, 0.014553)
    lines = [line for line in capsys.readouterr().out.splitlines() if "enabled" not in line]
    place = PLACE[device]
    assert len(lines) == 6
    for index, line in enumerate(lines[:5]):
        matches(rf"  Batch {index}: {place} {NUMBER}, CPU {NUMBER}, loss=0\.014553", line)
    reserved = f", {NUMBER} reserved" if device == "cuda" else f"(, {NUMBER} reserved)?"
    matches(rf"  Epoch end: {place} {NUMBER} allocated{reserved}, peak {NUMBER}", lines[5])
    assert float(re.search(r"peak (\d+\.\d)", lines[5])[1]) >= 30.0


def test_a_loss_may_be_a_tensor(device, capsys):
    epoch(device, EpochMemoryMonitor(verbose_batches=1), 2, torch.tensor(0.5).to(device))
    assert "loss=0.500000" in capsys.readouterr().out


def test_the_banner(device, capsys):
    mebibytes(1, device)
    EpochMemoryMonitor(enabled=True, verbose_batches=5)
    out = capsys.readouterr().out
    assert "Memory monitoring enabled (verbose for first 5 batches)" in out.splitlines()
    EpochMemoryMonitor(enabled=False, verbose_batches=5)
    assert capsys.readouterr().out == ""


def test_the_defaults_are_on_and_five():
    parameters = inspect.signature(EpochMemoryMonitor).parameters
    assert list(parameters) == ["enabled", "verbose_batches"]
    assert [each.default for each in parameters.values()] == [True, 5]


def test_off_prints_nothing_and_watches_nothing(device, capsys):
    epoch(device, EpochMemoryMonitor(enabled=False), 3, 0.1)
    profiler = BatchMemoryProfiler(enabled=False)
    profiler.checkpoint("start")
    profiler.checkpoint("end")
    profiler.print_summary()
    assert capsys.readouterr().out == ""
    assert not plimsoll._record.is_recording()


# A batch ------------------------------------------------------------------------------------------


def test_where_within_a_batch_the_memory_goes(device, capsys):
    profiler = BatchMemoryProfiler(enabled=True)
    model, _ = make("cpu")
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch_idx in range(3):
        if batch_idx >= 2:
            profiler.disable()  # only the first ones
        profiler.checkpoint("start")
        batch = torch.ones(4096, 128).to(device)
        profiler.checkpoint("data_to_gpu")
        output = model(batch)
        profiler.checkpoint("forward")
        loss = output.sum()
        loss.backward()
        profiler.checkpoint("backward")
        optimizer.step()
        profiler.checkpoint("optimizer")
        profiler.print_summary()
        profiler.reset()
        del batch, output, loss
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 5
    assert lines[0] == "    Memory profile:"
    names = ["start", "data_to_gpu", "forward", "backward", "optimizer"]
    for line, before, after in zip(lines[1:5], names, names[1:], strict=False):
        matches(
            rf"      {before} → {after}: {PLACE[device]} {NUMBER} \({CHANGE}\)",
            line,
        )
    assert "(+2.0 MB)" in lines[1]
    assert float(re.search(r"\(([+-][\d.]+) MB\)", lines[2])[1]) > 8
    assert float(re.search(r"\(([+-][\d.]+) MB\)", lines[3])[1]) < -8


# Checkpoints --------------------------------------------------------------------------------------


def test_several_checkpoints_are_summed_up(device, capsys):
    mebibytes(1, device)
    tracker = MemoryTracker()
    tracker.record("initialization")
    kept = mebibytes(4, device)
    tracker.record("after_data_loading")
    del kept
    tracker.record("after_training")
    tracker.print_summary()
    out = capsys.readouterr().out
    places = [
        out.index(name) for name in ("initialization", "after_data_loading", "after_training")
    ]
    assert places == sorted(places)
    assert "+4.0 MB" in out
    assert "-4.0 MB" in out


# The physical trainer -----------------------------------------------------------------------------


def test_an_optimizer_that_evaluates_a_loss_has_lines(device, capsys):
    mebibytes(1, device)
    MemoryMonitor.print_memory_usage("After loading ground truth data: ")
    monitor = OptimizationMemoryMonitor(enabled=True, verbose_evaluations=5)
    capsys_lines = capsys.readouterr().out.splitlines()
    assert capsys_lines[0].startswith("After loading ground truth data: CPU: ")
    monitor.on_start()
    for loss in (0.145320, 0.098754, 0.05, 0.04, 0.03, 0.02, 0.01):
        passing = mebibytes(25, device)
        del passing
        monitor.on_loss_evaluation(loss)
    monitor.on_end()
    lines = capsys.readouterr().out.splitlines()
    matches(rf"  Loss evaluation 0: {USAGE[device]}", lines[0])
    assert lines[1] == "    Iteration 1: loss=0.145320"
    matches(rf"  Loss evaluation 1: {USAGE[device]}", lines[2])
    assert lines[3] == "    Iteration 2: loss=0.098754"
    assert len([line for line in lines if "Loss evaluation" in line]) == 5
    matches(rf"After optimization: {USAGE[device]}", lines[-2])
    matches(rf"  Peak {PLACE[device]}( memory)? during optimization: {NUMBER}", lines[-1])
    assert float(re.search(r"(\d+\.\d) MB", lines[-1])[1]) >= 25.0
