"""Plimsoll's blocks among the ranges of `torch.profiler`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import plimsoll
from plimsoll._monitoring.profiler_ranges import profiled_mark, profiled_range

pytestmark = pytest.mark.usefixtures("unwatched")


def ranges_of(profiler: Any, path: Path) -> list[dict[str, Any]]:
    """Plimsoll's ranges in the Chrome trace, ordered by their begin."""
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    ours = [event for event in events if str(event.get("name")).startswith("plimsoll: ")]
    return sorted(ours, key=lambda event: float(event["ts"]))


def test_blocks_and_steps_are_ranges_with_their_bytes(tmp_path: Path) -> None:
    batches = plimsoll.BatchMemoryProfiler()
    with (
        plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=100) as monitor,
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
    ):
        with plimsoll.track_memory("load"), plimsoll.region("inner"):
            data = torch.ones(4 << 20)
        batches.checkpoint("loaded")
        monitor.step(7)
    ranges = ranges_of(profiler, tmp_path / "trace.json")
    names = [event["name"] for event in ranges]
    assert names[:2] == ["plimsoll: load", "plimsoll: inner"]
    bytes_of = r"CPU tensors \d+\.\d MB"
    assert re.fullmatch(rf"plimsoll: inner: {bytes_of} \(\+16\.0 MB\)", names[2])
    assert re.fullmatch(rf"plimsoll: load: {bytes_of} \(\+16\.0 MB\)", names[3])
    assert re.fullmatch(rf"plimsoll: loaded: {bytes_of}", names[4])
    assert re.fullmatch(rf"plimsoll: step 7: {bytes_of}", names[5])
    assert len(names) == 6
    outer, inner = ranges[0], ranges[1]
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert data.numel() == 4 << 20


def test_a_block_that_raises_ends_its_range(tmp_path: Path) -> None:
    with torch.profiler.profile() as profiler:
        with pytest.raises(ZeroDivisionError), plimsoll.track_memory("fails"):
            raise ZeroDivisionError
        torch.ones(1)
    assert len(ranges_of(profiler, tmp_path / "trace.json")) == 2


def test_without_a_profiler_nothing_is_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> None:
        raise AssertionError("memory was asked for")

    monkeypatch.setattr("plimsoll._record.current_usage", asked)
    with profiled_range("block"):
        profiled_mark("mark")
