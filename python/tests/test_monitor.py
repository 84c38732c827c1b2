"""The measurements and monitors of `plimsoll.monitor`, with real tensors."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import torch

import plimsoll

MB = 1024 * 1024


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def mebi(count: int) -> torch.Tensor:
    return torch.zeros(count, MB // 4)


def masked(text: str) -> list[str]:
    """Mask the system's figures for this process, which do not matter here."""
    lines = re.sub(r"CPU(:?) [+-]?[\d.]+ MB( \([+-][\d.]+ MB\))?", r"CPU\1 # MB", text).splitlines()
    return [line.rstrip() for line in lines]


def test_a_block_reports_its_change_and_its_true_peak(capsys: pytest.CaptureFixture[str]) -> None:
    with plimsoll.track_memory("loading dataset"):
        kept = mebi(3)
        mebi(40)
    assert kept.numel()
    assert masked(capsys.readouterr().out) == [
        "[Memory] loading dataset: CPU # MB, CPU tensors +3.0 MB",
        "         Peak CPU tensors: 43.0 MB",
    ]


def test_a_block_that_raises_is_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), plimsoll.track_memory("broken"):
        mebi(1)
        raise ZeroDivisionError
    assert "[Memory] broken" in capsys.readouterr().out


def test_functions_of_all_kinds_are_monitored(capsys: pytest.CaptureFixture[str]) -> None:
    @plimsoll.monitor_memory("plain")
    def plain(count: int) -> int:
        return mebi(count).shape[0]

    @plimsoll.monitor_memory()
    async def coroutine(count: int) -> int:
        await asyncio.sleep(0)
        return mebi(count).shape[0]

    @plimsoll.monitor_memory("generator")
    def generator(count: int) -> Iterator[int]:
        yield mebi(count).shape[0]
        yield 7

    @plimsoll.monitor_memory("async generator")
    async def async_generator(count: int) -> AsyncIterator[int]:
        yield mebi(count).shape[0]

    async def all_of(values: AsyncIterator[int]) -> list[int]:
        return [value async for value in values]

    assert plain(5) == 5
    assert asyncio.run(coroutine(6)) == 6
    assert list(generator(7)) == [7, 7]
    assert asyncio.run(all_of(async_generator(8))) == [8]
    assert plain.__name__ == "plain"
    out = capsys.readouterr().out
    reported = dict(re.findall(r"\[Memory\] (.+?): CPU .*\n +Peak CPU tensors: ([\d.]+) MB", out))
    assert reported == {
        "plain": "5.0",
        "coroutine": "6.0",
        "generator": "7.0",
        "async generator": "8.0",
    }


def test_an_async_generator_gets_what_is_sent_and_thrown() -> None:
    @plimsoll.monitor_memory()
    async def echo() -> AsyncGenerator[str, str]:
        said = "begun"
        while True:
            try:
                said = yield said
            except KeyError as error:
                said = f"caught {error}"
            if said == "end":
                return

    async def talk() -> list[str]:
        values = echo()
        reported = [
            await anext(values),
            await values.asend("a"),
            await values.athrow(KeyError("b")),
        ]
        with pytest.raises(StopAsyncIteration):
            await values.asend("end")
        return reported

    assert asyncio.run(talk()) == ["begun", "a", "caught 'b'"]


def test_a_generator_that_is_closed_ends_its_block(capsys: pytest.CaptureFixture[str]) -> None:
    @plimsoll.monitor_memory("endless")
    def endless() -> Generator[int, None, None]:
        while True:
            yield 1

    values = endless()
    next(values)
    assert capsys.readouterr().out == ""
    values.close()
    assert "[Memory] endless" in capsys.readouterr().out


