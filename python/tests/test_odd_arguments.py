"""What a program passes may be wrong; it does not stop in the middle of its training for that."""

from __future__ import annotations

from collections.abc import Iterator
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
