"""Invalid arguments do not stop a program in the middle of its training."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plimsoll
from plimsoll._process import arguments


@pytest.fixture(autouse=True)
def nothing_is_watched(unwatched: None) -> Iterator[None]:
    yield


class Unprintable:
    def __str__(self) -> str:
        raise ValueError


class OddText(str):
    def encode(self, *_: Any) -> bytes:
        raise ValueError


@pytest.mark.parametrize(
    "name",
    ["\ud800", 7, None, "\0", "π", Unprintable(), OddText("odd"), "a tensor"],
    ids=["surrogate", "number", "nothing", "null", "pi", "unprintable", "odd", "tensor"],
)
def test_no_name_stops_a_training(name: Any, capsys: pytest.CaptureFixture[str]) -> None:
    name = torch.ones(2) if name == "a tensor" else name
    with plimsoll.track_memory(name), plimsoll.region(name):
        torch.zeros(1000)
    tracker, profiler = plimsoll.MemoryTracker(), plimsoll.BatchMemoryProfiler()
    tracker.record(name)
    profiler.checkpoint(name)
    plimsoll.MemoryMonitor.print_memory_usage(name)
    assert "[Memory] " in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [{"large_tensor_mb": float("inf")}, {"large_tensor_mb": float("nan")}, {"top_layers": -1}],
)
def test_a_breakdown_refuses_an_argument_at_the_first_call(wrong: dict[str, Any]) -> None:
    with pytest.raises(plimsoll.InvalidArgumentError, match=f"{next(iter(wrong))}="):
        plimsoll.log_tensor_memory_breakdown(None, 1, interval=10, **wrong)
    plimsoll.log_tensor_memory_breakdown(None, 10.0, interval=10)


@pytest.mark.parametrize("number", [None, "3", 2.5, float("nan"), "a tensor", Unprintable()])
def test_no_number_stops_a_training(number: Any, monkeypatch: Any, capfd: Any) -> None:
    number = torch.ones(3) if number == "a tensor" else number
    monkeypatch.setattr(arguments, "_reported", set())
    monitor = plimsoll.EpochMemoryMonitor()
    monitor.on_epoch_start()
    for _ in range(3):
        monitor.on_batch_end(number)
        plimsoll.log_tensor_memory_breakdown(None, number, interval=1)
    printed = capfd.readouterr().err.splitlines()
    assert [line.partition(": it must be")[0].partition("=")[0] for line in printed] == [
        "plimsoll: EpochMemoryMonitor.on_batch_end(): batch_idx",
        "plimsoll: log_tensor_memory_breakdown(): iteration",
    ]


class UnprintableError(MemoryError):
    def __str__(self) -> str:
        raise ValueError


def test_the_error_of_a_training_is_not_replaced(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(UnprintableError), plimsoll.TrainingMonitor(output_dir=tmp_path):
        raise UnprintableError
    monitor = plimsoll.TrainingMonitor(output_dir=tmp_path)
    monkeypatch.setattr(monitor, "ran_out", lambda **_: 1 / 0)
    monkeypatch.setattr(monitor, "close", lambda: 1 / 0)
    with pytest.raises(MemoryError, match="mine"), monitor:
        raise MemoryError("mine")
    monkeypatch.undo()
    monitor.close()


@pytest.mark.parametrize("loss", [0.25, "a tensor", float("nan"), "text"])
def test_a_loss_in_place_of_the_iteration_is_taken_for_the_loss(tmp_path, capfd, loss):
    if loss == "a tensor":
        loss = torch.tensor(0.25)
    monitor = plimsoll.TrainingMonitor(output_dir=tmp_path, interval=2)
    for _ in range(5):
        monitor.step(loss)
    monitor.close()
    assert monitor.samples == 3
    log = Path(monitor.text_log_path).read_text()
    assert re.findall(r"=== Iteration (\d+)", log) == ["0", "2", "4"]
    assert capfd.readouterr().err.count("It is used as the loss") == 1


def test_whole_numbers_of_any_kind_are_iterations(tmp_path):
    monitor = plimsoll.TrainingMonitor(output_dir=tmp_path, interval=2)
    for number in (torch.tensor(4), True, 7, 8):
        monitor.step(number, loss=0.5)
    monitor.close()
    assert monitor.samples == 2
