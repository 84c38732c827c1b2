"""What a program passes may be wrong; it does not stop in the middle of its training for that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plimsoll


@pytest.fixture(autouse=True)
def nothing_is_watched(unwatched: None) -> Iterator[None]:
    yield


@pytest.mark.parametrize("name", ["\ud800", 7, None, "\0", "π"])
def test_no_name_stops_a_training(name: Any, capsys: pytest.CaptureFixture[str]) -> None:
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