def test_threads_have_separate_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    def work(number: int) -> None:
        for _ in range(20):
            with plimsoll.track_memory(f"thread {number}"):
                mebi(1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out = capsys.readouterr().out
    assert out.count("[Memory] thread") == 80
    peaks = [float(peak) for peak in re.findall(r"Peak CPU tensors: ([\d.]+)", out)]
    assert len(peaks) == 80
    assert all(1.0 <= peak <= 4.0 for peak in peaks)


def test_the_decorator_works_without_parentheses(capsys: pytest.CaptureFixture[str]) -> None:
    @plimsoll.monitor_memory
    def load(count: int) -> int:
        return mebi(count).shape[0]

    assert load(4) == 4
    assert masked(capsys.readouterr().out) == [
        "[Memory] load: CPU # MB, CPU tensors +0.0 MB",
        "         Peak CPU tensors: 4.0 MB",
    ]


def test_every_documented_name_comes_from_the_package_itself() -> None:
    names = "MemoryMonitor MemoryTracker EpochMemoryMonitor OptimizationMemoryMonitor"
    names += " BatchMemoryProfiler track_memory monitor_memory MemoryTracer LayerMemoryStats"
    names += " MemoryEvent log_tensor_memory_breakdown TrainingMonitor load_options"
    for name in names.split():
        assert name in plimsoll.__all__
        assert hasattr(plimsoll, name)


def test_one_line_shows_what_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    plimsoll.MemoryMonitor.get_memory_summary()  # starts counting
    before = plimsoll.MemoryMonitor.get_memory_summary()["cpu_tensors_mb"]
    kept = mebi(7)
    summary = plimsoll.MemoryMonitor.get_memory_summary()
    assert kept.numel()
    assert before is not None
    assert summary["cpu_tensors_mb"] == pytest.approx(before + 7)
    assert summary["gpu_memory_mb"] is None
    assert plimsoll.MemoryMonitor.get_gpu_memory_mb() == 0.0
    assert plimsoll.MemoryMonitor.get_cpu_memory_mb() > 50
    plimsoll.MemoryMonitor.print_memory_usage("After model creation: ")
    plimsoll.MemoryMonitor.print_memory_usage()
    line = f"CPU: # MB | CPU tensors: {before + 7:.1f} MB"
    assert masked(capsys.readouterr().out) == [f"After model creation: {line}", line]


def test_a_tracker_shows_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = plimsoll.MemoryTracker()
    tracker.record("initialization")
    kept = mebi(6)
    tracker.record("after_training")
    assert kept.numel()
    tracker.print_summary()
    assert [name for name, _ in tracker.checkpoints()] == ["initialization", "after_training"]
    assert masked(capsys.readouterr().out) == [
        "[Memory] summary",
        "  initialization: CPU # MB, CPU tensors 0.0 MB",
        "  after_training: CPU # MB, CPU tensors 6.0 MB (+6.0 MB)",
    ]


class Unread:
    """A loss that must not be read."""

    def __float__(self) -> float:
        raise AssertionError("it was read")


def test_an_epoch_reads_a_loss_only_for_the_lines_it_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    monitor = plimsoll.EpochMemoryMonitor(verbose_batches=1)
    monitor.on_epoch_start()
    mebi(9)
    monitor.on_batch_end(0, torch.tensor(0.5, requires_grad=True))
    monitor.on_batch_end(1, Unread())
    monitor.on_epoch_end()
    banner, first, last = masked(capsys.readouterr().out)
    assert banner == "Memory monitoring enabled (verbose for first 1 batch)"
    assert re.fullmatch(r"  Batch 0: CPU tensors 0\.0 MB, CPU # MB, loss=0\.500000", first)
    assert last == "  Epoch end: CPU tensors 0.0 MB allocated, peak 9.0 MB"


def test_a_loss_that_is_not_a_number_loses_only_its_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    monitor = plimsoll.EpochMemoryMonitor()
    monitor.on_batch_end(0, object())
    assert masked(capsys.readouterr().out)[1:] == ["  Batch 0: CPU tensors 0.0 MB, CPU # MB"]


def test_loss_evaluations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    monitor = plimsoll.OptimizationMemoryMonitor(verbose_evaluations=2)
    x = torch.ones(MB // 4, requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (x - 3).square().sum()
        loss.backward()
        monitor.on_loss_evaluation(loss)
        return loss

    monitor.on_start()
    optimizer.step(closure)
    monitor.on_end()
    lines = masked(capsys.readouterr().out)
    assert [re.sub(r"[\d.]+ MB|(?<==)\d+\.\d{6}$", "#", line) for line in lines] == [
        "  Loss evaluation 0: CPU: # MB | CPU tensors: #",
        "    Iteration 1: loss=#",
        "  Loss evaluation 1: CPU: # MB | CPU tensors: #",
        "    Iteration 2: loss=#",
        "After optimization: CPU: # MB | CPU tensors: #",
        "  Peak CPU tensors during optimization: #",
    ]
    assert monitor.evaluations > 2


def test_a_batch_profiler_reports_what_each_part_added(capsys: pytest.CaptureFixture[str]) -> None:
    profiler = plimsoll.BatchMemoryProfiler()
    profiler.checkpoint("data")
    kept = mebi(4)
    profiler.checkpoint("forward")
    del kept
    profiler.checkpoint("backward")
    profiler.print_summary()
    profiler.disable()
    profiler.checkpoint("more")
    profiler.print_summary()
    assert capsys.readouterr().out.splitlines() == [
        "    Memory profile:",
        "      data → forward: CPU tensors 4.0 MB (+4.0 MB)",
        "      forward → backward: CPU tensors 0.0 MB (-4.0 MB)",
    ]


class Writer:
    """A stub of SummaryWriter that stores the calls."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars[tag, global_step] = scalar_value


def test_the_breakdown_sums_to_the_live_memory() -> None:
    writer = Writer()
    plimsoll.log_tensor_memory_breakdown(writer, 0, interval=2)
    net = torch.nn.Linear(512, 512)
    optimizer = torch.optim.Adam(net.parameters())
    loss = net(torch.randn(8, 512)).square().sum()
    loss.backward()
    optimizer.step()
    plimsoll.log_tensor_memory_breakdown(writer, 1, interval=2)
    plimsoll.log_tensor_memory_breakdown(writer, 2, interval=2, section="TensorProfiling")
    assert {step for _, step in writer.scalars} == {0, 2}
    at = {tag: value for (tag, step), value in writer.scalars.items() if step == 2}
    weights = 4 * (512 * 512 + 512) / MB
    assert at["TensorProfiling/Tensor_Category/parameters_MB"] == pytest.approx(weights)
    assert at["TensorProfiling/Tensor_Category/gradients_MB"] == pytest.approx(weights)
    five = ("parameters", "gradients", "activations", "buffers", "other")
    whole = sum(at[f"TensorProfiling/Tensor_Category/{name}_MB"] for name in five)
    dtypes = sum(value for tag, value in at.items() if "/Tensor_DType/" in tag)
    assert whole == pytest.approx(dtypes)
    assert whole >= 4 * weights


def test_a_recording_sees_everything_while_a_monitor_runs(tmp_path: Path) -> None:
    """A recording gets operators and lines even if a less demanding monitor started first."""
    plimsoll.EpochMemoryMonitor()
    with plimsoll.record(tmp_path / "t.plim"):
        kept = torch.randn(100, 100) @ torch.randn(100, 100)
    assert kept.numel()
    trace = plimsoll.open(tmp_path / "t.plim")
    assert "aten::matmul" in {row["key"] for row in trace.tables["by_operator"]}
    assert any("test_monitor.py" in row["key"] for row in trace.tables["by_line"])


FORKED = """
import os, torch, plimsoll
torch.set_num_threads(1)  # OpenMP's threads do not outlive a fork
monitor = plimsoll.EpochMemoryMonitor()
kept = torch.zeros(2, 1 << 18)
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        with plimsoll.track_memory("child"):
            torch.zeros(5, 1 << 18)
            mine = torch.zeros(3, 1 << 18)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
with plimsoll.track_memory("parent"):
    torch.zeros(7, 1 << 18)
"""


def test_the_child_of_a_fork_watches_for_itself(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    child = [
        "[Memory] child: CPU # MB, CPU tensors +3.0 MB",
        "         Peak CPU tensors: 7.0 MB",
    ]
    parent = [
        "[Memory] parent: CPU # MB, CPU tensors +0.0 MB",
        "         Peak CPU tensors: 9.0 MB",
    ]
    banner = "Memory monitoring enabled (verbose for first 5 batches)"
    assert masked(ran.stdout) == [banner, *child, *child, *parent]


OFF = """
import os, sys, torch, plimsoll
from plimsoll import _record
from plimsoll._torch import attachment
net = torch.nn.Linear(4, 4)
net(torch.randn(2, 4)).sum().backward()
before = (len(os.listdir("/proc/self/task")), os.listdir("."))
monitors = [plimsoll.EpochMemoryMonitor(enabled=False),
            plimsoll.OptimizationMemoryMonitor(enabled=False),
            plimsoll.BatchMemoryProfiler(enabled=False)]
net(torch.randn(2, 4)).sum().backward()
monitors[0].on_epoch_start(); monitors[0].on_batch_end(0, 1.0); monitors[0].on_epoch_end()
monitors[1].on_start(); monitors[1].on_loss_evaluation(1.0); monitors[1].on_end()
monitors[2].checkpoint("a"); monitors[2].print_summary()
assert attachment.attached() is None
assert not _record.is_watching() and not _record.is_recording()
assert "_plimsoll_torch" not in sys.modules
assert before == (len(os.listdir("/proc/self/task")), os.listdir("."))
print("nothing")
"""


def test_off_there_is_no_hook_no_thread_and_no_file(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OFF],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "nothing\n"), ran.stderr
