"""What no operator has used for two steps: `uses` of monitors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plimsoll
from plimsoll import _record

MIB = 2**20
KEPT = 5


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def train(end_step: Callable[[int], object], steps: int, kept: list[torch.Tensor] | None) -> None:
    """Train; the first steps keep a tensor of 1 MiB each, which their operators use."""
    net = torch.nn.Sequential(torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for i in range(steps):
        batch = torch.randn(1024, 256)
        if kept is not None and i < KEPT:
            kept.append(batch)
        net(batch).square().mean().backward()
        optimizer.step()
        end_step(i)
        optimizer.zero_grad()


def samples(folder: Path, kept: list[torch.Tensor] | None, **options: Any) -> dict[int, int | None]:
    """Return the figure by iteration."""
    found: dict[int, int | None] = {}
    monitor = plimsoll.TrainingMonitor(
        output_dir=str(folder), **{"interval": 1, "adapter": "libtorch", **options}
    )

    def note(sample: _record.MemorySample) -> None:
        found[sample.iteration] = sample.devices[0].unused_bytes

    monitor._monitor.on_sample(note)
    with monitor:
        train(monitor.step, 12, kept)
    return found


@pytest.mark.parametrize(("uses", "interval"), [("always", 1), ("auto", 4), ("sampled", 4)])
def test_the_bytes_that_a_list_keeps_are_exact(tmp_path: Path, uses: str, interval: int) -> None:
    kept: list[torch.Tensor] = []
    found = samples(tmp_path, kept, uses=uses, interval=interval)
    assert found[0] is None  # two steps have not ended yet
    assert {found[i] for i in range(8, 12) if i in found} == {KEPT * MIB}
    (log,) = (tmp_path / "profiles").iterdir()
    text = log.read_text()
    assert "\nUnused for two steps: 5.000 MB\n" in text
    assert "\nUnused by layer: - 5.000 MB in 5\n" in text


def test_healthy_training_has_none(tmp_path: Path) -> None:
    found = samples(tmp_path, None, uses="always")
    assert {found[i] for i in range(2, 12)} == {0}


def test_without_uses_there_is_no_figure(tmp_path: Path) -> None:
    assert set(samples(tmp_path, []).values()) == {None}
    (log,) = (tmp_path / "profiles").iterdir()
    assert "Unused" not in log.read_text()


def test_memory_that_may_be_read_elsewhere_counts_as_used(tmp_path: Path) -> None:
    arrays = []

    class Reader(list[torch.Tensor]):
        def append(self, tensor: torch.Tensor) -> None:
            super().append(tensor)
            arrays.append(tensor.numpy())

    found = samples(tmp_path, Reader(), uses="always")
    assert found[11] == 0


def test_a_later_monitor_may_want_uses(tmp_path: Path) -> None:
    with plimsoll.track_memory("first"):
        pass
    found = samples(tmp_path, [], uses="always")
    assert found[11] == KEPT * MIB


def test_analyze_reads_the_figure_of_a_breakdown_log(tmp_path: Path, plimsoll_command: str) -> None:
    log = tmp_path / "memory.log"
    scalars: dict[str, float] = {}

    class Writer:
        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            scalars[tag] = scalar_value

    def end_step(i: int) -> None:
        plimsoll.log_tensor_memory_breakdown(Writer(), i, interval=4, log_file=log, uses="sampled")

    plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), text_log=False, interval=100, adapter="libtorch"
    )
    kept: list[torch.Tensor] = []
    train(end_step, 12, kept)
    known = KEPT - 1  # the first one is older than the first call
    assert scalars["Memory/Tensor_Unused/total_MB"] == known
    ran = subprocess.run(
        [plimsoll_command, "analyze", str(log), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (device,) = json.loads(ran.stdout)["devices"]
    (figure,) = [each for each in device["figures"] if each["name"] == "unused_bytes"]
    assert figure["end"] == figure["max"] == known * MIB


def test_an_unknown_value_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("plimsoll:\n  uses: allways\n")
    with pytest.raises(plimsoll.Error, match=r"config.yaml:2:3: .*did you mean always\?"):
        plimsoll.load_options(config)
    with pytest.raises(plimsoll.Error, match="uses 'allways' is not one of auto, always"):
        plimsoll.log_tensor_memory_breakdown(None, 0, uses="allways")
